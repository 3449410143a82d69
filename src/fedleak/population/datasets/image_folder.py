"""Your own images: a folder per user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Task, UserId, counted
from fedleak.errors import DataError
from fedleak.population import fingerprint
from fedleak.population.datasets import image_files
from fedleak.population.datasets import rows as tables
from fedleak.population.datasets.dates import read_days
from fedleak.population.datasets.rows import Row
from fedleak.population.datasets.table import class_names
from fedleak.population.finding import Finding
from fedleak.population.population import Examples, Population, User

__all__ = ["ImageFolder"]

_LABELS, _USERS = "labels.csv", "users.csv"


@dataclass(frozen=True, slots=True)
class _Image:
    file: Path
    label: str
    row: Row | None  # its row in labels.csv
    time: float | None = None  # days since 1970


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """Your own PNG, JPEG or PGM images, in `<path>/<user>/<class>/`, or in `<path>/<user>/` with `<path>/labels.csv`.

    labels.csv has the columns file (relative to the folder, `<user>/image.png`) and label, and may have time and
    album. `<path>/users.csv`, if there, has the column user, and every other column is an attribute.
    """

    name: ClassVar[str] = "image-folder"

    path: Annotated[str, Meta(min_length=1, description="the folder that holds one folder per user")]
    size: Annotated[int, Meta(ge=4, le=512, description="images are resized to this many pixels square")] = 32
    colour: Annotated[bool, Meta(description="three channels rather than shades of grey")] = False

    def load(self, seed: int) -> Population:
        """Read every image; everything is used, so the seed plays no part."""
        root = Path(self.path).expanduser()
        if not root.is_dir():
            raise DataError(f"{root}: no such folder; expected one folder per user in it")
        root = root.resolve()
        folders = [entry for entry in _entries(root, root) if entry.is_dir()]
        rows = _labels(root / _LABELS) if (root / _LABELS).exists() else None
        about = _attributes(root / _USERS) if (root / _USERS).exists() else {}
        if not folders:
            raise DataError(f"{root}: holds no folders; expected one folder per user")
        days = _days(rows)
        owned_by = {UserId(folder.name): list(_images(folder, root, rows, days)) for folder in folders}
        classes = class_names({image.label for owned in owned_by.values() for image in owned})
        ignored = _ignored(root)
        if len(classes) < 2:
            told = f" ({ignored[0].text.rstrip('.')})" if ignored else ""
            raise DataError(f"{root}: {len(classes)} class(es) of images found; at least 2 are needed{told}")
        place = {name: i for i, name in enumerate(classes)}
        users = tuple(User(name, self._examples(owned, place), about.get(name, {})) for name, owned in owned_by.items())
        return Population(
            users=users,
            task=Task.CLASSIFY,
            outputs=len(classes),
            source=f"{sum(map(len, owned_by.values()))} images of {len(users)} users in the folder {root.name}.",
            outputs_named=classes,
            findings=tuple(ignored),
        )

    def _examples(self, owned: list[_Image], place: Mapping[str, int]) -> Examples:
        shape = (len(owned), 3 if self.colour else 1, self.size, self.size)
        x = np.zeros(shape, dtype=np.float32)
        for i, image in enumerate(owned):
            x[i] = image_files.read_image(image.file, self.size, colour=self.colour)
        rows = [image.row for image in owned if image.row is not None]
        time = [image.time for image in owned if image.time is not None]
        album = [row.text("album") for row in rows] if rows and "album" in rows[0].values else None
        return Examples(
            x=x,
            y=np.array([place[image.label] for image in owned], dtype=np.int64),
            time=np.array(time, dtype=np.float64) if time else None,
            album=None if album is None else np.unique(album, return_inverse=True)[1].astype(np.int64),
            fingerprint=fingerprint.of_images(x),
        )


def _entries(folder: Path, root: Path) -> Iterator[Path]:
    """List a folder in a fixed order; a link that leads out of the data is rejected."""
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name.startswith("."):
            continue
        if entry.is_symlink() and not entry.resolve().is_relative_to(root):
            raise DataError(f"{entry}: a link that leads out of {root}; copy the files into the folder instead")
        yield entry


def _images(
    folder: Path, root: Path, rows: Mapping[str, Row] | None, days: Mapping[str, float] | None
) -> Iterator[_Image]:
    for entry in _entries(folder, root):
        if entry.is_dir():
            for file in _entries(entry, root):
                if file.suffix.lower() in image_files.ENDINGS:
                    yield _labelled(file, root, rows, days, entry.name)
        elif entry.suffix.lower() in image_files.ENDINGS:
            yield _labelled(entry, root, rows, days, None)


def _labelled(
    file: Path, root: Path, rows: Mapping[str, Row] | None, days: Mapping[str, float] | None, inside: str | None
) -> _Image:
    if rows is None:
        if inside is None:
            raise DataError(
                f"{file}: has no label. Put a user's images into one folder per class "
                f"({file.parent}/<class>/{file.name}), or write {root / _LABELS} with the columns file,label."
            )
        return _Image(file, inside, None)
    name = file.relative_to(root).as_posix()
    if name not in rows:
        raise DataError(f"{root / _LABELS}: no row for {name}; add one or remove the image")
    return _Image(file, rows[name].text("label"), rows[name], None if days is None else days[name])


def _days(rows: Mapping[str, Row] | None) -> Mapping[str, float] | None:
    """The time of every row of labels.csv, read together: one way of writing them for all."""
    listed = list(rows.values()) if rows else []
    if not listed or "time" not in listed[0].values:
        return None
    return dict(zip(rows or (), read_days(listed, "time").tolist(), strict=True))


def _ignored(root: Path) -> list[Finding]:
    """Name the files that are not read: images of other formats, and whatever lies too deep or beside the users."""
    tables_beside = {root / _LABELS, root / _USERS}
    left = []
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root)
        if any(part.startswith(".") for part in inside.parts) or file in tables_beside or not file.is_file():
            continue
        if len(inside.parts) not in (2, 3) or file.suffix.lower() not in image_files.ENDINGS:
            left.append(inside)
    if not left:
        return []
    kinds = Counter(file.suffix.lower() or "without ending" for file in left)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    text = (
        f"{counted(len(left), 'file')} ignored: {listed}. Only PNG, JPEG, PGM and PPM "
        "images in <user>/ or <user>/<class>/ are read; convert or move what belongs to the data."
    )
    folders = dict.fromkeys(file.parts[0] for file in left if len(file.parts) > 1)  # named by users
    return [Finding(kind="ignored", count=len(left), action="drop", text=text, users=[[name] for name in folders])]


def _labels(file: Path) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for row in tables.read_rows(file):
        name = row.text("file")
        if rows.setdefault(name, row) is not row:
            raise row.error("file", f"{name} was given before, in line {rows[name].line}")
    return rows


def _attributes(file: Path) -> dict[UserId, dict[str, str]]:
    about: dict[UserId, dict[str, str]] = {}
    for row in tables.read_rows(file):
        values: dict[str, Any] = {column: row.optional(column).strip() for column in row.values if column != "user"}
        about[UserId(row.text("user"))] = {column: value for column, value in values.items() if value}
    return about

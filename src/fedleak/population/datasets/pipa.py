"""People In Photo Albums: photographs by Flickr's users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from fedleak.core import UserId
from fedleak.errors import DataError
from fedleak.population import sources
from fedleak.population.datasets import photos
from fedleak.population.datasets import rows as tables
from fedleak.population.datasets.json_lines import days, lines
from fedleak.population.datasets.photos import Photo
from fedleak.population.population import Population

__all__ = ["Pipa"]

_INDEX, _FLICKR, _LABELS = "annotations/index.txt", "flickr.jsonl", "labels.csv"
_SUBSETS = ("train", "val", "test", "leftover")


class _Owner(msgspec.Struct):
    nsid: str


class _Dates(msgspec.Struct):
    taken: str = ""


class _Info(msgspec.Struct):
    id: str
    owner: _Owner
    dates: _Dates = msgspec.field(default_factory=_Dates)


class _Reply(msgspec.Struct):
    photo: _Info


@dataclass(frozen=True, kw_only=True)
class Pipa:
    """People In Photo Albums (Zhang et al., 2015), grouped by photographer and labelled by content (multi-label).

    Reads, in the folder `pipa`: the official `annotations/index.txt` (photoset, photo, box, identity, subset; only the
    first two columns are used) and images `train/<photoset>_<photo>.jpg` (or in `val`, `test`, `leftover`);
    `flickr.jsonl`, the replies of Flickr's `flickr.photos.getInfo`, one per line, which tell who owns a photograph; and
    `labels.csv` with the columns photo and label, one row for each object that a detector saw, as in Gradient-Leaks
    (Orekondy et al., 2020). The photoset is the album.
    """

    name: ClassVar[str] = "pipa"

    min_photos: Annotated[int, Meta(ge=2, description="users with fewer photographs are left out")] = 100
    max_photos: (
        Annotated[int, Meta(ge=2, description="at most this many photographs per user, drawn by the seed")] | None
    ) = None
    classes: Annotated[tuple[str, ...], Meta(description="labels to learn; the most common if absent")] = ()
    common: Annotated[int, Meta(ge=2, description="how many of the most common labels to learn")] = 19
    size: Annotated[int, Meta(ge=4, le=512, description="images are resized to this many pixels square")] = 32

    def load(self, seed: int) -> Population:
        """Read the index, the owners, the labels and the images; a photograph without an owner is left out."""
        folder, _ = sources.complete(self.name)
        owners = {
            line.photo.id: (UserId(line.photo.owner.nsid), days(line.photo.dates.taken))
            for line in lines(folder / _FLICKR, _Reply)
        }
        shown: dict[str, set[str]] = defaultdict(set)
        for row in tables.read_rows(folder / _LABELS):
            shown[row.text("photo").strip()].add(row.text("label").strip())
        users: dict[UserId, list[Photo]] = defaultdict(list)
        for photoset, photo in _index(folder / _INDEX):
            if photo in owners:
                user, time = owners[photo]
                file = _image(folder, f"{photoset}_{photo}.jpg")
                users[user].append(Photo(file, frozenset(shown[photo]), time, photoset))
        return photos.population(
            users,
            least=self.min_photos,
            most=self.max_photos,
            classes=self.classes,
            common=self.common,
            size=self.size,
            seed=seed,
            source="Photographs of People In Photo Albums (Zhang et al., 2015) by who took them.",
            albums=True,
        )


def _index(file: Path) -> Iterator[tuple[str, str]]:
    """Photoset and photo of every photograph, once; the file has a line for every head in it."""
    seen = set()
    with file.open("rb") as raw:
        for number, line in enumerate(raw, 1):
            parts = line.split()
            if not parts:
                continue
            # Digits only: these become part of a path.
            if len(parts) != 8 or not (parts[0].isdigit() and parts[1].isdigit()):
                raise DataError(
                    f"{file}, line {number}: expected photoset, photo, box (4 numbers), identity and subset, "
                    "separated by spaces"
                )
            pair = (parts[0].decode(), parts[1].decode())
            if pair not in seen:
                seen.add(pair)
                yield pair


def _image(folder: Path, name: str) -> Path:
    for subset in _SUBSETS:
        if (folder / subset / name).is_file():
            return folder / subset / name
    raise DataError(f"{folder}: no {name} in any of {', '.join(_SUBSETS)}; download it, or remove it from {_INDEX}")

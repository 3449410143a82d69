"""Open Images: photographs by Flickr's users, with labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from fedleak.core import UserId
from fedleak.errors import DataError
from fedleak.population import sources
from fedleak.population.datasets import photos
from fedleak.population.datasets import rows as tables
from fedleak.population.datasets.dates import read_days
from fedleak.population.datasets.photos import Photo
from fedleak.population.population import Population

__all__ = ["OpenImages"]

_TIMES = "times.csv"
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class OpenImages:
    """Open Images (Kuznetsova et al., 2020), grouped by photographer and labelled by content (multi-label).

    Reads, in the folder `openimages`, the official files of version 7: the image table (columns ImageID, Author and
    AuthorProfileURL), the human-verified labels (ImageID, LabelName, Confidence), the class names (LabelName,
    DisplayName), and images `train/<ImageID>.jpg`; only those that are there are used. The data set tells no times:
    `times.csv`, if there, has the columns ImageID and time, for a chronological prior.
    """

    name: ClassVar[str] = "openimages"

    min_photos: Annotated[int, Meta(ge=2, description="users with fewer photographs are left out")] = 500
    max_photos: (
        Annotated[int, Meta(ge=2, description="at most this many photographs per user, drawn by the seed")] | None
    ) = 200
    classes: Annotated[
        tuple[str, ...], Meta(description="names of the classes to learn; the most common if absent")
    ] = ()
    common: Annotated[int, Meta(ge=2, description="how many of the most common classes to learn")] = 18
    confidence: Annotated[float, Meta(ge=0, le=1, description="labels with less confidence are ignored")] = 0.5
    size: Annotated[int, Meta(ge=4, le=512, description="images are resized to this many pixels square")] = 32

    def load(self, seed: int) -> Population:
        """Read the tables line by line, since they are far larger than what is used of them, then the images."""
        folder, (images, labels, names, inside) = sources.complete(self.name)
        here = {file.stem: file for file in sorted((folder / inside).glob("*.jpg")) if _ID.fullmatch(file.stem)}
        if not here:
            raise DataError(f"{folder / inside}: holds no images named <ImageID>.jpg; download some")
        dated = list(tables.read_rows(folder / _TIMES)) if (folder / _TIMES).is_file() else []
        days = read_days(dated, "time").tolist()
        times = {row.text("ImageID"): day for row, day in zip(dated, days, strict=True)}
        shown = self._labels(folder / labels, folder / names, here)
        users: dict[UserId, list[Photo]] = defaultdict(list)
        for row in tables.read_rows(folder / images):
            image = row.text("ImageID")
            # Two users may share a name; the address of a profile is one user's.
            author = row.optional("AuthorProfileURL").strip().rstrip("/").rpartition("/")[2] or row.optional("Author")
            if image in here and author:
                users[UserId(author)].append(Photo(here[image], shown[image], times.get(image, float("nan"))))
        return photos.population(
            users,
            least=self.min_photos,
            most=self.max_photos,
            classes=self.classes,
            common=self.common,
            size=self.size,
            seed=seed,
            source="Photographs of Open Images (Kuznetsova et al., 2020) by who took them.",
            albums=False,
        )

    def _labels(self, file: Path, names: Path, here: Mapping[str, Path]) -> dict[str, frozenset[str]]:
        called = {row.text("LabelName"): row.text("DisplayName") for row in tables.read_rows(names)}
        shown: dict[str, set[str]] = {image: set() for image in here}
        for row in tables.read_rows(file):
            image = row.text("ImageID")
            if image in shown and row.number("Confidence") >= self.confidence:
                code = row.text("LabelName")
                shown[image].add(called.get(code, code))
        return {image: frozenset(labels) for image, labels in shown.items()}

"""Photographs of real users with several labels each: what `pipa` and `openimages` have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint
from fedleak.population.datasets import image_files
from fedleak.population.population import Examples, Population, User

__all__ = ["Photo", "population"]


@dataclass(frozen=True, slots=True)
class Photo:
    """One photograph: where it is, and what it shows."""

    file: Path
    labels: frozenset[str]
    time: float  # days since 1970; NaN where unknown
    album: str | None = None


def population(
    users: Mapping[UserId, Sequence[Photo]],
    *,
    least: int,
    most: int | None,
    classes: Sequence[str],
    common: int,
    size: int,
    seed: int,
    source: str,
    albums: bool,
) -> Population:
    """Keep users with enough photographs, choose the classes, and read the images.

    A photograph that shows none of the classes stays: that it shows none is a label too.
    """
    chosen = {user: list(photos) for user, photos in sorted(users.items()) if len(photos) >= least}
    if not chosen:
        best = max(map(len, users.values()), default=0)
        raise DataError(
            f"nobody has {least} photographs (the most: {best}) ({source.rstrip('.')}); lower min_photos in [dataset]"
        )
    names = _classes(chosen.values(), classes, common, source)
    place = {name: i for i, name in enumerate(names)}
    timed = any(not math.isnan(photo.time) for photos in chosen.values() for photo in photos)

    def examples(user: UserId, photos: Sequence[Photo]) -> Examples:
        if most is not None and len(photos) > most:
            kept = np.sort(rng_for(seed, "photos", user).permutation(len(photos))[:most])
            photos = [photos[i] for i in kept]
        x = np.stack([image_files.read_image(photo.file, size, colour=True) for photo in photos])
        y = np.zeros((len(photos), len(names)), dtype=np.float32)
        for row, photo in zip(y, photos, strict=True):
            row[[place[label] for label in photo.labels if label in place]] = 1
        album = np.unique([photo.album or "" for photo in photos], return_inverse=True)[1].astype(np.int64)
        return Examples(
            x=x,
            y=y,
            time=np.array([photo.time for photo in photos], dtype=np.float64) if timed else None,
            album=album if albums else None,
            fingerprint=fingerprint.of_images(x),
        )

    return Population(
        users=tuple(User(user, examples(user, photos)) for user, photos in chosen.items()),
        task=Task.MULTI_LABEL,
        outputs=len(names),
        source=source,
        outputs_named=names,
    )


def _classes(users: Iterable[Sequence[Photo]], wanted: Sequence[str], common: int, source: str) -> tuple[str, ...]:
    """The classes that were asked for, or else the most common ones."""
    counts = Counter(label for photos in users for photo in photos for label in photo.labels)
    if wanted:
        absent = [name for name in wanted if not counts[name]]
        if absent:
            raise DataError(
                f"no photograph shows '{absent[0]}' ({source.rstrip('.')}); the most common classes are "
                + ", ".join(name for name, _ in counts.most_common(10))
            )
        return tuple(wanted)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))[:common]
    if len(ranked) < 2:
        raise DataError(f"the photographs show {len(ranked)} class(es); at least 2 are needed ({source.rstrip('.')})")
    return tuple(sorted(ranked))

"""The AT&T faces (Samaria and Harter, 1994): clients learn together to recognise forty people."""

from __future__ import annotations

import lzma
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import IntArray, Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint, sources
from fedleak.population.datasets import image_files
from fedleak.population.datasets.face_glasses import wears_glasses
from fedleak.population.population import Examples, Population, User

__all__ = ["Faces"]

_PEOPLE, _EACH = 40, 10
_AUXILIARY, _TEST = 3, 2  # of the ten images of a person; the other five are the clients'
_NAME = re.compile(r"(?:^|/)s(\d{1,2})/(\d{1,2})\.pgm$")
_LARGEST = 1 << 20  # bytes of an image: one of 92x112 has 10 KB


@dataclass(frozen=True, kw_only=True)
class Faces:
    """AT&T (Olivetti) faces of a few people per client, for face recognition.

    The setting of Song et al. (2020, section VII-C): 10 clients, 64x64 pixels, 40 classes; different clients may have
    images of the same person. Of the ten images of a person five go to clients, three to the server's auxiliary set
    and two to the test set; which, the seed decides. No two clients share an image.

    The paper's victim is told from others by glasses: with `glasses`, a share of the clients has only images with
    glasses, and the others only images without (attribute `glasses`); some people are then on both kinds of client. The
    auxiliary and the test set are as the data is, with glasses on 30% of the images. The labels are Fedleak's own
    (`face_glasses`). As a weaker property, a share of the clients can have all its images mirrored (attribute
    `mirrored`), which sets them apart as the side of a parting does; the auxiliary and the test set then hold as many
    mirrored images, each for itself. Otherwise what is personal about a client is whom it has images of (its classes).

    Faces are personal data: keep the reports of a run private.
    """

    name: ClassVar[str] = "faces"

    clients: Annotated[int, Meta(ge=2, le=200, description="how many clients")] = 10
    people: Annotated[int, Meta(ge=1, le=_PEOPLE, description="people on each client; clients x people <= 200")] = 8
    side: Annotated[int, Meta(ge=16, le=112, description="images are resized to this many pixels square")] = 64
    mirrored: Annotated[float, Meta(ge=0, le=1, description="share of the clients whose images are all mirrored")] = 0.0
    glasses: Annotated[
        float, Meta(ge=0, lt=1, description="share of the clients with images of people in glasses only; 0: no matter")
    ] = 0.0

    def load(self, seed: int) -> Population:
        """Read the images and deal them out; with another seed they are other clients."""
        images = self._read()
        rng = rng_for(seed, self.name, "deal")
        order = np.stack([rng.permutation(_EACH) + _EACH * person for person in range(_PEOPLE)])
        private, auxiliary, test = np.split(order, [_EACH - _AUXILIARY - _TEST, _EACH - _TEST], axis=1)
        flipped = np.zeros(self.clients, dtype=np.bool_)
        flipped[rng.permutation(self.clients)[: round(self.mirrored * self.clients)]] = True
        wears = wears_glasses()
        dealt = self._deal_by_glasses(private, wears, rng) if self.glasses else self._deal(private, rng)
        users = tuple(
            User(
                UserId(f"client-{seed}-{number:03}"),
                _examples(images, rows, np.full(len(rows), flipped[number])),
                {"mirrored": "yes" if flipped[number] else "no"}
                | ({"glasses": "yes" if wears[rows].all() else "no"} if self.glasses else {}),
            )
            for number, rows in enumerate(dealt)
        )

        def mixed(rows: IntArray) -> Examples:
            return _examples(images, rows, rng.random(len(rows)) < self.mirrored)

        return Population(
            users=users,
            task=Task.CLASSIFY,
            outputs=_PEOPLE,
            source=(
                f"The AT&T database of faces (Olivetti Research Laboratory), cut into {self.clients} clients with "
                f"images of {self.people} people each."
            ),
            test=mixed(np.sort(test.ravel())),
            background=mixed(np.sort(auxiliary.ravel())),
            outputs_named=tuple(f"s{person + 1}" for person in range(_PEOPLE)),
        )

    def _deal(self, private: IntArray, rng: np.random.Generator) -> list[IntArray]:
        """Give every client its people, everybody to as many clients as anybody else, and each of these a share."""
        each = private.shape[1]
        if self.clients * self.people > each * _PEOPLE:
            raise DataError(
                f"data set '{self.name}': {self.clients} clients with {self.people} people each need more than the "
                f"{each} images that each of {_PEOPLE} people can give; lower clients or people"
            )
        owners: list[list[int]] = [[] for _ in range(_PEOPLE)]
        for client in range(self.clients):
            # Whoever fewest clients have yet, by lot among equals.
            rarest = np.argsort([len(clients) + rng.random() for clients in owners])
            for person in rarest[: self.people].tolist():
                owners[person].append(client)
        rows: list[list[IntArray]] = [[] for _ in range(self.clients)]
        for person, clients in enumerate(owners):
            for client, part in zip(clients, np.array_split(private[person], max(1, len(clients))), strict=False):
                rows[client].append(part)
        return [np.sort(np.concatenate(parts)) for parts in rows]

    def _deal_by_glasses(
        self, private: IntArray, wears: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> list[IntArray]:
        """The same for clients with glasses and for the others, each from the images of its kind."""
        with_glasses = max(1, round(self.glasses * self.clients))
        dealt: list[IntArray] = []
        for worn, count in ((True, with_glasses), (False, self.clients - with_glasses)):
            pools = [rows[wears[rows] == worn] for rows in private]
            owners: list[list[int]] = [[] for _ in pools]
            for client in range(count):
                rarest = np.argsort([len(clients) + rng.random() for clients in owners]).tolist()
                left = [person for person in rarest if len(owners[person]) < len(pools[person])]
                if len(left) < self.people:
                    raise DataError(
                        f"data set '{self.name}': glasses = {self.glasses} leaves client {client + 1} of {count} "
                        f"{'with' if worn else 'without'} glasses {len(left)} people to have images of, not "
                        f"{self.people}; lower clients, people or glasses"
                    )
                for person in left[: self.people]:
                    owners[person].append(client)
            rows: list[list[IntArray]] = [[] for _ in range(count)]
            for pool, clients in zip(pools, owners, strict=True):
                for client, part in zip(clients, np.array_split(pool, max(1, len(clients))), strict=False):
                    rows[client].append(part)
            dealt += [np.sort(np.concatenate(parts)) for parts in rows]
        return [dealt[place] for place in rng.permutation(len(dealt)).tolist()]

    def _read(self) -> npt.NDArray[np.float32]:
        """All images, (400, side, side), ten after ten by person."""
        folder, (file,) = sources.complete(self.name)
        images = np.zeros((_PEOPLE * _EACH, self.side, self.side), dtype=np.float32)
        found = np.zeros(len(images), dtype=np.bool_)
        for name, content in _packed(folder / file):
            match = _NAME.search(name)
            if match is None:
                continue
            person, number = (int(part) - 1 for part in match.groups())
            if 0 <= person < _PEOPLE and 0 <= number < _EACH:
                row = person * _EACH + number
                images[row] = image_files.read_image(folder / file / name, self.side, colour=False, content=content)[0]
                found[row] = True
        if not found.all():
            raise DataError(
                f"{folder / file}: holds {int(found.sum())} of the 400 images s1/1.pgm to s40/10.pgm; download again"
            )
        return images


def _packed(file: Path) -> Iterator[tuple[str, bytes]]:
    """The small files of an archive; nothing is unpacked to disk."""
    try:
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as pack:
                for info in pack.infolist():
                    if not info.is_dir() and info.file_size <= _LARGEST:
                        yield info.filename, pack.read(info)
            return
        with tarfile.open(file) as archive:
            for client in archive:
                if client.isfile() and client.size <= _LARGEST and (content := archive.extractfile(client)):
                    yield client.name, content.read()
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: cannot be read ({error}); download it again") from error


def _examples(images: npt.NDArray[np.float32], rows: IntArray, flipped: npt.NDArray[np.bool_]) -> Examples:
    x = images[rows]
    x[flipped] = x[flipped, :, ::-1]
    # As taken: mirroring an image does not make another one of it.
    return Examples(
        x=x[:, None], y=(rows // _EACH).astype(np.int64), fingerprint=fingerprint.of_rows(rows.reshape(-1, 1))
    )

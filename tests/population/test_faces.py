"""Faces dealt to clients, from an archive of made-up images; the real ones are counted, never shown."""

from __future__ import annotations

import io
import tarfile
import zipfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.face_glasses import GLASSES, wears_glasses
from fedleak.population.datasets.faces import Faces
from fedleak.population.prepare import prepare


def image(person: int, number: int) -> bytes:
    """A grey image, brighter on the right, whose first column tells the person and the second the image."""
    pixels = np.tile(np.linspace(100, 200, 92), (112, 1)).astype(np.uint8)
    pixels[:, :8], pixels[:, 8:16] = person, 10 * number
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PPM")
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    folder = tmp_path / "orl"
    folder.mkdir()
    with tarfile.open(folder / "att_faces.tar.xz", "w:xz", preset=0) as pack:
        for person in range(1, 41):
            for number in range(1, 11):
                content = image(person, number)
                entry = tarfile.TarInfo(f"att_faces/s{person}/{number}.pgm")
                entry.size = len(content)
                pack.addfile(entry, io.BytesIO(content))
    return folder / "att_faces.tar.xz"


@pytest.mark.usefixtures("archive")
def test_every_client_has_images_of_its_number_of_people_and_nobody_elses() -> None:
    population = Faces(side=32).load(0)
    assert len(population.users) == 10 and population.outputs == 40
    held = []
    for user in population.users:
        assert user.examples.y is not None
        assert len(np.unique(user.examples.y)) == 8
        assert np.allclose(user.examples.x[:, 0, 16, 0] * 255, user.examples.y + 1, atol=1)
        held.append({image.tobytes() for image in user.examples.x})
    assert population.background is not None and population.test is not None
    held += [{image.tobytes() for image in part.x} for part in (population.background, population.test)]
    assert sum(map(len, held)) == 400
    assert all(one.isdisjoint(other) for one, other in combinations(held, 2))


@pytest.mark.usefixtures("archive")
def test_clients_with_glasses_have_no_other_images_and_share_people_with_the_rest() -> None:
    assert int(wears_glasses().sum()) == 119 and len(GLASSES) == 15
    population = Faces(side=46, clients=20, people=4, glasses=0.2).load(0)
    people: dict[str, set[int]] = {"yes": set(), "no": set()}
    kinds = []
    for user in population.users:
        assert user.examples.y is not None and len(np.unique(user.examples.y)) == 4
        # The made-up images tell their person in the first columns and their number in the next.
        numbers = np.rint(user.examples.x[:, 0, 20, 5] * 25.5).astype(int)
        worn = {n in GLASSES.get(p + 1, ()) for p, n in zip(user.examples.y.tolist(), numbers.tolist(), strict=True)}
        assert worn == {user.attributes["glasses"] == "yes"}
        kinds.append(user.attributes["glasses"])
        people[user.attributes["glasses"]] |= set(user.examples.y.tolist())
    assert kinds.count("yes") == 4 and kinds != sorted(kinds)
    assert people["yes"] & people["no"], "as in the paper: the same person with and without"
    with pytest.raises(DataError, match=r"glasses = 0.9 leaves client .* with glasses .* people"):
        Faces(side=16, clients=20, people=8, glasses=0.9).load(0)


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize(("clients", "people"), [(25, 8), (200, 1), (5, 40), (2, 1)])
def test_people_are_shared_out_evenly(clients: int, people: int) -> None:
    population = Faces(side=16, clients=clients, people=people).load(1)
    having = np.zeros(40, dtype=np.int64)
    for user in population.users:
        assert user.examples.y is not None
        found = np.unique(user.examples.y)
        assert len(found) == people
        having[found] += 1
    assert having.max() - having.min() <= 1


@pytest.mark.usefixtures("archive")
def test_a_share_of_the_clients_is_mirrored() -> None:
    plain, mirrored = Faces(side=16).load(0), Faces(side=16, mirrored=0.5).load(0)
    said = [user.attributes["mirrored"] for user in mirrored.users]
    assert sorted(said) == ["no"] * 5 + ["yes"] * 5
    for before, after, says in zip(plain.users, mirrored.users, said, strict=True):
        step = -1 if says == "yes" else 1
        assert np.array_equal(before.examples.x[..., ::step], after.examples.x)


@pytest.mark.usefixtures("archive")
def test_too_many_clients_are_refused() -> None:
    with pytest.raises(DataError, match="lower clients or people"):
        Faces(clients=26, people=8).load(0)


def test_an_incomplete_or_damaged_archive_is_refused(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(DataError, match="download"):
        Faces().load(0)
    archive.unlink()
    with zipfile.ZipFile(archive.parent / "att_faces.zip", "w") as pack:
        pack.writestr("s1/1.pgm", image(1, 1))
    with pytest.raises(DataError, match="holds 1 of the 400"):
        Faces().load(0)


@pytest.mark.usefixtures("find_real_data")
def test_the_real_faces_are_all_there_and_different() -> None:
    prepared = prepare(Faces(), PopulationPlan(prior="none"), 0)
    assert prepared.input_shape == (1, 64, 64)
    assert (len(prepared.shares), len(prepared.test)) == (10, 80)
    assert prepared.public is not None and len(prepared.public) == 120
    assert prepared.findings == ()

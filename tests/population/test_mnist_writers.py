"""MNIST by writer, from small files in the official format; and from the real ones where they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.mnist_writers import MnistWriters, read_idx
from fedleak.population.prepare import prepare


def write_idx(file: Path, kind: int, values: npt.NDArray[np.int64]) -> None:
    header = bytes([0, 0, kind, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    file.write_bytes(gzip.compress(header + values.astype({8: ">u1", 12: ">i4"}[kind]).tobytes()))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writers 7, 8 and 9 with 40, 40 and 10 digits in the training set, and 20 test digits by another."""
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    folder = tmp_path / "mnist"
    folder.mkdir()
    rng = np.random.default_rng(0)
    writer = rng.permutation(np.repeat([7, 8, 9], [40, 40, 10]))
    labels = np.zeros(90, dtype=np.int64)
    for name in (7, 8, 9):
        labels[writer == name] = np.arange((writer == name).sum()) % 10
    for part, label, who in (("train", labels, writer), ("t10k", np.arange(20) % 10, np.full(20, 99))):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", 8, rng.integers(0, 256, (len(label), 28, 28)))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8, label)
        # QMNIST's test file goes on beyond MNIST's.
        rows = np.zeros((len(label) + (5 if part == "t10k" else 0), 8), dtype=np.int64)
        rows[: len(label), 0], rows[: len(label), 2] = label, who
        rows[:, 1] = np.where(rows[:, 2] == 8, 4, 1)
        write_idx(folder / f"qmnist-{'train' if part == 'train' else 'test'}-labels-idx2-int.gz", 12, rows)
    return folder


def test_digits_go_to_their_writers_and_small_writers_to_the_background(small: Path) -> None:
    population = MnistWriters(min_digits=20).load(0)
    assert [(u.id, len(u.examples), u.attributes) for u in population.users] == [
        ("writer-7", 40, {"group": "employee"}),
        ("writer-8", 40, {"group": "student"}),
    ]
    assert population.background is not None
    assert population.test is not None
    assert (len(population.background), len(population.test)) == (10, 20)
    images = read_idx(small / "train-images-idx3-ubyte.gz")
    rows = read_idx(small / "qmnist-train-labels-idx2-int.gz")
    assert np.allclose(population.users[0].examples.x[:, 0] * 255, images[rows[:, 2] == 7])


def test_per_class_keeps_exactly_as_many_of_every_digit(small: Path) -> None:
    prepared = prepare(MnistWriters(min_digits=20, per_class=2), PopulationPlan(), 0)
    for share in prepared.shares:
        for side in (share.prior, share.private):
            assert side.y is not None
            assert np.bincount(side.y).tolist() == [1] * 10


def test_a_writer_short_of_a_digit_becomes_background(small: Path) -> None:
    population = MnistWriters(min_digits=2, per_class=2).load(0)
    assert [user.id for user in population.users] == ["writer-7", "writer-8"]
    assert population.background is not None
    images = read_idx(small / "train-images-idx3-ubyte.gz")
    rows = read_idx(small / "qmnist-train-labels-idx2-int.gz")
    assert np.allclose(population.background.x[:, 0] * 255, images[rows[:, 2] == 9])


def test_the_background_says_which_digits_are_by_one_writer(small: Path) -> None:
    population = MnistWriters(min_digits=1000).load(0)
    assert population.background is not None and population.background.owner is not None
    images = read_idx(small / "train-images-idx3-ubyte.gz")
    rows = read_idx(small / "qmnist-train-labels-idx2-int.gz")
    for owner, writer in enumerate((7, 8, 9)):
        mine = population.background.x[population.background.owner == owner, 0]
        assert np.allclose(mine * 255, images[rows[:, 2] == writer])


def test_missing_files_are_named_with_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError) as caught:
        MnistWriters().load(0)
    for part in ("train-images-idx3-ubyte.gz", "qmnist-test-labels-idx2-int.gz", "facebookresearch/qmnist"):
        assert part in str(caught.value)
    assert str(tmp_path / "mnist") in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[: len(data) // 2], "cannot be read"),
        (lambda data: b"<html>not found</html>", "cannot be read"),
        (lambda data: gzip.compress(b"\0\0\x0d\x03" + bytes(12)), r"not an idx file \(magic number 00000d03\)"),
        (lambda data: gzip.compress(b""), "magic number missing"),
        (lambda data: gzip.compress(gzip.decompress(data)[:9]), "ends within its header"),
        (lambda data: gzip.compress(gzip.decompress(data)[:-1]), "header announces"),
        (lambda data: gzip.compress(gzip.decompress(data) + b"\0"), "header announces"),
    ],
    ids=["truncated", "foreign", "type", "empty", "header", "short", "long"],
)
def test_a_damaged_file_is_named(small: Path, damage: object, says: str) -> None:
    file = small / "train-images-idx3-ubyte.gz"
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataError, match=rf"train-images-idx3-ubyte\.gz: .*{says}"):
        MnistWriters().load(0)


def test_files_that_do_not_belong_together_are_refused(small: Path) -> None:
    labels = read_idx(small / "train-labels-idx1-ubyte.gz")
    write_idx(small / "train-labels-idx1-ubyte.gz", 8, labels[::-1].astype(np.int64))
    with pytest.raises(DataError, match="not those of the MNIST files beside it"):
        MnistWriters().load(0)
    (small / "train-labels-idx1-ubyte.gz").write_bytes((small / "train-images-idx3-ubyte.gz").read_bytes())
    with pytest.raises(DataError, match="these are not MNIST images and labels"):
        MnistWriters().load(0)


@pytest.mark.usefixtures("find_real_data")
def test_the_real_writers_are_users_of_their_own() -> None:
    prepared = prepare(MnistWriters(per_class=8), PopulationPlan(users=100), 1)
    assert len(prepared.shares) == 100
    assert [(finding.kind, finding.action) for finding in prepared.findings] == [("split", "balanced")]
    for share in prepared.shares:
        assert share.prior.y is not None
        assert share.private.y is not None
        assert np.bincount(share.prior.y).tolist() == np.bincount(share.private.y).tolist() == [4] * 10
    assert len(prepared.test) == 10_000
    assert {share.user.attributes["group"] for share in prepared.shares} == {"employee", "student"}

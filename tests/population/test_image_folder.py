"""Anyone's images: a folder per user."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.image_folder import ImageFolder
from fedleak.population.prepare import prepare


def image(file: Path, seed: int, mode: str = "L", size: tuple[int, int] = (20, 16)) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    Image.fromarray(pixels).save(file)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two users with cats and dogs, in every format."""
    for u, user in enumerate(("ann", "bob")):
        for c, animal in enumerate(("cat", "dog")):
            for i, ending in enumerate(("png", "jpg", "pgm", "JPEG")):
                image(tmp_path / user / animal / f"{i}.{ending}", 100 * u + 10 * c + i)
    return tmp_path


def test_folders_are_users_and_their_folders_are_classes(root: Path) -> None:
    (root / "ann" / "cat" / "notes.txt").write_text("not an image")
    (root / ".hidden").mkdir()
    population = ImageFolder(path=str(root), size=8).load(0)
    assert [user.id for user in population.users] == ["ann", "bob"]
    assert population.outputs_named == ("cat", "dog")
    rows = population.users[0].examples
    assert rows.x.shape == (8, 1, 8, 8)
    assert rows.x.dtype == np.float32
    assert 0 <= rows.x.min() < rows.x.max() <= 1
    assert rows.y is not None
    assert rows.y.tolist() == [0] * 4 + [1] * 4


def test_colour_has_three_channels(root: Path) -> None:
    Image.new("RGB", (9, 9), (255, 0, 51)).save(root / "ann" / "cat" / "0.png")
    rows = ImageFolder(path=str(root), size=4, colour=True).load(0).users[0].examples
    assert rows.x.shape[1:] == (3, 4, 4)
    assert rows.x[0, :, 0, 0].tolist() == pytest.approx([1, 0, 0.2])


def test_sixteen_bits_are_scaled_not_clipped(root: Path) -> None:
    half = np.full((10, 10), 32768, dtype=np.uint16)
    Image.fromarray(half).save(root / "ann" / "cat" / "0.png")
    (root / "ann" / "cat" / "2.pgm").write_bytes(b"P5 10 10 65535\n" + half.astype(">u2").tobytes())
    rows = ImageFolder(path=str(root), size=4).load(0).users[0].examples
    assert rows.x[[0, 2]] == pytest.approx(0.5, abs=0.01)


def test_labels_times_and_albums_may_come_from_a_table(tmp_path: Path) -> None:
    lines = ["file,label,time,album"]
    for u, user in enumerate(("ann", "bob")):
        for i in range(4):
            image(tmp_path / user / f"{i}.png", 10 * u + i)
            lines.append(f"{user}/{i}.png,{'cat' if i % 2 else 'dog'},2024-01-0{i + 1},trip{i // 2}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    (tmp_path / "users.csv").write_text("user,sex,town\nann,f,\n")
    ann, bob = ImageFolder(path=str(tmp_path)).load(0).users
    assert ann.examples.y is not None
    assert ann.examples.y.tolist() == [1, 0, 1, 0]
    assert ann.examples.album is not None
    assert ann.examples.album.tolist() == [0, 0, 1, 1]
    assert ann.examples.time is not None
    assert np.diff(ann.examples.time).tolist() == [1, 1, 1]
    assert (ann.attributes, bob.attributes) == ({"sex": "f"}, {})


def test_a_user_without_images_is_reported_not_hidden(root: Path) -> None:
    (root / "carl").mkdir()
    prepared = prepare(ImageFolder(path=str(root), size=8), PopulationPlan(), 0)
    assert [share.user.id for share in prepared.shares] == ["ann", "bob"]
    assert [(f.kind, f.count) for f in prepared.findings] == [("split", 2), ("few", 1)]


def test_a_copied_account_is_found_though_its_images_were_saved_again(root: Path) -> None:
    for file in sorted((root / "ann").rglob("*.png")) + sorted((root / "ann").rglob("*.pgm")):
        again = root / "ann again" / file.relative_to(root / "ann").with_suffix(".jpg")
        again.parent.mkdir(parents=True, exist_ok=True)
        Image.open(file).save(again, quality=98)
    prepared = prepare(ImageFolder(path=str(root), size=16), PopulationPlan(), 0)
    assert [f.kind for f in prepared.findings] == ["split", "twins"]
    assert [share.user.id for share in prepared.shares] == ["ann", "bob"]


def test_missing_labels_say_how_to_give_them(root: Path) -> None:
    image(root / "ann" / "loose.png", 5)
    with pytest.raises(DataError, match=r"loose\.png: has no label.*labels\.csv with the columns file,label"):
        ImageFolder(path=str(root)).load(0)


def test_a_image_without_a_row_and_a_row_given_twice_are_refused(root: Path) -> None:
    (root / "labels.csv").write_text("file,label\nann/cat/0.png,x\n")
    with pytest.raises(DataError, match=r"labels\.csv: no row for ann/cat/1\.jpg"):
        ImageFolder(path=str(root)).load(0)
    (root / "labels.csv").write_text("file,label\nann/cat/0.png,x\nann/cat/0.png,y\n")
    with pytest.raises(DataError, match=r"line 3, column 'file': ann/cat/0\.png was given before, in line 2"):
        ImageFolder(path=str(root)).load(0)


@pytest.mark.parametrize("name", ["0.png", "1.jpg", "2.pgm"])
@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty"])
def test_a_damaged_image_is_named(root: Path, name: str, damage: str) -> None:
    file = root / "ann" / "cat" / name
    data = file.read_bytes()
    file.write_bytes({"truncated": data[: len(data) // 2], "foreign": b"GIF89a" + data, "empty": b""}[damage])
    with pytest.raises(DataError, match=rf"{file.name}: not a readable"):
        ImageFolder(path=str(root)).load(0)


def test_a_image_that_would_fill_the_memory_is_refused(root: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for side in (10_000, 60_000):  # Pillow warns of the first and refuses the second
        header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
        bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
        (root / "ann" / "cat" / "0.png").write_bytes(bomb)
        with pytest.raises(DataError, match=r"0\.png: too large an image"):
            ImageFolder(path=str(root)).load(0)


def test_a_link_out_of_the_folder_is_refused(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    image(elsewhere / "secret.png", 1)
    for link, target in (
        (root / "ann" / "cat" / "link.png", elsewhere / "secret.png"),
        (root / "ann" / "bird", elsewhere),
        (root / "eve", elsewhere),
        (root / "labels.csv", elsewhere / "labels.csv"),
    ):
        (elsewhere / "labels.csv").write_text("file,label\n")
        link.symlink_to(target)
        with pytest.raises(DataError, match="a link that leads out of"):
            ImageFolder(path=str(root)).load(0)
        link.unlink()


def test_a_link_within_the_folder_is_followed(root: Path) -> None:
    (root / "ann" / "cat" / "same.png").symlink_to(root / "ann" / "dog" / "0.png")
    assert len(ImageFolder(path=str(root)).load(0).users[0].examples) == 9


def test_no_folder_no_users_or_one_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        ImageFolder(path=str(tmp_path / "none")).load(0)
    with pytest.raises(DataError, match="holds no folders"):
        ImageFolder(path=str(tmp_path)).load(0)
    image(tmp_path / "ann" / "cat" / "0.png", 1)
    with pytest.raises(DataError, match=r"1 class\(es\)"):
        ImageFolder(path=str(tmp_path)).load(0)


def test_html_in_a_folder_name_survives(root: Path) -> None:
    (root / "ann").rename(root / "<i>ann & co")
    assert ImageFolder(path=str(root)).load(0).users[0].id == "<i>ann & co"


def test_files_that_are_not_read_are_named(root: Path) -> None:
    for name in ("ann/cat/a.webp", "ann/cat/b.webp", "ann/c.HEIC", "bob/dog/deeper/d.png", ".cache/e.gif"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    (finding,) = ImageFolder(path=str(root), size=8).load(0).findings
    assert (finding.kind, finding.count) == ("ignored", 4)
    assert "2 .webp, 1 .heic, 1 .png." in finding.text
    assert finding.users == [["ann"], ["bob"]]
    assert "ann" not in finding.text


def test_a_folder_with_only_unknown_formats_says_which(tmp_path: Path) -> None:
    (tmp_path / "ann" / "cat").mkdir(parents=True)
    (tmp_path / "ann" / "cat" / "a.webp").write_bytes(b"")
    with pytest.raises(DataError, match=r"0 class\(es\) of images found.*1 file ignored: 1 \.webp"):
        ImageFolder(path=str(tmp_path)).load(0)

"""Photographs with several labels, in the official layouts of PIPA and Open Images, from small files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_image_folder import image

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.openimages import OpenImages
from fedleak.population.datasets.pipa import Pipa
from fedleak.population.prepare import prepare

OWNERS = {"ann": range(100, 108), "bob": range(200, 208), "carl": range(300, 302)}
IMAGES, LABELS, NAMES = (
    "oidv6-train-images-with-labels-with-rotation.csv",
    "oidv7-train-annotations-human-imagelabels.csv",
    "oidv7-class-descriptions.csv",
)


@pytest.fixture
def pipa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ann and Bob have 8 photographs in four albums each, Carl has 2; even ones show a cup, multiples of 3 a chair."""
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    root = tmp_path / "pipa"
    index, flickr, labels = [], [], ["photo,label"]
    for owner, photos in OWNERS.items():
        for n in photos:
            album = 7000 + n // 2
            image(root / ("train", "val", "test", "leftover")[n % 4] / f"{album}_{n}.jpg", n, "RGB")
            index += [f"{album} {n} {x} 10 40 40 {n % 5 + 1} {n % 4}" for x in range(1 + n % 2)]  # one or two heads
            taken = f"2010-01-{1 + n % 28:02d} 10:00:00"
            info = {"id": str(n), "owner": {"nsid": owner, "username": "x"}, "dates": {"posted": "1", "taken": taken}}
            flickr.append(json.dumps({"photo": info, "stat": "ok"}))
            labels += [f"{n},cup"] * (n % 2 == 0) + [f"{n},chair"] * (n % 3 == 0)
    (root / "annotations").mkdir()
    (root / "annotations" / "index.txt").write_text("\n".join(index) + "\n")
    (root / "flickr.jsonl").write_text("\n".join(flickr) + "\n")
    (root / "labels.csv").write_text("\n".join(labels) + "\n")
    return root


def test_pipa_gives_photographs_to_who_took_them_with_all_their_labels(pipa: Path) -> None:
    population = Pipa(min_photos=4, size=8).load(0)
    assert (population.task, population.outputs_named) == (Task.MULTI_LABEL, ("chair", "cup"))
    assert [(user.id, len(user.examples)) for user in population.users] == [("ann", 8), ("bob", 8)]
    rows = population.users[0].examples
    assert rows.x.shape == (8, 3, 8, 8)
    assert rows.y is not None
    assert rows.y.tolist() == [[n % 3 == 0, n % 2 == 0] for n in OWNERS["ann"]]
    assert rows.album is not None
    assert rows.album.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert rows.time is not None
    assert np.diff(rows.time).tolist() == [1] * 7


def test_a_photoset_is_never_on_both_sides(pipa: Path) -> None:
    prepared = prepare(Pipa(min_photos=4, size=8), PopulationPlan(prior="album"), 0)
    assert len(prepared.test)
    for share in prepared.shares:
        assert share.prior.album is not None
        assert share.private.album is not None
        assert not set(share.prior.album) & set(share.private.album)


def test_classes_can_be_named_and_photographs_capped(pipa: Path) -> None:
    population = Pipa(min_photos=4, size=8, classes=("cup", "chair"), max_photos=5).load(0)
    assert population.outputs_named == ("cup", "chair")
    assert [len(user.examples) for user in population.users] == [5, 5]
    with pytest.raises(DataError, match=r"no photograph shows 'tv'.*most common classes are cup, chair"):
        Pipa(min_photos=4, size=8, classes=("tv",)).load(0)


def test_pipa_without_enough_photographs_says_how_many_there_are(pipa: Path) -> None:
    with pytest.raises(DataError, match=r"nobody has 100 photographs \(the most: 8\).*lower min_photos"):
        Pipa().load(0)


@pytest.mark.parametrize("line", ["1 2 3", "../../x 100 1 1 1 1 1 1", "7025 1x0 1 1 1 1 1 1", "\udcff 1 1 1 1 1 1 1"])
def test_a_foreign_line_in_the_index_is_named(pipa: Path, line: str) -> None:
    index = pipa / "annotations" / "index.txt"
    index.write_bytes((line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"index\.txt, line 1: expected photoset, photo, box"):
        Pipa(min_photos=4, size=8).load(0)


def test_a_image_that_is_missing_or_damaged_is_named(pipa: Path) -> None:
    file = next((pipa / "train").glob("*_100.jpg"))
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=rf"{file.name}: not a readable"):
        Pipa(min_photos=4, size=8).load(0)
    file.unlink()
    with pytest.raises(DataError, match=rf"no {file.name} in any of train, val, test, leftover"):
        Pipa(min_photos=4, size=8).load(0)


def test_a_foreign_reply_of_flickr_is_named(pipa: Path) -> None:
    (pipa / "flickr.jsonl").write_text('{"stat": "fail", "code": 1, "message": "Photo not found"}\n')
    with pytest.raises(DataError, match=r"flickr\.jsonl, line 1: not what this file should hold .*photo"):
        Pipa(min_photos=4, size=8).load(0)


def code(n: int) -> str:
    return f"{n:016x}"


@pytest.fixture
def openimages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    root = tmp_path / "openimages"
    images = [
        "ImageID,Subset,OriginalURL,OriginalLandingURL,License,AuthorProfileURL,Author,Title,OriginalSize,OriginalMD5,"
        "Thumbnail300KURL,Rotation"
    ]
    labels = ["ImageID,Source,LabelName,Confidence"]
    for owner, photos in OWNERS.items():
        for n in photos:
            image(root / "train" / f"{code(n)}.jpg", n, "RGB")
            profile = f"https://www.flickr.com/users/{owner}/"
            images.append(f'{code(n)},train,u,l,c,{profile},"Smith, J.",t,1,m,,0.0')
            labels.append(f"{code(n)},verification,/m/food,{n % 2}")
            labels.append(f"{code(n)},verification,/m/house,{int(n % 3 == 0)}")
    images.append(f"{code(999)},train,u,l,c,https://www.flickr.com/users/ann/,A,t,1,m,,0.0")  # no image of it here
    labels.append(f"{code(999)},verification,/m/food,1")
    (root / IMAGES).write_text("\n".join(images) + "\n")
    (root / LABELS).write_text("\n".join(labels) + "\n")
    (root / NAMES).write_text('LabelName,DisplayName\n/m/food,Food\n/m/house,"House, hut"\n')
    return root


def test_openimages_gives_photographs_to_the_profile_that_took_them(openimages: Path) -> None:
    population = OpenImages(min_photos=4, size=8).load(0)
    assert population.outputs_named == ("Food", "House, hut")
    assert [(user.id, len(user.examples)) for user in population.users] == [("ann", 8), ("bob", 8)]
    rows = population.users[1].examples
    assert rows.y is not None
    assert rows.y.tolist() == [[n % 2, n % 3 == 0] for n in OWNERS["bob"]]


def test_openimages_has_times_only_if_a_table_gives_them(openimages: Path) -> None:
    assert OpenImages(min_photos=4, size=8).load(0).users[0].examples.time is None
    with pytest.raises(DataError, match="'chrono' needs the time"):
        prepare(OpenImages(min_photos=4, size=8), PopulationPlan(prior="chrono"), 0)
    rows = "".join(f"{code(n)},2012-05-{1 + n % 28:02d}\n" for photos in OWNERS.values() for n in photos)
    (openimages / "times.csv").write_text("ImageID,time\n" + rows)
    shares = prepare(OpenImages(min_photos=4, size=8), PopulationPlan(prior="chrono"), 0).shares
    for share in shares:
        assert share.prior.time is not None
        assert share.private.time is not None
        assert share.prior.time.max() < share.private.time.min()


def test_openimages_names_the_file_and_line_of_a_bad_row(openimages: Path) -> None:
    with (openimages / LABELS).open("a") as file:
        file.write(f"{code(100)},verification,/m/food,often\n")
    with pytest.raises(DataError, match=r"imagelabels\.csv, line \d+, column 'Confidence': 'often' is not a number"):
        OpenImages(min_photos=4, size=8).load(0)
    (openimages / LABELS).write_text("ImageID,Source,LabelName,Conf")
    (openimages / IMAGES).write_text("ImageID\n" + code(100) + "\n")
    with pytest.raises(DataError, match="no column 'AuthorProfileURL'"):
        OpenImages(min_photos=4, size=8).load(0)


def test_openimages_without_images_or_tables_says_what_to_get(openimages: Path) -> None:
    for file in (openimages / "train").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"holds no images named <ImageID>\.jpg"):
        OpenImages().load(0)
    (openimages / "train").rmdir()
    (openimages / IMAGES).unlink()
    with pytest.raises(DataError, match=r"needs oidv6-train-images.*, train/ \(the image table.*download_v7"):
        OpenImages().load(0)

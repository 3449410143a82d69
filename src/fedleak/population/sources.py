"""Where data sets are looked up on this machine, and what to download if they are missing.

`$FEDLEAK_DATA` first, then the cache (`$XDG_CACHE_HOME/fedleak`, usually `~/.cache/fedleak`); each data set has its
own folder in there. Nothing is downloaded: the terms of use are between you and the publishers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedleak.errors import DataError

__all__ = ["Source", "Status", "SOURCES", "find", "complete", "status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the files of a data set come from."""

    folder: str
    choices: tuple[tuple[str, ...], ...]  # any one of these sets of files suffices; `name/` is a folder
    homepages: tuple[str, ...]
    note: str


_MNIST = Source(
    folder="mnist",
    choices=(
        (
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
            "qmnist-train-labels-idx2-int.gz",
            "qmnist-test-labels-idx2-int.gz",
        ),
    ),
    homepages=("http://yann.lecun.com/exdb/mnist/", "https://github.com/facebookresearch/qmnist"),
    note="the four MNIST files, and QMNIST's two label files, which say who wrote each digit",
)

SOURCES: Mapping[str, Source] = {
    "mnist-writers": _MNIST,
    "writers-canvas": _MNIST,
    "mnist-clients": Source(
        folder="mnist",
        choices=(_MNIST.choices[0][:4],),
        homepages=_MNIST.homepages[:1],
        note="the four MNIST files; source = 'digits' needs none",
    ),
    "faces": Source(
        folder="orl",
        choices=(("att_faces.tar.xz",), ("att_faces.zip",)),
        homepages=("https://cam-orl.co.uk/facedatabase.html",),
        note="the AT&T (formerly ORL) database of faces",
    ),
    "blog": Source(
        folder="blog",
        choices=(
            (
                "blog_100users_200posts.jsonl.xz",
                "blog_55users_1000posts.jsonl.xz",
                "blog_background_2000users_10posts.jsonl.xz",
                "blog_users.csv",
            ),
            ("blogs.zip",),
        ),
        homepages=("https://u.cs.biu.ac.il/~koppel/BlogCorpus.htm",),
        note="the Blog Authorship Corpus as published (blogs.zip), or extracts of it as JSON Lines",
    ),
    "amazon": Source(
        folder="amazon",
        choices=(("digital_music_5core_first6902.jsonl.xz",), ("reviews_Digital_Music_5.json.gz",)),
        homepages=("https://jmcauley.ucsd.edu/data/amazon/",),
        note="the 5-core Digital Music reviews, or the first of them as JSON Lines",
    ),
    "yelp": Source(
        folder="yelp",
        choices=(("yelp_academic_dataset_review.json",),),
        homepages=("https://www.yelp.com/dataset",),
        note="the reviews of the Yelp Open Dataset",
    ),
    "pipa": Source(
        folder="pipa",
        choices=(("annotations/index.txt", "flickr.jsonl", "labels.csv"),),
        homepages=(
            "https://github.com/coallaoh/PIPA_dataset (its all_data.txt is index.txt)",
            "https://www.flickr.com/services/api/",
        ),
        note="the index, the reply of Flickr's flickr.photos.getInfo for each photograph, one per line, the output of "
        "an object detector (columns photo, label), and the images as train/<photoset>_<photo>.jpg",
    ),
    "openimages": Source(
        folder="openimages",
        choices=(
            (
                "oidv6-train-images-with-labels-with-rotation.csv",
                "oidv7-train-annotations-human-imagelabels.csv",
                "oidv7-class-descriptions.csv",
                "train/",
            ),
        ),
        homepages=("https://storage.googleapis.com/openimages/web/download_v7.html",),
        note="the image table, the human-verified labels, the class names, and images as train/<ImageID>.jpg",
    ),
    "ptb": Source(
        folder="ptb",
        choices=(("ptb.train.txt.xz", "ptb.test.txt.xz"), ("ptb.train.txt", "ptb.test.txt")),
        homepages=("https://catalog.ldc.upenn.edu/LDC99T42",),
        note="the Penn Treebank as prepared by Mikolov for language models",
    ),
    "wikitext2": Source(
        folder="wikitext2",
        choices=(("wiki.train.shuffled.tokens.xz", "wiki.test.tokens.xz"), ("wiki.train.tokens", "wiki.test.tokens")),
        homepages=("https://huggingface.co/datasets/Salesforce/wikitext",),
        note="WikiText-2, word level",
    ),
    "enwik8": Source(
        folder="enwik8",
        choices=(("enwik8_first4154399bytes.xz",), ("enwik8",)),
        homepages=("http://mattmahoney.net/dc/textdata.html",),
        note="the first 100 MB of the English Wikipedia of 2006, or a prefix of it",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Whether a data set is on this machine."""

    dataset: str
    present: bool  # everything it needs
    files: tuple[tuple[str, Path | None, int], ...]  # name, where it was found, bytes
    how: str  # how to get what is missing; empty if nothing is missing


def _roots() -> list[Path]:
    named = os.environ.get("FEDLEAK_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedleak"
    return [Path(named).expanduser(), cache] if named else [cache]


def _how(dataset: str, missing: Sequence[str]) -> str:
    source = SOURCES[dataset]
    folder = _roots()[0] / source.folder
    return (
        f"data set '{dataset}' needs {', '.join(missing)} ({source.note}). "
        f"Download from {' and '.join(source.homepages)} and put it into {folder}"
        + ("" if os.environ.get("FEDLEAK_DATA") else ", or set FEDLEAK_DATA to the folder above it")
        + "."
    )


def find(dataset: str, files: Sequence[str]) -> Path:
    """Return the folder that holds these files of a data set, or say what to download and where to put it."""
    folders = [root / SOURCES[dataset].folder for root in _roots()]
    missing: list[list[str]] = [[name for name in files if not _there(folder, name)] for folder in folders]
    for folder, lacks in zip(folders, missing, strict=True):
        if not lacks:
            return folder
    raise DataError(_how(dataset, min(missing, key=len)))


def complete(dataset: str) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of a data set and which of its sets of files is there, or say what to download."""
    for choice in SOURCES[dataset].choices[:-1]:
        with contextlib.suppress(DataError):
            return find(dataset, choice), choice
    # The last set is the one that the publisher offers.
    return find(dataset, SOURCES[dataset].choices[-1]), SOURCES[dataset].choices[-1]


def _there(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() if name.endswith("/") else (folder / name).is_file()


def status() -> list[Status]:
    """What is present and what is missing, for every data set that needs files."""
    return [_status(dataset, source) for dataset, source in SOURCES.items()]


def _status(dataset: str, source: Source) -> Status:
    roots = _roots()

    def where(name: str) -> Path | None:
        return next((root / source.folder / name for root in roots if _there(root / source.folder, name)), None)

    found = {name: where(name) for choice in source.choices for name in choice}
    present = any(
        all(_there(root / source.folder, name) for name in choice) for choice in source.choices for root in roots
    )
    fewest = min(([name for name in choice if found[name] is None] for choice in reversed(source.choices)), key=len)
    files = tuple((name, path, path.stat().st_size if path else 0) for name, path in found.items())
    return Status(dataset=dataset, present=present, files=files, how="" if present else _how(dataset, fewest))

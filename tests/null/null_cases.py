"""Plans for the contract of data sets and splits: small ones of every kind of data, and the real data sets."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedleak.core import rng_for

SMALL = """
[federation]
rounds = 16
fraction = 0.5
lr = 0.1
batch = 6
centralised = false
[audit]
permutations = 50
"""
MLP = '[model]\nname = "mlp"\nhidden = [8]\n'
LABELS = '[[attack]]\nname = "reid-labels"\n'
STRONG = '[[attack]]\nname = "reid-strong"\nsnapshots = 4\n'
NAMES = LABELS + STRONG

# name -> plan; {data} is the folder that `write` fills
SMALL_CASES: Mapping[str, str] = {
    "digits-identify": '[dataset]\nname = "digits"\nusers = 12\nexamples = 30\n' + MLP + SMALL + NAMES,
    "digits-match": '[dataset]\nname = "digits"\nusers = 12\nexamples = 30\n'
    + MLP
    + SMALL
    + '[[game]]\nname = "match"\nbetween = "prior"\n[[game]]\nname = "match"\nbetween = "anonymous"\n'
    + '[[attack]]\nname = "match-cosine"\n',
    "digits-attribute": '[dataset]\nname = "digits"\nusers = 16\nexamples = 24\n'
    + MLP
    + SMALL
    + '[[game]]\nname = "attribute"\nattribute = "slant"\n[[attack]]\nname = "attribute-mlp"\n',
    "table-sizes": '[dataset]\nname = "table"\npath = "{data}/rows.csv"\nfeatures = ["a", "b", "c"]\nlabel = "kind"\n'
    + MLP
    + SMALL
    + NAMES,
    "table-days": '[dataset]\nname = "table"\npath = "{data}/rows.csv"\nfeatures = ["a", "b", "c"]\nlabel = "kind"\n'
    'time = "day"\n' + MLP + SMALL + NAMES,
    "table-chrono": '[dataset]\nname = "table"\npath = "{data}/rows.csv"\nfeatures = ["a", "b", "c"]\nlabel = "kind"\n'
    'time = "day"\n[population]\nprior = "chrono"\n' + MLP + SMALL + LABELS,
    "table-album": '[dataset]\nname = "table"\npath = "{data}/rows.csv"\nfeatures = ["a", "b", "c"]\nlabel = "kind"\n'
    'album = "trip"\n[population]\nprior = "album"\n' + MLP + SMALL + LABELS,
    "table-copies": '[dataset]\nname = "table"\npath = "{data}/few.csv"\nfeatures = ["a", "b"]\nlabel = "kind"\n'
    + MLP
    + SMALL
    + LABELS,
    "table-balanced": '[dataset]\nname = "table"\npath = "{data}/designed.csv"\nfeatures = ["a", "b", "c"]\n'
    'label = "kind"\n' + MLP + SMALL + LABELS,
    "table-ratings": '[dataset]\nname = "table"\npath = "{data}/rows.csv"\nfeatures = ["a", "b"]\nlabel = "c"\n'
    'task = "regress"\n' + MLP + SMALL + STRONG,
    "table-text": '[dataset]\nname = "table"\npath = "{data}/posts.csv"\ntext = "words"\ntask = "next-token"\n'
    'document = "post"\nvocabulary = 40\nlength = 8\n'
    '[model]\nname = "word-lm"\nembedding = 8\nhidden = 8\n' + SMALL + STRONG,
    "image-folder": '[dataset]\nname = "image-folder"\npath = "{data}/images"\nsize = 8\n' + MLP + SMALL + LABELS,
    "pipa": '[dataset]\nname = "pipa"\nmin_photos = 4\nsize = 8\n' + MLP + SMALL + LABELS,
    "pipa-chrono": '[dataset]\nname = "pipa"\nmin_photos = 4\nsize = 8\n[population]\nprior = "chrono"\n'
    + MLP
    + SMALL
    + LABELS,
    "clients-link": '[dataset]\nname = "mnist-clients"\nsource = "digits"\nclients = 8\nexamples = 30\n\n'
    '[population]\nprior = "none"\n[model]\nname = "strided-cnn"\nchannels = [4, 8]\nstrides = [2, 1]\n'
    + SMALL.replace("rounds = 16", "rounds = 8")
    + '[[attack]]\nname = "link-cosine"\n',
}

BIG = "[federation]\nrounds = 40\nlr = 0.1\nbatch = 10\ncentralised = false\n[audit]\npermutations = 100\n"
CNN = '[model]\nname = "cnn"\nchannels = [8, 16]\nhidden = 32\n'
LM = '[model]\nname = "word-lm"\nembedding = 32\nhidden = 32\n'
TEXT = "[federation]\nrounds = 25\nlr = 4.0\nclip = 5.0\nbatch = 20\ncentralised = false\n[audit]\npermutations = 100\n"
EVERY = "".join(
    f'[[attack]]\nname = "{name}"\n' for name in ("reid-labels", "reid-knn", "reid-svm", "reid-mlp", "reid-strong")
)
FEW = "".join(f'[[attack]]\nname = "{name}"\n' for name in ("reid-labels", "reid-svm", "reid-strong"))
PAIRS = (
    '[[game]]\nname = "match"\nbetween = "prior"\n[[game]]\nname = "match"\nbetween = "anonymous"\n'
    '[[attack]]\nname = "match-cosine"\n[[attack]]\nname = "match-mlp"\n[[attack]]\nname = "match-siamese"\n'
)

# At the size of an audit, on the real data sets; minutes each.
FULL_CASES: Mapping[str, str] = {
    "digits": '[dataset]\nname = "digits"\n' + MLP + BIG + EVERY,
    "digits-match": '[dataset]\nname = "digits"\n' + MLP + BIG + PAIRS,
    "mnist-writers": '[dataset]\nname = "mnist-writers"\n[population]\nusers = 20\n' + CNN + BIG + FEW,
    "mnist-writers-8": '[dataset]\nname = "mnist-writers"\nper_class = 8\n[population]\nusers = 20\n'
    + CNN
    + BIG
    + FEW
    + '[[game]]\nname = "attribute"\nattribute = "group"\n[[attack]]\nname = "attribute-mlp"\n'
    '[[game]]\nname = "profile"\ntrait = "slanted"\nleast = 0.5\n[[attack]]\nname = "profile-gradient"\n',
    "writers-cross-modal": '[dataset]\nname = "mnist-writers"\nper_class = 8\n[population]\nusers = 30\n'
    + CNN
    + BIG
    + '[[attack]]\nname = "match-text"\nlayer = "fc"\n',
    "writers-canvas": '[dataset]\nname = "writers-canvas"\n[population]\nusers = 20\n' + CNN + BIG + FEW,
    "blog": '[dataset]\nname = "blog"\nsentences = 100\nbackground = 4000\n[population]\nusers = 20\n'
    + LM
    + TEXT
    + '[[attack]]\nname = "reid-svm"\n[[attack]]\nname = "reid-strong"\n',
    "blog-chrono": '[dataset]\nname = "blog"\nsentences = 100\nbackground = 4000\n'
    '[population]\nusers = 20\nprior = "chrono"\n'
    + LM
    + TEXT
    + '[[attack]]\nname = "reid-svm"\n[[attack]]\nname = "reid-strong"\n',
    "amazon": '[dataset]\nname = "amazon"\n[population]\nusers = 30\n[model]\nname = "rating"\nembedding = 16\n'
    "hidden = 16\n" + BIG + '[[attack]]\nname = "reid-svm"\n[[attack]]\nname = "reid-strong"\n',
    "amazon-chrono": '[dataset]\nname = "amazon"\n[population]\nusers = 30\nprior = "chrono"\n'
    '[model]\nname = "rating"\nembedding = 16\nhidden = 16\n'
    + BIG
    + '[[attack]]\nname = "reid-svm"\n[[attack]]\nname = "reid-strong"\n',
    "faces-link": '[dataset]\nname = "faces"\nside = 32\n[population]\nprior = "none"\n'
    '[model]\nname = "strided-cnn"\nchannels = [8, 16]\nstrides = [2, 2]\n'
    "[federation]\nrounds = 20\nfraction = 1.0\nlr = 0.02\nbatch = 5\ncentralised = false\n"
    '[[attack]]\nname = "link-cosine"\nshadows = 4\nshadow_rounds = 6\n',
    "mnist-clients-link": '[dataset]\nname = "mnist-clients"\n[population]\nprior = "none"\n'
    '[model]\nname = "strided-cnn"\nchannels = [8, 16]\nstrides = [2, 2]\n'
    "[federation]\nrounds = 20\nfraction = 1.0\nlr = 0.02\nbatch = 10\ncentralised = false\n"
    '[[attack]]\nname = "link-cosine"\n[[attack]]\nname = "link-update"\n',
    "mnist-clients-reconstruct": '[dataset]\nname = "mnist-clients"\n[population]\nprior = "none"\n'
    '[model]\nname = "strided-cnn"\nchannels = [8, 16]\nstrides = [2, 2]\n'
    "[federation]\nrounds = 6\nfraction = 1.0\nlr = 0.02\nbatch = 10\ncentralised = false\n"
    '[audit]\nadversaries = ["server"]\n[[attack]]\nname = "representatives"\n',
    "text-clients": '[dataset]\nname = "text-clients"\nclients = 4\nkilobytes = 5\ntest_kilobytes = 5\n'
    'secret = "my pin is {{d4}}"\n[population]\nprior = "none"\n'
    '[model]\nname = "char-lm"\nembedding = 16\nhidden = 64\n'
    '[federation]\nrounds = 60\nfraction = 0.5\nlr = 0.003\noptimizer = "adam"\nclip = 1.0\nbatch = 8\n'
    'centralised = false\n[audit]\nadversaries = ["eavesdropper"]\n'
    '[[attack]]\nname = "exposure-baseline"\n[[attack]]\nname = "eavesdrop"\n[[attack]]\nname = "eavesdrop-strong"\n',
}


def write(folder: Path) -> Path:
    """Write users of whom nobody has anything personal, as files of every kind."""
    rng = rng_for(0, "null cases")
    with (folder / "rows.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "a", "b", "c", "kind", "day", "trip"])
        for user, size in enumerate(rng.integers(16, 60, 14)):
            days = np.sort(rng.integers(0, 40, size))
            for day in days:
                # A day has a mood of its own, so that examples of one day belong together.
                mood = rng_for(user, "mood", int(day)).normal()
                a, b, c = rng.normal(size=3) + mood
                kind = int(rng.integers(0, 3) if rng.random() < 0.5 else abs(hash_of(mood)) % 3)
                out.writerow([f"u{user}", a, b, c, f"k{kind}", 86400 * int(day) + 40000, f"t{day // 4}"])
    with (folder / "few.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "a", "b", "kind"])
        for user in range(14):
            for _ in range(30):
                a, b = rng.integers(0, 3, 2)
                out.writerow([f"u{user}", a, b, f"k{(a + int(rng.integers(0, 2))) % 3}"])
    with (folder / "designed.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "a", "b", "c", "kind"])
        for user in range(14):
            for kind in range(4):
                for _ in range(8 + int(rng.integers(0, 3))):
                    out.writerow([f"u{user}", *(rng.normal(size=3) + kind), f"k{kind}"])
    with (folder / "posts.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "words", "post"])
        for user in range(12):
            for post in range(12):
                topic = rng.integers(0, 30, 12)
                for _ in range(int(rng.integers(1, 5))):
                    out.writerow([f"u{user}", " ".join(f"w{n}" for n in rng.choice(topic, 8)), f"p{user}-{post}"])
    for user in range(12):
        for number in range(24):
            kind = int(rng.integers(0, 3))
            image = (80 * kind + rng.integers(0, 80, (8, 8))).astype(np.uint8)
            place = folder / "images" / f"u{user}" / f"k{kind}" / f"{number}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place)
    _photographs(folder / "pipa", rng)
    return folder


def _photographs(root: Path, rng: np.random.Generator) -> None:
    """Photographs with several labels, in albums of one occasion each, as PIPA and Flickr give them."""
    index, flickr, labels = [], [], ["photo,label"]
    for owner in range(12):
        for occasion in range(10):
            album, chosen = 100 * owner + occasion, rng.random(4) < 0.5
            for place in range(2):
                number = 2 * album + place
                image = (rng.integers(0, 60, (8, 8, 3)) + 60 * chosen[:3]).astype(np.uint8)
                file = root / "train" / f"{album}_{number}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(file, quality=95)
                index.append(f"{album} {number} 0 10 40 40 1 0")
                taken = f"2010-{1 + occasion:02d}-01 1{place}:00:00"
                about = {"id": str(number), "owner": {"nsid": f"o{owner}", "username": "x"}}
                flickr.append(json.dumps({"photo": {**about, "dates": {"posted": "1", "taken": taken}}, "stat": "ok"}))
                labels += [f"{number},thing{i}" for i in np.flatnonzero(chosen ^ (rng.random(4) < 0.1))]
    (root / "annotations").mkdir()
    (root / "annotations" / "index.txt").write_text("\n".join(index) + "\n")
    (root / "flickr.jsonl").write_text("\n".join(flickr) + "\n")
    (root / "labels.csv").write_text("\n".join(labels) + "\n")


def hash_of(value: float) -> int:
    """A whole number that depends on a value and on nothing else."""
    return round(value * 1e6)


def text_of(case: str, data: Path) -> str:
    """A plan, with the folder of its data filled in."""
    return case.replace("{data}", str(data)).replace("{{", "{").replace("}}", "}")


def shown(name: str, results: list[Any]) -> str:
    """A line for every attack, for a table."""
    return "\n".join(
        f"| {name} | {one.game} | {one.control} | {one.attack} | {one.value:.3f} | {one.chance:.3f} | {one.z:+.1f} | "
        f"{one.leaks}/{len(one.values)} |"
        for one in results
    )

"""A whole audit of users whose examples have several labels: control, defences, attacks and yardsticks included."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_mnist_writers import write_idx

from command_line import Run

PLAN = """
title = "several labels"
[dataset]
name = "writers-canvas"
canvases = 10
[model]
name = "mobilenet"
blocks = 1
halvings = 3
[federation]
rounds = 6
fraction = 0.5
lr = 0.1
batch = 5
[[attack]]
name = "reid-labels"
[[attack]]
name = "reid-knn"
layer = "pw1"
k = 3
[[defence]]
name = "noise"
sigma = 0.01
[[defence]]
name = "rand-aug"
alpha = 0.5
"""


@pytest.fixture
def writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five writers with 40 digits each and one with 12, in MNIST's own format."""
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, named, who in (
        ("train", "train", np.repeat(np.arange(6), [40, 40, 40, 40, 40, 12])),
        ("t10k", "test", np.repeat([98, 99], 20)),
    ):
        label = np.arange(len(who)) % 10
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", 8, rng.integers(0, 256, (len(who), 28, 28)))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8, label)
        rows = np.zeros((len(who), 8), dtype=np.int64)
        rows[:, 0], rows[:, 2] = label, who
        write_idx(folder / f"qmnist-{named}-labels-idx2-int.gz", 12, rows)
    return folder


def test_an_audit_of_several_labels_runs_to_its_report(writers: Path, fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    done = fedleak("audit", "plan.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "out" / "results.json").read_text())["scores"]
    played = {(s["attack"], s["control"], s["defence"] and s["defence"]["name"]) for s in scores}
    variants = ((None, None), ("iid", None), (None, "noise"), (None, "rand-aug"))
    assert played == {(attack, *variant) for attack in ("reid-labels", "reid-knn") for variant in variants}
    for score in scores:
        utility = score["utility"]
        assert utility["metric"] == "ap"
        assert all(0 < utility[key] <= 1 for key in ("value", "chance", "centralised", "knn"))

"""Attacks on federations that train a user's own model: with BatchNorm, dropout, and every kind of output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import own_nets
import pytest

from command_line import Run
from fedleak.attacks.deanonymize.words import word_layer
from fedleak.core import Layer
from fedleak.errors import PlanError
from fedleak.pipeline.runs import withheld
from fedleak.plan.read import parse
from fedleak.population.population import Examples
from fedleak.sandbox.confine import landlock_version
from fedleak.trace.reader import Trace

PLAN = """
seeds = [0]
[dataset]
name = "digits"
users = 12
examples = 60
class_bias = 2.0
[model]
name = "own_nets:tensor"
[federation]
rounds = 14
fraction = 0.25
batch = 10
lr = 0.1
centralised = false
"""
REID = """
[[attack]]
name = "reid-strong"
[[attack]]
name = "reid-svm"
[[attack]]
name = "reid-knn"
k = 1
[[attack]]
name = "reid-centroid"
"""
IMAGES = """
seeds = [0]
[dataset]
name = "mnist-clients"
source = "digits"
clients = 8
examples = 16
classes = 2
auxiliary = 200
[population]
prior = "none"
users = 6
[model]
name = "own_nets:dropping"
[federation]
rounds = 4
fraction = 1.0
batch = 8
lr = 0.1
centralised = false
[audit]
controls = []
adversaries = ["server"]
"""


def scores(folder: Path, metric: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    found = json.loads((folder / "results.json").read_text())["scores"]
    return {(one["attack"], one["control"]): one for one in found if one["metric"] == metric}


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "plan.toml").write_text(text)
    return tmp_path / "plan.toml"


def test_the_strong_attack_retrains_and_beats_those_that_do_not(tmp_path: Path, fedleak: Run) -> None:
    done = fedleak("audit", write(tmp_path, PLAN + REID), "--out", "out")
    assert done.returncode == 0, done.stderr
    found = scores(tmp_path / "out", "ap")
    strong = found["reid-strong", None]
    assert strong["low"] > strong["chance"]
    for other in ("reid-svm", "reid-knn", "reid-centroid"):
        assert strong["value"] > found[other, None]["value"] + 0.1, other
    control = found["reid-strong", "iid"]
    assert control["low"] <= control["chance"]


@pytest.mark.parametrize("kind", ["tensor", "in_dict", "in_tuple", "in_object", "only"])
def test_outputs_of_every_kind_give_the_same_federation_and_the_same_answers(
    kind: str, tmp_path: Path, fedleak: Run
) -> None:
    attack = '[[attack]]\nname = "reid-strong"\nsnapshots = 2\n[audit]\ncontrols = []\n'
    text = PLAN.replace("rounds = 14", "rounds = 4").replace("own_nets:tensor", f"own_nets:{kind}")
    assert fedleak("audit", write(tmp_path, text + attack), "--out", "out").returncode == 0
    trace = Trace.open(tmp_path / "out" / "runs" / "plain" / "seed-0" / "trace")
    assert [layer.name for layer in trace.header.layout] == ["fc", "bn", "bn:buffers", "out"]
    assert trace.updates("bn:buffers").any()
    value = scores(tmp_path / "out", "ap")["reid-strong", None]["value"]
    # By one of them, computed once: the wrapping of the outputs changes nothing.
    weights = float(trace.snapshot(4)["out"].astype(np.float64).sum())
    _SAME.setdefault("found", (value, weights))
    assert _SAME["found"] == (value, weights)


_SAME: dict[str, tuple[float, float]] = {}


@pytest.mark.parametrize(
    ("game", "attacks"),
    [
        ("reconstruct", ["representatives", "model-inversion"]),
        ("link", ["link-cosine", "link-rep-cosine"]),
    ],
)
@pytest.mark.parametrize("buffers", ["averaged", "local"])
def test_attacks_that_invert_or_imitate_work_with_dropout_and_buffers(
    game: str, attacks: list[str], buffers: str, tmp_path: Path, fedleak: Run
) -> None:
    few = {"representatives": "iterations = 3\nrounds = 1\n", "link-rep-cosine": "iterations = 3\n"}
    few["model-inversion"] = "steps = 3\n"
    text = IMAGES.replace('dropping"', f'dropping"\nbuffers = "{buffers}"')
    if game == "reconstruct":
        text += '[[game]]\nname = "reconstruct"\nvictims = 2\nsamples = 4\n'
    else:
        text = text.replace('"server"', '"anonymous-server"')
    text += "".join(
        f'[[attack]]\nname = "{name}"\n{few.get(name, "")}'
        + ("shadows = 4\nshadow_rounds = 2\n" if game == "link" else "")
        for name in attacks
    )
    done = fedleak("audit", write(tmp_path, text), "--out", "out")
    assert done.returncode == 0, done.stderr
    assert {attack for attack, _ in scores(tmp_path / "out", "nearest" if game == "reconstruct" else "auc")} == {
        *attacks
    }


def test_records_are_scored_with_a_language_model_of_ones_own(tmp_path: Path, fedleak: Run) -> None:
    (tmp_path / "text.txt").write_text("".join(f"the cat number {i} sat on mat {i * i}.\n" for i in range(900)))
    text = """
        [dataset]
        name = "text-clients"
        source = "text.txt"
        clients = 3
        kilobytes = 1.5
        test_kilobytes = 1
        window = 32
        secret = "pin {d2}"
        [population]
        prior = "none"
        [model]
        name = "own_nets:writer"
        [federation]
        rounds = 4
        fraction = 0.67
        lr = 0.01
        optimizer = "adam"
        centralised = false
        [audit]
        adversaries = ["eavesdropper"]
        controls = []
        [[attack]]
        name = "exposure-baseline"
        [[attack]]
        name = "eavesdrop"
        [[attack]]
        name = "eavesdrop-strong"
    """
    done = fedleak("audit", write(tmp_path, text), "--out", "out")
    assert done.returncode == 0, done.stderr
    assert len(scores(tmp_path / "out", "top1")) == 3


def test_positions_before_words_do_not_pass_for_words() -> None:
    rows = (Layer("position", (("weight", (4, 8)),)), Layer("token", (("weight", (30, 8)),)))
    texts = [Examples(x=np.array([[3, 29, 0]])), Examples(x=np.array([[1, 2, 0]]))]
    found = word_layer(rows, texts)
    assert found is not None and found.name == "token"
    assert word_layer(rows[:1], texts) is None
    assert word_layer(rows, [Examples(x=np.zeros((1, 3), np.float32))]) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (IMAGES + '[[attack]]\nname = "mgan-prior"\n', "attack 'mgan-prior' gives the model two more outputs"),
        (IMAGES + '[[attack]]\nname = "mgan-linked"\n', "attack 'mgan-linked' gives the model two more outputs"),
        (
            IMAGES.replace('"server"', '"active-server"')
            + '[isolate]\nsent = "discriminator"\n[[attack]]\nname = "representatives"\n',
            "sent = 'discriminator' gives the model another output",
        ),
    ],
)
def test_what_cannot_be_built_of_a_model_of_ones_own_is_refused_before_training(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse(text)


def test_a_model_given_as_an_object_is_refused_where_an_attack_has_to_build_it() -> None:
    with pytest.raises(PlanError, match=r"'representatives' builds the model in a process of its own.*module:callable"):
        parse(IMAGES + '[[attack]]\nname = "representatives"\n', change={"model": own_nets.tensor})


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "failing",
            "'failing' fails on examples of shape (1, 8, 8): RuntimeError: too many examples (own_nets.py, line ",
        ),
        ("unbuilt", "your model 'unbuilt' cannot be built: KeyError: 'no such size' (own_nets.py, line "),
        ("named", "your model 'named' returns dict with the keys 'a', 'b'; expected a tensor"),
    ],
)
def test_an_error_in_the_users_code_is_one_line_with_its_own_traceback_under_debug(
    target: str, words: str, tmp_path: Path, fedleak: Run
) -> None:
    plan = write(tmp_path, PLAN.replace("own_nets:tensor", f"own_nets:{target}") + REID)
    done = fedleak("train", plan, "--out", "out")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("fedleak: your model") and words in last
    assert "Traceback" not in done.stderr
    if target != "named":
        traced = fedleak("--debug", "train", plan, "--out", "out").stderr
        assert "Traceback" in traced and f"in {'forward' if target == 'failing' else 'unbuilt'}" in traced


def test_a_builder_that_reads_a_file_is_refused_before_training(tmp_path: Path, fedleak: Run) -> None:
    (tmp_path / "sizes.txt").write_text("12")
    done = fedleak("train", write(tmp_path, PLAN.replace("own_nets:tensor", "own_nets:reading") + REID), "--out", "out")
    if landlock_version():
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert "cannot build your model in their own process" in last and "Permission" in last and "sizes.txt" in last
        assert not list((tmp_path / "out").rglob("trace"))
    without = PLAN.replace('own_nets:tensor"', 'own_nets:reading"\nrebuild = false').replace("= 14", "= 2")
    done = fedleak("audit", write(tmp_path, without + REID + "[audit]\ncontrols = []\n"), "--out", "other")
    assert done.returncode == 0, done.stderr
    with pytest.raises(PlanError, match=r"'representatives' cannot do without building the model.*rebuild"):
        parse(IMAGES.replace('dropping"', 'dropping"\nrebuild = false') + '[[attack]]\nname = "representatives"\n')


def test_a_model_named_in_a_plan_is_not_withheld_but_the_users_data_is() -> None:
    text = PLAN.replace('name = "digits"\nusers = 12\nexamples = 60\nclass_bias = 2.0', 'name = "their_data:load"')
    plan = parse(text + REID)
    assert withheld(plan) == {"their_data"}
    assert withheld(parse(text.replace("own_nets:tensor", "their_data:net") + REID)) == frozenset()

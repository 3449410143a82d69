"""Objects in a plan: a data set in memory, a torch module, an attack and a defence of one's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import nn

import fedleak
from fedleak import (
    ArrayDataset,
    AttackContext,
    Capability,
    Observation,
    Params,
    Predictions,
    Prior,
    Questions,
    Signature,
    Task,
    View,
)
from fedleak.attacks.deanonymize.knn import NearestNeighbours
from fedleak.defences.noise import Noise
from fedleak.errors import DataError, PlanError, TraceError
from fedleak.pipeline.attack_runner import predictions_path
from fedleak.pipeline.runs import runs
from fedleak.plan.content import content_digest


def users(shift: float = 0.0, many: int = 6) -> dict[str, tuple[Any, Any]]:
    """Everyone has three classes around means of their own."""
    rng = np.random.default_rng(0)
    found = {}
    for number in range(many):
        means, y = rng.normal(size=(3, 4)), rng.integers(3, size=24)
        found[f"user-{number}"] = ((means[y] + rng.normal(size=(24, 4)) / 4 + shift).astype(np.float32), y)
    return found


@dataclass(frozen=True, kw_only=True)
class Halves(fedleak.Defence):
    """Send half of the update."""

    name: ClassVar[str] = "my-halves"
    summary: ClassVar[str] = "each client sends half of its update"

    factor: float = 0.5

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return {layer: values * np.float32(self.factor) for layer, values in update.items()}


@dataclass(frozen=True, kw_only=True)
class Products:
    """Compare an update with the mean of each user's labelled ones."""

    name: ClassVar[str] = "my-products"
    summary: ClassVar[str] = "compares updates by their inner product"
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    weight: float = 1.0

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        rows, sender = view.updates.layer(view.layout[-1].name), view.updates.shadow
        known = [rows[sender == user].sum(axis=0) for user in range(len(questions.options))]
        return np.asarray(rows[questions.updates] @ np.stack(known).T * np.float32(self.weight))


def build(signature: Signature) -> nn.Module:
    return nn.Sequential(nn.Linear(signature.input_shape[0], 8), nn.Tanh(), nn.Linear(8, signature.outputs))


def plan(**change: Any) -> dict[str, Any]:
    return {
        "dataset": ArrayDataset(users()),
        "model": build,
        "federation": {"rounds": 16, "fraction": 0.5, "lr": 0.2, "batch": 4, "centralised": False},
        "audit": {"controls": [], "adaptive": False},
        "attack": [Products()],
        "defence": [Halves()],
        **change,
    }


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> fedleak.Result:
    with pytest.warns(UserWarning, match="jobs=2: the plan holds objects"):
        return fedleak.audit(plan(), tmp_path_factory.mktemp("objects") / "out", jobs=2)


def test_an_audit_of_objects_gives_scores_and_resumes(done: fedleak.Result) -> None:
    assert {score.attack for score in done.scores} == {"my-products"}
    assert [score.defence["name"] if score.defence else None for score in done.scores if score.metric == "ap"] == [
        None,
        "my-halves",
    ]
    found = done.scores[0]
    assert found.low > found.chance  # everyone has means of their own
    assert done.audit.source == "144 examples of 6 users, given as arrays."
    written = {path: path.stat().st_mtime_ns for path in done.folder.rglob("*.npy")}
    assert fedleak.audit(plan(), done.folder).scores == done.scores
    assert {path: path.stat().st_mtime_ns for path in done.folder.rglob("*.npy")} == written
    assert all(row.paired and row.difference == 0 for row in done.compare(done))


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": ArrayDataset(users(shift=0.1))},
        {"dataset": ArrayDataset(users(many=5))},
        {"model": lambda signature: nn.Linear(signature.input_shape[0], signature.outputs)},
    ],
)
def test_other_content_never_resumes_the_runs_of_a_folder(done: fedleak.Result, change: dict[str, Any]) -> None:
    with pytest.raises(TraceError, match="another plan"):
        fedleak.audit(plan(**change), done.folder)


def test_other_settings_or_other_code_of_an_object_have_runs_and_claims_of_their_own(tmp_path: Path) -> None:
    def folders(**change: Any) -> set[tuple[Path, str]]:
        return {(run.folder, run.fingerprint) for run in runs(fedleak.read_plan(plan(**change)), tmp_path)}

    def claims(attack: Any) -> Path:
        chosen = fedleak.read_plan(plan(attack=[attack]))
        return predictions_path(runs(chosen, tmp_path)[0], *chosen.plays[0])

    @dataclass(frozen=True, kw_only=True)
    class Edited(Products):
        def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
            return np.zeros((len(questions), len(questions.options)))

    assert folders() == folders()
    assert len(folders() & folders(defence=[Halves(factor=0.25)])) == 1  # the undefended run is the same
    assert len({claims(Products()), claims(Products()), claims(Products(weight=2.0)), claims(Edited())}) == 3


def test_an_object_of_a_registered_class_is_the_table_that_means_the_same() -> None:
    tables = plan(
        dataset={"name": "digits"},
        model={"name": "mlp"},
        attack=[NearestNeighbours(k=3)],
        defence=[Noise(sigma=0.5), [Noise(sigma=1.0), {"name": "clip", "bound": 1.0}]],
    )
    found = fedleak.read_plan(tables)
    assert found.change["attack"] == [{"name": "reid-knn", "layer": "last", "k": 3}]
    assert found.attacks == (NearestNeighbours(k=3),)
    assert [[one.name for one in chosen] for chosen in found.defences] == [["noise"], ["noise", "clip"]]
    assert not fedleak.read_plan({**tables, "defence": [Noise(sigma=0.5)]}).in_process


def test_a_torch_module_is_trained_from_the_weights_that_it_has(tmp_path: Path) -> None:
    module = nn.Linear(4, 3)
    weight = module.weight.detach().numpy().copy()
    fedleak.audit(plan(model=module, defence=[], federation={"rounds": 3, "fraction": 1.0}), tmp_path / "out")
    trace = fedleak.open_trace(tmp_path / "out" / "runs" / "plain" / "seed-0").trace
    np.testing.assert_array_equal(trace.snapshot(0)["model"][:12].reshape(3, 4), weight)
    np.testing.assert_array_equal(module.weight.detach().numpy(), weight)
    digest = content_digest(module)
    module.weight.data[0, 0] += 1
    assert content_digest(module) != digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attack": [Products]}, r"\[\[attack\]\] 1: Products is a class; give an object of it: Products\(\.\.\.\)"),
        ({"attack": Products()}, "attack: expected a list of objects or tables"),
        (
            {"attack": [Halves()]},
            "an object of class Halves cannot be used as attack: it has no game, needs, capabilities, tasks",
        ),
        ({"defence": [Products()]}, "cannot be used as defence: .*derive its class from fedleak.Defence"),
        ({"dataset": np.zeros(3)}, r"\[dataset\]: expected a table with a name, or an object \(see fedleak.Dataset"),
        ({"model": 3}, "model = 3: expected table, got int"),
    ],
)
def test_what_does_not_fit_into_a_plan_is_refused_in_words(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        fedleak.read_plan(plan(**change))


def test_a_name_that_is_taken_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Taken(Products):
        name: ClassVar[str] = "reid-knn"

    with pytest.raises(PlanError, match="its name 'reid-knn' is that of a registered attack; choose another"):
        fedleak.read_plan(plan(attack=[Taken()]))


X, Y = np.zeros((5, 2), dtype=np.float32), np.arange(5) % 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ann": (X, Y)}, r"1 user\(s\); an audit tells users apart, so it needs two"),
        ({"ann": (X, Y), "bob": (X, Y[:4])}, "user 'bob': 5 examples and 4 labels"),
        ({"ann": (X, Y), "bob": X}, "user 'bob': no labels"),
        (
            {"ann": (X, Y), "bob": (X[:, :1], Y)},
            r"user 'bob' has examples of shape \(1,\) .* user 'ann' of shape \(2,\)",
        ),
        ({"ann": (X, Y), "bob": (X, Y / 2)}, "user 'bob' has floats as labels, user 'ann' has whole numbers"),
        ({"ann": (X, Y), "bob": (X, Y - 1)}, "class -1; classes count from 0"),
        ({"ann": (X, Y), "bob": (X + np.nan, Y)}, "user 'bob': x holds values that are not finite"),
        ({"ann": (X[:, 0], Y), "bob": (X, Y)}, r"user 'ann': x has shape \(5,\)"),
        ({"ann": (X[:, None], Y), "bob": (X, Y)}, "images need a channel"),
        ({"ann": (np.zeros((5, 1, 2, 2), np.uint8), Y), "bob": (X, Y)}, "images in .0, 1. .x / 255."),
        ({3: (X, Y), "bob": (X, Y)}, "a user's name must be text, got 3"),
        ([X], "expected users as a dict"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_words(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArrayDataset(given)


@pytest.mark.parametrize(
    ("y", "task", "outputs"),
    [
        (Y, Task.CLASSIFY, 2),
        (Y / 2, Task.REGRESS, 1),
        (np.eye(5)[:, :4], Task.MULTI_LABEL, 4),
    ],
)
def test_the_task_follows_from_the_labels(y: Any, task: Task, outputs: int) -> None:
    population = ArrayDataset({"ann": (X, y), "bob": (X, y)}).load(0)
    assert (population.task, population.outputs) == (task, outputs)
    tokens = ArrayDataset({"ann": Y[:, None].repeat(3, 1), "bob": Y[:, None].repeat(3, 1)}).load(0)
    assert (tokens.task, tokens.outputs) == (Task.NEXT_TOKEN, 2)


def test_test_data_attributes_and_a_sentence_can_be_given_too() -> None:
    about = {"user-0": {"age": "30s"}}
    full = ArrayDataset(users(), test=(np.zeros((3, 4)), [0, 1, 2]), attributes=about, source="Ours.")
    population = full.load(0)
    assert population.test is not None and len(population.test) == 3
    assert population.users[0].attributes == {"age": "30s"} and population.source == "Ours."
    assert full.plain_settings() != replace(full, test=None).plain_settings()
    with pytest.raises(DataError, match="attributes of 'eve', who is not among the users"):
        replace(full, attributes={"eve": {}})

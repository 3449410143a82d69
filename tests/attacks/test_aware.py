"""A defence-aware attacker learns from raw or from defended updates, whichever its own trials favour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedleak
from fedleak.attacks.aware import learn_from, raw_is_better, reciprocal_rank
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.centroid import Centroid
from fedleak.attacks.deanonymize.strong import Strong
from fedleak.attacks.features import features, unit
from fedleak.attacks.shadow import rebuilt
from fedleak.core import FloatArray, Params, rng_for
from fedleak.defences.noise import Noise
from fedleak.federation.hooks import Defence
from fedleak.games.identify import Identify
from fedleak.metrics.permutation import average_precision
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.prepare import prepare_run
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.training import train_run
from fedleak.trace.prior import Prior
from fedleak.views.adversaries import ANONYMOUS_SERVER


@dataclass(frozen=True, kw_only=True)
class Reversed(Defence):
    """Send every layer from back to front: raw updates say nothing about these, but anyone can imitate it."""

    name: ClassVar[str] = "reversed"
    summary: ClassVar[str] = "Reverses each layer."

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return {name: np.ascontiguousarray(values[::-1]) for name, values in update.items()}


def plan(defence: Any) -> Any:
    return fedleak.read_plan(
        {
            "seeds": [3],
            "dataset": {"name": "digits", "examples": 40, "style": 2.0, "class_bias": 0.5},
            "population": {"users": 16},
            "model": {"name": "mlp"},
            "federation": {"rounds": 12, "fraction": 0.25, "centralised": False},
            "audit": {"controls": []},
            "attack": [{"name": "reid-centroid"}],
            "defence": [defence],
        }
    )


def trained(defence: Any, out: Path) -> tuple[Run, Run]:
    """The defence-unaware and the defence-aware run; only the federation that both attack is trained."""
    chosen = plan(defence)
    _, unaware, aware = runs(chosen, out)
    train_run(chosen, unaware, lambda share: None)
    return unaware, aware


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    return trained(Reversed(), tmp_path_factory.mktemp("reversed"))


def looked(run: Run) -> Any:
    given = build_questions(run, Identify())
    known = run.variant.defences if run.variant.adaptive else ()
    return *given.look(run.attacked / "trace", ANONYMOUS_SERVER, defences=known), given


def score(attack: Any, run: Run) -> float:
    view, questions, given = looked(run)
    claims = attack.run(view, given.prior, questions, AttackContext(rng_for(0, "attack")))
    return average_precision(claims, given.answers.right).value


def out_layer(rows: Mapping[str, FloatArray]) -> FloatArray:
    return unit(rows["out"])


def test_both_attackers_attack_the_same_federation(turned: tuple[Run, Run]) -> None:
    unaware, aware = turned
    assert aware.attacked == unaware.folder == unaware.attacked
    assert aware.folder != unaware.folder  # where every client defends itself, which is where utility is measured


@pytest.mark.parametrize("attack", [Centroid(), Strong(snapshots=6, dims=256, link=False)], ids=lambda a: a.name)
def test_a_defence_that_can_be_imitated_does_not_help_against_who_knows_it(
    turned: tuple[Run, Run], attack: Any
) -> None:
    unaware, aware = (score(attack, run) for run in turned)
    assert unaware < 0.4 < 0.5 < aware


def test_noise_is_not_imitated(tmp_path: Path) -> None:
    unaware, aware = trained(Noise(sigma=0.02), tmp_path)
    view, _, given = looked(aware)
    model = rebuilt(view)
    assert model is not None and raw_is_better(view, model, given.prior, out_layer)
    rows = np.flatnonzero(view.updates.shadow >= 0)
    known = out_layer({"out": np.asarray(view.updates.layer("out")[rows])})
    assert learn_from(view, given.prior, rows, known, out_layer) is known
    assert score(Centroid(), aware) == score(Centroid(), unaware)


def test_defended_updates_are_what_its_clients_would_have_sent(turned: tuple[Run, Run]) -> None:
    view, questions, given = looked(turned[1])
    raw = features(view, questions, "out", 100).known
    found = features(view, questions, "out", 100, given.prior).known
    assert np.mean(np.einsum("ij,ij->i", found, raw[:, ::-1])) > 0.9


def test_only_who_knows_the_defence_has_its_public_examples(tmp_path: Path) -> None:
    chosen = plan({"name": "rand-aug", "alpha": 1.0})
    _, unaware, _ = runs(chosen, tmp_path)
    prepare_run(chosen, unaware)
    prior = Prior.load(unaware.folder / "prior")
    assert prior.background is not None and len(prior.background.examples)
    assert prior.take(np.arange(4)).background is None  # what a game hands to every attack


def test_the_reciprocal_rank_counts_ties_against_it() -> None:
    known = np.eye(3, dtype=np.float32)
    assert reciprocal_rank(known, np.arange(3), known, np.arange(3)) == 1
    assert reciprocal_rank(np.ones((1, 3), np.float32), np.array([1]), known, np.arange(3)) == pytest.approx(1 / 3)

"""The control that asks the model of other people about the same records: what it finds is not in the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedleak.errors import PlanError
from fedleak.pipeline.attack_runner import build_questions, played
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import audit
from fedleak.plan.read import parse
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth


class Silent:
    def stage(self, text: str, units: float) -> None:
        pass

    def tick(self, units: float) -> None:
        pass


PLAN = """
seeds = [0, 1, 2]
[dataset]
name = "digits"
users = 15
examples = 40
[population]
users = 3
outsiders = 2
disjoint = true
prior = "none"
held_out = 0.5
[model]
name = "mlp"
hidden = [8]
[federation]
rounds = 6
fraction = 1.0
lr = 0.1
batch = 6
centralised = false
[audit]
adversaries = ["server"]
controls = ["decoys", "other-federation"]
permutations = 50
[[attack]]
name = "membership-rmia"
[[attack]]
name = "membership-drop"
rounds = 2
"""


def test_the_same_records_are_asked_about_in_a_run_of_other_people(tmp_path: Path) -> None:
    plan = parse(PLAN, "other")
    result = audit(plan, tmp_path, Silent(), 1)
    mine, control = (
        next(run for run in runs(plan, tmp_path) if run.seed == 1 and run.variant.control == kind)
        for kind in (None, "other-federation")
    )
    assert control.observed == mine.references[0] and control.observed.name == "seed-0"
    assert control.handed_over == mine.references[1:], "the federation that is observed is no reference"
    attack, game, adversary = plan.plays[0]
    asked, moved = (build_questions(run, game) for run in (mine, control))
    assert np.array_equal(asked.questions.records.x, moved.questions.records.x)  # type: ignore[attr-defined]
    assert np.array_equal(asked.answers.right, moved.answers.right)
    here, there = (Trace.open(run.observed / "trace") for run in (mine, control))
    # Records of one client are asked about one client there, and of two clients about two.
    pairs = {
        (int(here.client[a]), int(there.client[b]))
        for a, b in zip(asked.questions.updates, moved.questions.updates, strict=True)
    }
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs}) == 3
    strangers = set(Truth.load(control.observed / "truth").users)
    assert not strangers & set(asked.answers.users)
    assert not np.array_equal(*(played(run, attack, game, adversary).claims for run in (mine, control)))
    found = {(one.attack, one.control) for one in result.scores if one.metric == "auc"}
    assert {name for name, kind in found if kind == "other-federation"} == {name for name, kind in found if not kind}


@pytest.mark.parametrize("change", [("disjoint = true\n", ""), ("[0, 1, 2]", "[0, 1]")])
def test_without_other_federations_it_is_refused(change: tuple[str, str]) -> None:
    with pytest.raises(PlanError, match=r"'other-federation' asks the run of another seed.*at least three"):
        parse(PLAN.replace(*change), "alone")

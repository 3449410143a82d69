"""Records that nobody trains on, and users who take no part, are drawn at random and apart from everything else."""

from __future__ import annotations

import numpy as np
import pytest

from fedleak.errors import DataError, PlanError
from fedleak.plan.plan import PopulationPlan
from fedleak.plan.read import parse
from fedleak.population.datasets.digits import Digits
from fedleak.population.population import Examples
from fedleak.population.prepare import Prepared, prepare

PLAN = PopulationPlan(users=4, outsiders=3, disjoint=True, prior="none", held_out=0.5)


def rows(examples: Examples) -> set[bytes]:
    return {row.tobytes() for row in examples.x}


def prepared(seed: int = 0, plan: PopulationPlan = PLAN) -> Prepared:
    return prepare(Digits(), plan, seed)


def test_held_out_records_are_on_no_client_and_about_half_of_everybodys() -> None:
    found = prepared()
    trained = set().union(*(rows(share.private) for share in found.shares))
    for share in (*found.shares, *found.outsiders):
        held = found.held_out[share.user.id]
        assert not rows(held) & trained
        assert abs(len(held) - len(share.private)) <= len(held)
    assert len(found.outsiders) == 3


def test_no_user_of_one_run_is_in_another_be_it_as_an_outsider() -> None:
    runs = [prepared(seed) for seed in (0, 1)]
    users = [{share.user.id for share in (*run.shares, *run.outsiders)} for run in runs]
    assert all(len(found) == 7 for found in users)
    assert not users[0] & users[1]


def test_without_the_keys_nothing_changes() -> None:
    plain = prepared(plan=PopulationPlan(users=4, prior="none"))
    assert not plain.outsiders
    assert not plain.held_out
    assert np.array_equal(
        plain.shares[0].private.x, prepared(plan=PopulationPlan(users=4, prior="none")).shares[0].private.x
    )


def test_more_outsiders_than_users_are_refused() -> None:
    with pytest.raises(DataError, match="outsiders"):
        prepared(plan=PopulationPlan(users=4, outsiders=10_000, prior="none"))


@pytest.mark.parametrize(("unit", "wanted"), [("record", "set held_out = 0.5"), ("user", "set outsiders = N")])
def test_a_plan_without_non_members_is_refused_before_training(unit: str, wanted: str) -> None:
    text = f"""
title = "t"
story = "s"
[dataset]
name = "digits"
[population]
prior = "none"
[model]
name = "mlp"
[audit]
adversaries = ["model-user"]
[[game]]
name = "membership"
unit = "{unit}"
[[attack]]
name = "membership-loss"
[[attack]]
name = "membership-strong"
"""
    with pytest.raises(PlanError, match=wanted):
        parse(text)

"""Seeds with users of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from users import Given, crowd, everything, numbers, user

from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.population import User
from fedleak.population.prepare import prepare


def test_disjoint_seeds_share_nobody_and_use_everyone_they_can() -> None:
    plan = PopulationPlan(users=4, disjoint=True)
    drawn = [{str(s.user.id) for s in prepare(Given(users=crowd(13)), plan, seed).shares} for seed in range(3)]
    assert [len(users) for users in drawn] == [4, 4, 4]
    assert len(set.union(*drawn)) == 12
    assert drawn[1] == {str(s.user.id) for s in prepare(Given(users=crowd(13)[::-1]), plan, 1).shares}


def test_disjoint_users_that_run_out_are_an_error_that_names_the_last_seed() -> None:
    plan = PopulationPlan(users=4, disjoint=True)
    with pytest.raises(DataError, match=r"seed 3 would take users 13 to 16 of 13 .*Use seeds 0 to 2, or lower users"):
        prepare(Given(users=crowd(13)), plan, 3)
    with pytest.raises(DataError, match=r"of 3 .*\. Lower users"):
        prepare(Given(users=crowd(3)), plan, 0)
    with pytest.raises(DataError, match="disjoint = true needs users"):
        prepare(Given(users=crowd(3)), PopulationPlan(disjoint=True), 0)


def documented(one: User) -> User:
    """The same user, every example in a document of its own."""
    return replace(one, examples=replace(one.examples, document=np.arange(len(one.examples))))


def test_a_disjoint_slice_whose_users_cannot_be_divided_says_so() -> None:
    users = (*(documented(u) for u in crowd(3)), user("parrot", range(500, 510), document=np.zeros(10, dtype=np.int64)))
    plan = PopulationPlan(users=2, disjoint=True)

    def outcome(seed: int) -> str:
        try:
            return str(len(prepare(Given(users=users), plan, seed).shares))
        except DataError as error:
            return str(error)

    whole, short = sorted(map(outcome, range(2)), key=len)
    assert whole == "2"
    assert "disjoint = true with seed" in short
    assert "parrot" in short


def test_disjoint_background_is_the_same_for_every_seed() -> None:
    plan = PopulationPlan(users=3, disjoint=True, background_users=2)
    prepared = [prepare(Given(users=crowd(8)), plan, seed) for seed in range(2)]
    aside = [{n // 1000 for n in numbers(p.background)} for p in prepared if p.background is not None]
    assert aside[0] == aside[1]
    users = [{n // 1000 for n in everything(p)} for p in prepared]
    assert not users[0] & users[1]
    assert not (users[0] | users[1]) & aside[0]

"""Priors of one size, and a control that is dealt before anything else is done."""

from __future__ import annotations

import numpy as np
from users import Given, numbers, user

from fedleak.plan.plan import PopulationPlan
from fedleak.population.population import User
from fedleak.population.prepare import prepare


def sized(sizes: tuple[int, ...]) -> tuple[User, ...]:
    return tuple(user(f"u{i}", range(1000 * i, 1000 * i + size)) for i, size in enumerate(sizes))


def test_every_prior_has_the_size_of_the_smallest_so_that_its_size_tells_nothing() -> None:
    prepared = prepare(Given(users=sized((10, 20, 40))), PopulationPlan(), 0)
    assert [(len(s.prior), len(s.private)) for s in prepared.shares] == [(5, 5), (5, 10), (5, 20)]
    finding = next(f for f in prepared.findings if f.kind == "sizes")
    assert finding.count == 20
    assert "cut to 5 example(s)" in finding.text
    assert "median was 10" in finding.text
    whole = prepare(Given(users=sized((10, 20, 40))), PopulationPlan(prior_examples="all"), 0)
    assert [len(s.prior) for s in whole.shares] == [5, 10, 20]
    assert [f.kind for f in whole.findings] == ["split"]


def test_a_few_users_with_little_data_are_left_out_rather_than_cut_everybodys_prior_to_theirs() -> None:
    users = sized((4, *(40,) * 30))
    prepared = prepare(Given(users=users), PopulationPlan(), 0)
    assert {len(s.prior) for s in prepared.shares} == {20}
    assert [(f.kind, f.count) for f in prepared.findings] == [("split", 30), ("few", 1)]
    # Where the plan says how many, somebody else stands in; where nobody is left, all stay.
    assert {len(prepare(Given(users=users), PopulationPlan(users=25), seed).shares) for seed in range(8)} == {25}
    everyone = prepare(Given(users=users), PopulationPlan(users=31), 0)
    assert {len(s.prior) for s in everyone.shares} == {2}


def test_the_control_is_dealt_before_the_split_so_that_it_shows_what_the_split_does() -> None:
    # Half of the labels are 1 whoever the user is; a stratified split copies each user's count to both sides.
    labels = np.random.default_rng(0).integers(0, 2, (60, 20))
    users = tuple(user(f"u{i}", range(100 * i, 100 * i + 20), y=y) for i, y in enumerate(labels))

    def agreement(plan: PopulationPlan) -> float:
        shares = prepare(Given(users=users), plan, 0, iid=True).shares
        sides = [[getattr(s, side).y.mean() for s in shares] for side in ("prior", "private")]
        return float(np.corrcoef(sides)[0, 1])

    assert agreement(PopulationPlan(split="stratified")) > 0.8
    assert abs(agreement(PopulationPlan())) < 0.35


def test_the_control_keeps_documents_whole_and_counts_that_are_alike_by_design() -> None:
    posts = tuple(user(f"u{i}", range(100 * i, 100 * i + 12), document=np.arange(12) // 3) for i in range(8))
    dealt = prepare(Given(users=posts), PopulationPlan(), 0, iid=True)
    for share in dealt.shares:
        rows = share.user.examples
        assert rows.document is not None
        for one in np.unique(rows.document):
            inside = sorted(numbers(rows.take(rows.document == one)))
            assert len(inside) == 3
            assert inside == list(range(inside[0], inside[0] + 3))
    designed = tuple(user(f"u{i}", range(100 * i, 100 * i + 20), y=np.arange(20) % 2) for i in range(8))
    for share in prepare(Given(users=designed), PopulationPlan(), 0, iid=True).shares:
        assert share.user.examples.y is not None
        assert np.bincount(share.user.examples.y).tolist() == [10, 10]
        assert len({n // 100 for n in numbers(share.user.examples)}) > 2

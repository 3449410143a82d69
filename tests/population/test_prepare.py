"""From a data set to prior and private data: complete, disjoint, reproducible, and honest about who was left out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from users import Given, crowd, everything, examples, numbers, user

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.copies import repeated
from fedleak.population.datasets.digits import Digits
from fedleak.population.population import Examples
from fedleak.population.prepare import prepare
from fedleak.population.splits import PriorName


def columns(rows: Examples) -> list[bytes]:
    return [getattr(rows, f.name).tobytes() for f in fields(rows) if getattr(rows, f.name) is not None]


@given(st.floats(0.1, 0.9), st.booleans(), st.integers(0, 50))
@settings(max_examples=50)
def test_prior_and_private_are_disjoint_and_together_everything(share: float, iid: bool, seed: int) -> None:
    users = crowd(4)
    plan = PopulationPlan(prior_share=share, prior_examples="all", split="independent")
    prepared = prepare(Given(users=users), plan, seed, iid=iid)
    assert everything(prepared) == sorted(n for u in users for n in numbers(u.examples))
    for one in prepared.shares:
        assert len(one.prior)
        assert len(one.private)
        assert sorted(numbers(one.user.examples)) == sorted(numbers(one.prior) + numbers(one.private))
        if not iid:
            owner = next(u for u in users if u.id == one.user.id)
            assert set(numbers(one.user.examples)) == set(numbers(owner.examples))


def test_iid_control_keeps_every_size_and_breaks_who_owns_what() -> None:
    users = tuple(user(f"u{i}", range(1000 * i, 1000 * i + 10 + 4 * i), {"side": f"{i % 2}"}) for i in range(6))
    plan = PopulationPlan(prior_share=0.3, prior_examples="all")
    real, control = (prepare(Given(users=users), plan, 1, iid=iid) for iid in (False, True))
    sizes = [[(s.user.id, len(s.prior), len(s.private)) for s in p.shares] for p in (real, control)]
    assert sizes[0] == sizes[1]
    assert everything(real) == everything(control)
    mixed = [len({n // 1000 for n in numbers(share.private)}) for share in control.shares]
    assert min(mixed) > 1
    assert [s.user.attributes for s in control.shares] == [s.user.attributes for s in real.shares]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    def run(seed: int) -> list[bytes]:
        prepared = prepare(Digits(users=8, examples=20), PopulationPlan(users=5), seed)
        sides = [side for share in prepared.shares for side in (share.prior, share.private)]
        assert prepared.background is not None
        return [column for side in (*sides, prepared.test, prepared.background) for column in columns(side)]

    assert run(4) == run(4)
    assert run(4) != run(5)


def test_users_are_drawn_by_the_seed_and_keep_the_order_of_the_data() -> None:
    def drawn(seed: int) -> list[str]:
        return [str(s.user.id) for s in prepare(Given(users=crowd(9)), PopulationPlan(users=4), seed).shares]

    assert len(drawn(0)) == 4
    assert drawn(0) == sorted(drawn(0))
    assert len({tuple(drawn(seed)) for seed in range(10)}) > 1


def test_more_users_than_the_data_has_is_an_error_that_counts_them() -> None:
    with pytest.raises(DataError, match="users = 9, but only 3 of the 3"):
        prepare(Given(users=crowd(3)), PopulationPlan(users=9), 0)


def test_the_error_says_why_others_were_left_out() -> None:
    users = (*crowd(3), user("small", [1]), user("none", []))
    with pytest.raises(
        DataError, match=r"(?s)only 3 of the 5.*2 user\(s\) with fewer than 4 examples; left out. Users: small, none"
    ):
        prepare(Given(users=users), PopulationPlan(users=4), 0)


def test_an_audit_of_nobody_or_of_one_is_refused() -> None:
    with pytest.raises(DataError, match="no user in this data set has any examples"):
        prepare(Given(users=(user("none", []),)), PopulationPlan(), 0)
    with pytest.raises(DataError, match="at least 2 users, but only 1 of the 2"):
        prepare(Given(users=(*crowd(1), user("small", [1]))), PopulationPlan(), 0)


def test_examples_are_capped_per_user() -> None:
    prepared = prepare(Given(users=crowd(3, size=20)), PopulationPlan(examples=6), 0)
    assert {len(share.user.examples) for share in prepared.shares} == {6}


def test_a_test_set_is_held_out_of_every_user_if_the_data_brings_none() -> None:
    users = crowd(3, size=20)
    prepared = prepare(Given(users=users, test=None), PopulationPlan(test_share=0.25), 0)
    assert len(prepared.test) == 15
    assert {n // 1000 for n in numbers(prepared.test)} == {1, 2, 3}
    assert sorted(everything(prepared) + numbers(prepared.test)) == sorted(
        n for u in users for n in numbers(u.examples)
    )


def test_a_test_set_of_nothing_is_an_error() -> None:
    users = tuple(user(f"u{i}", range(10 * i, 10 * i + 4), document=np.array([0, 0, 1, 1])) for i in range(3))
    with pytest.raises(DataError, match="utility cannot be measured"):
        prepare(Given(users=users, test=None), PopulationPlan(), 0)


def test_copies_are_dropped_before_the_split() -> None:
    repeated = user("repeats", [*range(10), *range(10)])
    prepared = prepare(Given(users=(repeated, *crowd(2))), PopulationPlan(split="independent"), 2)
    share = next(s for s in prepared.shares if s.user.id == "repeats")
    assert sorted(numbers(share.prior) + numbers(share.private)) == list(range(10))
    _, finding = prepared.findings
    assert (finding.kind, finding.action, finding.count) == ("copies", "drop", 10)


def test_copies_are_kept_and_counted_if_the_plan_says_so() -> None:
    repeated = user("repeats", [*range(10), *range(10)])
    plan = PopulationPlan(copies="keep", split="independent", prior_examples="all")
    prepared = prepare(Given(users=(repeated, *crowd(2))), plan, 2)
    share = next(s for s in prepared.shares if s.user.id == "repeats")
    assert (len(share.prior), len(share.private)) == (10, 10)
    assert [(f.kind, f.action) for f in prepared.findings] == [("split", "independent"), ("copies", "keep")]


def test_what_many_users_hold_is_no_copy_of_anybodys() -> None:
    users = tuple(user(f"u{i}", [1, 1, 2, 2, 3, 3, *range(10 * i + 10, 10 * i + 20)]) for i in range(6))
    prepared = prepare(Given(users=users), PopulationPlan(split="independent"), 0)
    assert {len(share.user.examples) for share in prepared.shares} == {16}
    assert [f.kind for f in prepared.findings] == ["split"]


def test_sentences_of_one_document_are_no_copies_of_each_other() -> None:
    users = tuple(user(f"u{i}", [9 * i + n for n in (0, 0, 0, 1, 1, 1)], document=np.arange(6) // 3) for i in range(3))
    assert not np.concatenate(repeated(users)).any()


def test_a_user_with_nothing_but_copies_cannot_take_part() -> None:
    prepared = prepare(Given(users=(user("parrot", [7] * 10), *crowd(2))), PopulationPlan(), 0)
    assert [s.user.id for s in prepared.shares] == ["u0", "u1"]
    assert [(f.kind, f.count) for f in prepared.findings] == [("split", 2), ("copies", 9), ("few", 1)]
    with pytest.raises(DataError, match="fewer than 4 examples: parrot"):
        prepare(Given(users=(user("parrot", [7] * 10), *crowd(2))), PopulationPlan(few="stop"), 0)


def test_another_user_is_drawn_for_one_who_cannot_be_divided() -> None:
    users = (*crowd(3), *(user(f"parrot{i}", [50 + i] * 10) for i in range(3)))
    for seed in range(5):
        prepared = prepare(Given(users=users), PopulationPlan(users=3), seed)
        assert [s.user.id for s in prepared.shares] == ["u0", "u1", "u2"]


def test_background_users_take_no_part() -> None:
    prepared = prepare(Given(users=crowd(6)), PopulationPlan(background_users=2), 0)
    assert prepared.background is not None
    aside = {n // 1000 for n in numbers(prepared.background)}
    taking_part = {n // 1000 for n in everything(prepared)}
    assert (len(aside), len(taking_part)) == (2, 4)
    assert not aside & taking_part


def test_a_kept_twin_is_never_background() -> None:
    users = (user("a", range(500, 510)), user("b", range(500, 510)), *crowd(4))
    for seed in range(8):
        plan = PopulationPlan(background_users=2, twins="keep")
        prepared = prepare(Given(users=users), plan, seed)
        assert {"a", "b"} <= {str(s.user.id) for s in prepared.shares}


def test_too_many_background_users_are_refused() -> None:
    with pytest.raises(DataError, match="background_users = 5 leaves no user"):
        prepare(Given(users=crowd(6)), PopulationPlan(background_users=5), 0)


def test_a_background_with_a_good_part_of_somebodys_data_is_refused() -> None:
    # u0 holds 1000 to 1009.
    with pytest.raises(DataError, match=r"contains 3 of the 10 examples of user 'u0'.*must come from other users"):
        prepare(Given(users=crowd(2), background=examples([1003, 1004, 1005, 77777])), PopulationPlan(), 0)


@pytest.mark.parametrize("label", [-1, 2])
def test_background_labels_outside_the_task_are_refused(label: int) -> None:
    background = examples([77777, 77778], y=np.array([0, label]))
    with pytest.raises(DataError, match=r"background labels range from .* the task allows 0 to 1"):
        prepare(Given(users=crowd(2), background=background), PopulationPlan(), 0)


def test_a_background_without_labels_or_of_another_shape_is_refused() -> None:
    with pytest.raises(DataError, match="the background examples have no labels"):
        prepare(Given(users=crowd(2), background=examples([77777], y=None)), PopulationPlan(), 0)
    wide = Examples(x=np.zeros((2, 3), dtype=np.float32), y=np.zeros(2, dtype=np.int64))
    with pytest.raises(DataError, match="preprocess both in the same way"):
        prepare(Given(users=crowd(2), background=wide), PopulationPlan(), 0)


def test_background_that_a_user_also_holds_is_dropped() -> None:
    prepared = prepare(Given(users=crowd(2), background=examples([1003, 77777, 2005])), PopulationPlan(), 0)
    assert prepared.background is not None
    assert numbers(prepared.background) == [77777]
    assert [(f.kind, f.count) for f in prepared.findings] == [("split", 2), ("background", 2)]


def test_missing_labels_are_refused_with_the_users_name() -> None:
    bare = user("bare", range(10), y=None)
    with pytest.raises(DataError, match="'bare' has examples without labels, but the task is to classify"):
        prepare(Given(users=(*crowd(2), bare)), PopulationPlan(), 0)
    others = tuple(user(f"u{i}", range(20 * i, 20 * i + 10), y=None) for i in range(3))
    assert prepare(Given(users=others, task=Task.NEXT_TOKEN), PopulationPlan(), 0).shares[0].prior.y is None


def test_a_chronological_prior_without_times_is_refused() -> None:
    with pytest.raises(DataError, match="'chrono' needs the time"):
        prepare(Given(users=crowd(2)), PopulationPlan(prior="chrono"), 0)


def test_a_chronological_prior_is_older_than_what_is_private() -> None:
    users = tuple(user(f"u{i}", range(50 * i, 50 * i + 20), time=np.arange(20.0)[::-1].copy()) for i in range(3))
    for share in prepare(Given(users=users, test=None), PopulationPlan(prior="chrono"), 0).shares:
        assert share.prior.time is not None
        assert share.private.time is not None
        assert share.prior.time.max() < share.private.time.min()


def test_html_in_a_user_name_survives_as_it_is() -> None:
    name = "<script>alert('x')</script> & \u202e\u00e9"
    prepared = prepare(Given(users=(user(name, range(10)), *crowd(2))), PopulationPlan(), 0)
    assert name in {share.user.id for share in prepared.shares}


def test_digits_are_split_independently_into_full_sides() -> None:
    prepared = prepare(Digits(), PopulationPlan(), 0)
    assert len(prepared.shares) == 40
    assert prepared.input_shape == (1, 8, 8)
    assert {(len(s.prior), len(s.private)) for s in prepared.shares} == {(40, 40)}
    assert [(f.kind, f.action) for f in prepared.findings] == [("split", "independent")]


@pytest.mark.parametrize("prior", ["random", "chrono", "album"])
def test_fewer_prior_examples_are_part_of_more_and_leave_private_data_alone(prior: PriorName) -> None:
    users = tuple(
        user(f"u{i}", range(50 * i, 50 * i + 20), time=np.arange(20.0), album=np.arange(20) // 3) for i in range(3)
    )

    def sides(most: Any) -> list[tuple[list[int], list[int]]]:
        plan = PopulationPlan(prior=prior, prior_examples=most)
        return [(numbers(s.prior), numbers(s.private)) for s in prepare(Given(users=users), plan, 1).shares]

    one, four, everyone, many = sides(1), sides(4), sides("equal"), sides(1000)
    assert [len(known) for known, _ in one] == [1, 1, 1]
    assert [len(known) for known, _ in four] == [4, 4, 4]
    assert many == everyone
    for few, some, whole in zip(one, four, everyone, strict=True):
        assert set(few[0]) < set(some[0]) < set(whole[0])
        assert few[1] == some[1] == whole[1]


def test_an_album_prior_needs_the_album_of_everyone() -> None:
    with_albums = tuple(user(f"a{i}", range(90 * i, 90 * i + 10), album=np.arange(10) // 2) for i in range(2))
    with pytest.raises(DataError, match="'album' needs the album of every example"):
        prepare(Given(users=crowd(2)), PopulationPlan(prior="album"), 0)
    with pytest.raises(
        DataError, match=r"2 of 4 users have examples without album .*first: 'u0'.*for all users or for none"
    ):
        prepare(Given(users=(*with_albums, *crowd(2))), PopulationPlan(prior="album"), 0)
    holes = user("h", range(900, 910), album=np.array([0.0, np.nan] * 5))
    with pytest.raises(DataError, match="a whole number for the album of every example, not float64"):
        prepare(Given(users=(*with_albums, holes)), PopulationPlan(prior="album"), 0)

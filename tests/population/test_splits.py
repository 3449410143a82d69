"""Splitting a user's examples: complete, disjoint, true to documents, albums and time, and independent by class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from users import examples, user

from fedleak.core import FloatArray, IntArray, rng_for
from fedleak.errors import DataError, PlanError
from fedleak.plan.plan import PopulationPlan
from fedleak.population import class_counts, splits
from fedleak.population.finding import UNBALANCED
from fedleak.population.population import Examples, User
from fedleak.population.splits import Mask, PriorName, Split, SplitName

SHARES = st.floats(0.05, 0.95)


def known_of(rows: Examples, name: SplitName, share: float, seed: int, *, untimed: bool = False) -> Mask | None:
    """Which examples a split puts into the prior, where nothing is held out."""
    sides = Split(name=name, prior_share=share, test_share=0.0)(rows, rng_for(seed), untimed=untimed)
    if sides is None:
        return None
    assert not sides.test.any()
    assert ((sides.prior + sides.private) == 1).all()
    return sides.prior


@st.composite
def owned(draw: st.DrawFn) -> Examples:
    """Examples with every column, documents and albums of any size, times that tie."""
    n = draw(st.integers(2, 40))
    column = st.lists(st.integers(0, 8), min_size=n, max_size=n)
    columns: dict[str, Any] = {
        "y": np.array(draw(column), dtype=np.int64),
        "time": np.array(draw(column), dtype=np.float64),
        "album": np.array(draw(column), dtype=np.int64),
    }
    if draw(st.booleans()):
        columns["document"] = np.array(draw(column), dtype=np.int64)
    return examples(range(n), **columns)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the first split imports scipy
@given(
    owned(),
    st.sampled_from(["independent", "half", "stratified", "chrono", "album"]),
    SHARES,
    st.integers(0, 5),
)
def test_any_split_leaves_something_on_both_sides_and_divides_no_document(
    rows: Examples, name: SplitName, share: float, seed: int
) -> None:
    known = known_of(rows, name, share, seed)
    if known is None:
        return
    assert len(known) == len(rows)
    assert 0 < known.sum() < len(rows)
    if rows.document is not None:
        assert not set(rows.document[known]) & set(rows.document[~known])
    if name in ("album", "independent"):
        assert rows.album is not None
        assert not set(rows.album[known]) & set(rows.album[~known])
    if name == "chrono":
        assert rows.time is not None
        assert rows.time[known].max() < rows.time[~known].min()


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), SHARES, st.integers(0, 5))
def test_stratified_division_gives_every_class_its_share_to_within_one_example(
    labels: list[int], share: float, seed: int
) -> None:
    y = np.array(labels, dtype=np.int64)
    known = known_of(examples(range(len(y)), y=y), "stratified", share, seed)
    assert known is not None
    for label in set(labels):
        assert abs((y[known] == label).sum() - share * (y == label).sum()) <= 1
    assert abs(known.sum() - share * len(y)) <= 1


def test_stratified_halves_of_even_classes_have_the_same_histogram() -> None:
    y = np.repeat(np.arange(5), [2, 4, 6, 8, 10])
    known = known_of(examples(range(30), y=y), "stratified", 0.5, 3)
    assert known is not None
    assert np.bincount(y[known]).tolist() == np.bincount(y[~known]).tolist() == [1, 2, 3, 4, 5]


def test_without_stratification_the_halves_of_some_user_differ() -> None:
    y = np.repeat(np.arange(2), 10)
    masks = [known_of(examples(range(20), y=y), "half", 0.5, s) for s in range(20)]
    assert any(mask is not None and np.bincount(y[mask]).tolist() != [5, 5] for mask in masks)


def test_ratings_are_numbers_and_are_not_stratified_as_classes() -> None:
    y = np.linspace(1, 5, 10, dtype=np.float32)
    known = known_of(examples(range(10), y=y), "stratified", 0.3, 0)
    assert known is not None
    assert known.sum() == 3


def test_documents_are_drawn_until_the_share_is_met_as_nearly_as_they_allow() -> None:
    document = np.repeat(np.arange(20), 5)
    known = known_of(examples(range(100), document=document), "independent", 0.5, 1)
    assert known is not None
    assert known.sum() == 50


def test_a_user_with_one_document_cannot_be_divided() -> None:
    rows = examples(range(6), document=np.zeros(6, dtype=np.int64), y=np.arange(6))
    assert known_of(rows, "independent", 0.5, 0) is None


def test_a_user_with_one_example_or_none_cannot_be_divided() -> None:
    for count in (0, 1):
        assert known_of(examples(range(count)), "independent", 0.5, 0) is None


def test_a_document_that_spans_two_albums_joins_them() -> None:
    rows = examples(range(6), album=np.array([0, 0, 1, 1, 2, 2]), document=np.array([0, 1, 1, 2, 3, 3]))
    assert splits.groups(rows, albums=True).tolist() == [0, 0, 0, 0, 1, 1]


def test_chronological_cut_falls_between_days_not_within_one() -> None:
    rows = examples(range(6), time=np.array([3.0, 1.0, 2.0, 2.0, 2.0, 9.0]))
    known = known_of(rows, "chrono", 0.5, 0)
    assert known is not None
    # Half of six is three, but day 2 has three examples of its own: one or four can be older, and four is nearer.
    assert np.flatnonzero(known).tolist() == [1, 2, 3, 4]


def test_untimed_users_who_are_kept_are_divided_in_the_order_of_the_data() -> None:
    rows = examples(range(6), time=np.full(6, np.nan), document=np.array([7, 7, 3, 3, 5, 5]))
    known = known_of(rows, "chrono", 0.4, 0, untimed=True)
    assert known is not None
    assert np.flatnonzero(known).tolist() == [0, 1]


@pytest.mark.parametrize(("prior", "column"), [("chrono", "time"), ("album", "album")])
def test_a_prior_without_its_column_is_refused_by_name(prior: PriorName, column: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)'{prior}' needs the {column}.*prior = 'random'"):
        splits.require(examples([1, 2]), prior, "a source")


@given(owned(), SHARES, st.sampled_from(["independent", "half", "chrono", "album"]), st.integers(0, 5))
def test_what_is_held_out_for_utility_divides_no_document_and_no_example_is_on_two_sides(
    rows: Examples, share: float, name: SplitName, seed: int
) -> None:
    sides = Split(name=name, prior_share=0.5, test_share=share)(rows, rng_for(seed))
    if sides is None:
        return
    assert ((sides.test.astype(int) + sides.prior + sides.private) == 1).all()
    group = splits.groups(rows, albums=name in ("independent", "album"))
    assert not set(group[sides.test]) & set(group[~sides.test])


def test_about_the_asked_share_is_held_out() -> None:
    rows = examples(range(100), document=np.repeat(np.arange(50), 2))
    sides = Split(name="independent", prior_share=0.5, test_share=0.2)(rows, rng_for(0))
    assert sides is not None
    assert (sides.test.sum(), sides.prior.sum(), sides.private.sum()) == (20, 40, 40)


def test_examples_of_one_day_stay_together_where_nothing_else_says_what_belongs_together() -> None:
    time = np.array([0.0, 0.9, 1.0, np.nan, 1.5, np.nan])
    assert splits.units(examples(range(6), time=time)).tolist() == [0, 0, 1, 2, 1, 3]


def table(counts: list[list[int]]) -> list[User]:
    """Users with so many examples of each class."""
    found = []
    for i, row in enumerate(counts):
        y = np.repeat(np.arange(len(row)), row)
        found.append(user(f"u{i}", range(1000 * i, 1000 * i + len(y)), y=y))
    return found


def chance_counts(users: int, size: int, seed: int) -> list[User]:
    return table(rng_for(seed, "counts").multinomial(size, [0.1] * 10, users).tolist())


def test_counts_by_design_are_told_from_counts_by_chance() -> None:
    designed = table(np.random.default_rng(0).integers(9, 12, (40, 10)).tolist())
    assert class_counts.alike_by_design(designed)
    assert not any(class_counts.alike_by_design(chance_counts(40, 100, seed)) for seed in range(50))
    biased = table((np.eye(10, dtype=int)[np.arange(40) % 10] * 50 + 5).tolist())
    assert not class_counts.alike_by_design(biased)


def test_the_default_is_the_most_neutral_for_the_data_at_hand() -> None:
    plan = PopulationPlan()
    assert splits.choose(chance_counts(40, 100, 0), plan, test_share=0.0).name == "independent"
    assert splits.choose(table([[8] * 10] * 20), plan, test_share=0.0).name == "balanced"
    posts = [user(f"u{i}", range(10 * i, 10 * i + 4), document=np.arange(4) // 2) for i in range(4)]
    chosen = splits.choose(posts, plan, test_share=0.0)
    assert (chosen.name, chosen.unit) == ("independent", "document")
    assert "by document" in chosen.told


def test_balanced_sides_have_the_same_counts_for_everyone() -> None:
    users = table(np.random.default_rng(1).integers(9, 13, (30, 10)).tolist())
    split = splits.choose(users, PopulationPlan(prior_share=0.4), test_share=0.2)
    assert split.name == "balanced"
    seen, left_out = set(), 0
    for one in users:
        sides = split(one.examples, rng_for(0, one.id))
        if sides is None:
            left_out += 1
            continue
        assert one.examples.y is not None
        parts = [np.bincount(one.examples.y[mask], minlength=10) for mask in (sides.test, sides.prior, sides.private)]
        assert all(part.min() > 0 for part in parts)
        seen.add(tuple(tuple(part.tolist()) for part in parts))
        assert (sides.test.astype(int) + sides.prior + sides.private).max() == 1
    assert len(seen) == 1
    assert left_out < 15


def test_a_balanced_split_of_unlike_users_is_refused_and_never_the_default() -> None:
    unlike = table([[20, 0, 0], [0, 20, 0], [0, 0, 20]])
    assert splits.choose(unlike, PopulationPlan(), test_share=0.0).name == "independent"
    with pytest.raises(DataError, match="split = 'balanced' needs data with one class label"):
        splits.choose(unlike, PopulationPlan(split="balanced"), test_share=0.0)


def test_one_example_of_each_class_is_not_balanced_by_putting_classes_on_one_side() -> None:
    once = table([[1] * 40] * 20)
    split = splits.choose(once, PopulationPlan(), test_share=0.2)
    assert split.name == "independent" and UNBALANCED in split.told
    drawn = [split(one.examples, rng_for(0, one.id)) for one in once]
    private = {tuple(one.private.tolist()) for one in drawn if one is not None}
    assert len(private) > 10, "other classes for other users"
    assert splits.choose(table([[2] * 20] * 20), PopulationPlan(), test_share=0.0).name == "balanced"


def test_a_split_goes_with_a_random_prior_only() -> None:
    with pytest.raises(PlanError, match="split = 'half' applies only to a random prior, but prior = 'chrono'"):
        splits.choose(table([[4]]), PopulationPlan(prior="chrono", split="half"), test_share=0.0)


def agreement(users: list[User], split: Split, seed: int) -> float:
    """Mean correlation of the class counts on a user's two sides, centred by those of everyone."""
    sides = [(one, split(one.examples, rng_for(seed, one.id))) for one in users]

    def counts(one: User, mask: Mask) -> IntArray:
        assert one.examples.y is not None
        return np.bincount(one.examples.y[mask], minlength=10)

    tables = [[counts(one, getattr(s, side)) for one, s in sides if s] for side in ("prior", "private")]
    prior, private = (np.array(part) - np.mean(part, axis=0) for part in tables)
    scale = np.sqrt((prior**2).sum() * (private**2).sum())
    return float((prior * private).sum() / scale) if scale else 0.0


def test_sides_are_independent_where_nothing_is_personal_except_if_stratified_or_halved_against_the_design() -> None:
    # 300 users x 10 classes: the standard error of the correlation is about .02.
    users = chance_counts(300, 80, 3)
    chosen = splits.choose(users, PopulationPlan(), test_share=0.2)
    assert abs(agreement(users, chosen, 0)) < 0.08
    assert abs(agreement(users, Split(name="half", prior_share=0.5, test_share=0.0), 0)) < 0.08
    assert agreement(users, Split(name="stratified", prior_share=0.5, test_share=0.0), 0) > 0.8
    designed = table([[8] * 10] * 300)
    assert agreement(designed, splits.choose(designed, PopulationPlan(), test_share=0.0), 0) == 0
    assert agreement(designed, Split(name="half", prior_share=0.5, test_share=0.0), 0) < -0.8


@given(
    arrays(np.float32, st.tuples(st.integers(2, 40), st.integers(1, 6)), elements=st.sampled_from([0, 1])),
    st.sampled_from([0.25, 0.5, 0.75]),
    st.integers(0, 5),
)
def test_several_labels_an_example_are_divided_onto_two_sides(y: FloatArray, share: float, seed: int) -> None:
    known = known_of(examples(range(len(y)), y=y), "stratified", share, seed)
    assert known is not None
    assert 0 < known.sum() < len(y)


def test_labels_of_several_an_example_are_shared_more_evenly_than_by_chance() -> None:
    def unevenness(stratify: bool) -> float:
        found = []
        for seed in range(30):
            y = (rng_for(seed, "labels").random((40, 10)) < 0.3).astype(np.float32)
            known = known_of(examples(range(40), y=y), "stratified" if stratify else "half", 0.5, seed)
            assert known is not None
            assert abs(int(known.sum()) - 20) <= 3
            found.append(np.abs(y[known].sum(axis=0) - y[~known].sum(axis=0)).mean())
        return float(np.mean(found))

    assert unevenness(True) < 0.7 * unevenness(False)

"""Dividing a user's examples: complete, disjoint, and true to documents, albums, classes and time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from people import examples

from fedleak.core import FloatArray, derive
from fedleak.errors import DataError
from fedleak.population import priors
from fedleak.population.population import Examples
from fedleak.population.priors import PriorName

SHARES = st.floats(0.05, 0.95)


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


@given(owned(), st.sampled_from(["random", "chrono", "album"]), SHARES, st.booleans(), st.integers(0, 5))
def test_any_prior_leaves_something_on_both_sides_and_divides_no_document(
    rows: Examples, prior: PriorName, share: float, stratify: bool, seed: int
) -> None:
    known = priors.divide(rows, prior, share, derive(seed), stratify=stratify)
    if known is None:
        return
    assert len(known) == len(rows)
    assert 0 < known.sum() < len(rows)
    if rows.document is not None:
        assert not set(rows.document[known]) & set(rows.document[~known])
    if prior == "album":
        assert rows.album is not None
        assert not set(rows.album[known]) & set(rows.album[~known])
    if prior == "chrono":
        assert rows.time is not None
        assert rows.time[known].max() < rows.time[~known].min()


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), SHARES, st.integers(0, 5))
def test_stratified_division_gives_every_class_its_share_to_within_one_example(
    labels: list[int], share: float, seed: int
) -> None:
    y = np.array(labels, dtype=np.int64)
    known = priors.divide(examples(range(len(y)), y=y), "random", share, derive(seed))
    assert known is not None
    for label in set(labels):
        assert abs((y[known] == label).sum() - share * (y == label).sum()) <= 1
    assert abs(known.sum() - share * len(y)) <= 1


def test_stratified_halves_of_even_classes_have_the_same_histogram() -> None:
    y = np.repeat(np.arange(5), [2, 4, 6, 8, 10])
    known = priors.divide(examples(range(30), y=y), "random", 0.5, derive(3))
    assert known is not None
    assert np.bincount(y[known]).tolist() == np.bincount(y[~known]).tolist() == [1, 2, 3, 4, 5]


def test_without_stratification_the_halves_of_some_user_differ() -> None:
    y = np.repeat(np.arange(2), 10)
    masks = [priors.divide(examples(range(20), y=y), "random", 0.5, derive(s), stratify=False) for s in range(20)]
    assert any(mask is not None and np.bincount(y[mask]).tolist() != [5, 5] for mask in masks)


def test_ratings_are_numbers_and_are_not_stratified_as_classes() -> None:
    y = np.linspace(1, 5, 10, dtype=np.float32)
    known = priors.divide(examples(range(10), y=y), "random", 0.3, derive(0))
    assert known is not None
    assert known.sum() == 3


def test_documents_are_drawn_until_the_share_is_met_as_nearly_as_they_allow() -> None:
    document = np.repeat(np.arange(20), 5)
    known = priors.divide(examples(range(100), document=document), "random", 0.5, derive(1))
    assert known is not None
    assert known.sum() == 50


def test_a_user_with_one_document_cannot_be_divided() -> None:
    rows = examples(range(6), document=np.zeros(6, dtype=np.int64), y=np.arange(6))
    assert priors.divide(rows, "random", 0.5, derive(0)) is None


def test_a_user_with_one_example_or_none_cannot_be_divided() -> None:
    for count in (0, 1):
        assert priors.divide(examples(range(count)), "random", 0.5, derive(0)) is None


def test_a_document_that_spans_two_albums_joins_them() -> None:
    rows = examples(range(6), album=np.array([0, 0, 1, 1, 2, 2]), document=np.array([0, 1, 1, 2, 3, 3]))
    assert priors.groups(rows, albums=True).tolist() == [0, 0, 0, 0, 1, 1]


def test_chronological_cut_falls_between_days_not_within_one() -> None:
    rows = examples(range(6), time=np.array([3.0, 1.0, 2.0, 2.0, 2.0, 9.0]))
    known = priors.divide(rows, "chrono", 0.5, derive(0))
    assert known is not None
    # Half of six is three, but day 2 has three examples of its own: one or four can be older, and four is nearer.
    assert np.flatnonzero(known).tolist() == [1, 2, 3, 4]


def test_untimed_users_who_are_kept_are_divided_in_the_order_of_the_data() -> None:
    rows = examples(range(6), time=np.full(6, np.nan), document=np.array([7, 7, 3, 3, 5, 5]))
    known = priors.divide(rows, "chrono", 0.4, derive(0), untimed=True)
    assert known is not None
    assert np.flatnonzero(known).tolist() == [0, 1]


@pytest.mark.parametrize(("prior", "column"), [("chrono", "time"), ("album", "album")])
def test_a_prior_without_its_column_is_refused_by_name(prior: PriorName, column: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)'{prior}' needs the {column}.*prior = 'random'"):
        priors.require(examples([1, 2]), prior, "a source")


@given(owned(), SHARES, st.booleans(), st.sampled_from([np.int64, np.float32]), st.integers(0, 5))
def test_what_is_held_out_for_utility_divides_no_document_and_leaves_two_groups(
    rows: Examples, share: float, albums: bool, labels: type[np.generic], seed: int
) -> None:
    assert rows.y is not None
    held = priors.hold_out(replace(rows, y=rows.y.astype(labels)), share, derive(seed), albums=albums)
    group = priors.groups(rows, albums=albums)
    assert not set(group[held]) & set(group[~held])
    assert len(set(group[~held])) >= min(2, len(set(group)))


def test_about_the_asked_share_is_held_out() -> None:
    rows = examples(range(100), document=np.repeat(np.arange(50), 2))
    held = priors.hold_out(rows, 0.2, derive(0), albums=False)
    assert held.sum() == 20


@given(
    arrays(np.float32, st.tuples(st.integers(2, 40), st.integers(1, 6)), elements=st.sampled_from([0, 1])),
    st.sampled_from([0.25, 0.5, 0.75]),
    st.integers(0, 5),
)
def test_several_labels_an_example_are_divided_onto_two_sides(y: FloatArray, share: float, seed: int) -> None:
    known = priors.divide(examples(range(len(y)), y=y), "random", share, derive(seed))
    assert known is not None
    assert 0 < known.sum() < len(y)


def test_labels_of_several_an_example_are_shared_more_evenly_than_by_chance() -> None:
    def unevenness(stratify: bool) -> float:
        found = []
        for seed in range(30):
            y = (derive(seed, "labels").random((40, 10)) < 0.3).astype(np.float32)
            known = priors.divide(examples(range(40), y=y), "random", 0.5, derive(seed), stratify=stratify)
            assert known is not None
            assert abs(int(known.sum()) - 20) <= 3
            found.append(np.abs(y[known].sum(axis=0) - y[~known].sum(axis=0)).mean())
        return float(np.mean(found))

    assert unevenness(True) < 0.7 * unevenness(False)

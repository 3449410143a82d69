"""A p-value is small as often as it says where there is nothing, and always where there is something."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedleak.attacks.records.eavesdrop import rank_sum, spearman
from fedleak.attacks.records.significance import against_permuted, contrasts, holm, named_by_accident
from fedleak.core import IntArray

ROUNDS, CLIENTS = 60, 4
Table = npt.NDArray[np.float64]


def selections(rng: np.random.Generator) -> Table:
    """Two of four clients in every round."""
    chosen = np.array([rng.permutation(CLIENTS) < 2 for _ in range(ROUNDS)])
    return chosen.astype(np.float64)


def test_without_a_link_the_p_values_of_presence_are_uniform() -> None:
    """For the best of all clients, which is what looks significant if that is not accounted for."""
    rng = np.random.default_rng(0)
    trend = np.linspace(3, 0, ROUNDS)[:, None]  # much is learnt early on
    p = np.concatenate(
        [
            against_permuted(selections(rng), trend + rng.normal(size=(ROUNDS, 5)), rng, permutations=99)
            for _ in range(80)
        ]
    )
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).mean() == pytest.approx(level, abs=0.06)


def test_what_all_records_share_does_not_make_a_watermark_significant() -> None:
    rng = np.random.default_rng(1)
    p, naive = [], []
    for _ in range(60):
        # Everything is learnt fast at first, and some rounds are good for all records alike.
        common = np.linspace(3, 0, ROUNDS)[:, None] + rng.normal(size=(ROUNDS, 1))
        marks, changes = (common + 0.5 * rng.normal(size=(ROUNDS, n)) for n in (CLIENTS, 5))
        p.append(against_permuted(contrasts(marks), changes, rng, permutations=99, block=10))
        naive.append(against_permuted(marks, changes, rng, permutations=99))
    assert (np.concatenate(p) <= 0.05).mean() <= 0.1
    assert (np.concatenate(naive) <= 0.05).mean() > 0.9


def test_a_link_is_found_by_presence_and_by_watermark() -> None:
    rng = np.random.default_rng(2)
    there = selections(rng)
    changes, marks = (there + 0.3 * rng.normal(size=there.shape) for _ in range(2))
    for p in (
        against_permuted(there, changes, rng, permutations=199),
        against_permuted(contrasts(marks), changes, rng, permutations=199, block=10),
    ):
        assert (p == 1 / 200).all()


def first(signals: Table, changes: Table, exposure: Table) -> IntArray:
    return np.array([rank_sum(row, exposure)[0] for row in spearman(signals, changes)])


def test_a_record_that_is_named_first_because_it_correlates_is_not_significant_for_that() -> None:
    rng = np.random.default_rng(5)
    p, naive = [], []
    for _ in range(60):
        there, changes, exposure = selections(rng), rng.normal(size=(ROUNDS, 40)), rng.normal(size=40)
        chosen = first(there, changes, exposure)
        p.append(named_by_accident(there, changes, exposure, chosen, rng, permutations=99))
        naive.append(against_permuted(there[:, :1], changes[:, chosen[:1]], rng, permutations=99))
    for level in (0.05, 0.2, 0.5):
        assert (np.concatenate(p) <= level).mean() == pytest.approx(level, abs=0.07)
    assert (np.concatenate(naive) <= 0.05).mean() > 0.2


def test_a_record_that_is_named_first_because_it_is_learnt_is_significant() -> None:
    rng = np.random.default_rng(6)
    there, changes, exposure = selections(rng), rng.normal(size=(ROUNDS, 40)), rng.normal(size=40)
    changes[:, :CLIENTS] += 3 * there
    exposure[:CLIENTS] = 3
    chosen = first(there, changes, exposure)
    assert chosen.tolist() == [0, 1, 2, 3]
    assert (named_by_accident(there, changes, exposure, chosen, rng, permutations=99) == 0.01).all()


def test_what_never_varies_is_no_evidence() -> None:
    rng = np.random.default_rng(3)
    assert (against_permuted(selections(rng), np.zeros((ROUNDS, 2)), rng, permutations=99) == 1).all()
    assert (against_permuted(np.ones((ROUNDS, 2)), rng.normal(size=(ROUNDS, 2)), rng, permutations=99) == 1).all()


def test_presences_lose_nothing_by_being_contrasted() -> None:
    there = selections(np.random.default_rng(4))
    np.testing.assert_allclose(contrasts(there), there - 0.5)


@given(arrays(np.float64, st.integers(1, 12), elements=st.floats(0.001, 1)))
def test_corrected_p_values_keep_their_order_and_lie_between_the_raw_and_bonferronis(p: Table) -> None:
    found = holm(p)
    assert (found >= p).all() and (found <= np.minimum(1, len(p) * p) + 1e-12).all()
    assert (np.diff(found[np.argsort(p, kind="stable")]) >= 0).all()
    assert found.min() == pytest.approx(min(1, len(p) * p.min()))

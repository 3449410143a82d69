import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from fedleak.metrics.ranking import Ranking


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 40), st.sampled_from([2, 5, 1000]))
def test_weighted_metrics_are_scikit_learns_with_ties_and_with_users_drawn_twice_or_never(
    seed: int, questions: int, levels: int
) -> None:
    rng = np.random.default_rng(seed)
    claims = rng.integers(levels, size=questions).astype(np.float32)
    right = rng.permutation(np.arange(questions) % 2)
    weights = rng.integers(0, 4, size=(5, questions)).astype(np.float64)
    weights[:, [int(right.argmax()), int(right.argmin())]] += 1  # both answers occur
    ranking = Ranking.of(claims)
    precision, area = ranking.average_precision(weights * right, weights), ranking.auc(weights * right, weights)
    for row, ap, auc in zip(weights, precision, area, strict=True):
        assert ap == pytest.approx(average_precision_score(right, claims, sample_weight=row))
        assert auc == pytest.approx(roc_auc_score(right, claims, sample_weight=row))


def test_a_resample_without_one_of_the_answers_has_no_value() -> None:
    ranking = Ranking.of(np.array([3, 2, 1], dtype=np.float32))
    every = np.ones((1, 3))
    assert np.isnan(ranking.average_precision(0 * every, every)).all()
    assert np.isnan(ranking.auc(every, every)).all()

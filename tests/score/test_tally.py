import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from fedleak.errors import AttackError
from fedleak.metrics.permutation import average_precision, derangement, derangements, top


def random_claims(seed: int, questions: int, options: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    claims = rng.integers(levels, size=(questions, options)).astype(np.float32)  # few levels: many ties
    return claims, rng.integers(options, size=questions)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(2, 6), st.sampled_from([2, 5, 1000]))
def test_average_precision_is_scikit_learns_for_every_pairing_of_option_and_user(
    seed: int, questions: int, options: int, levels: int
) -> None:
    claims, right = random_claims(seed, questions, options, levels)
    tally = average_precision(claims, right)
    for user in np.unique(right):
        for option in range(options):
            expected = average_precision_score(right == user, claims[:, option])
            assert tally.table[option, user] == pytest.approx(expected)


def test_average_precision_worked_out_by_hand() -> None:
    claims = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.1, 0.9]], dtype=np.float32)
    right = np.array([0, 1, 0, 1])
    tally = average_precision(claims, right)
    # user 0: updates 0 and 2 rank 1 and 3 -> (1/1 + 2/3) / 2; user 1: updates 3 and 1 rank 1 and 3 -> the same
    assert tally.per_user == pytest.approx([5 / 6, 5 / 6])
    assert tally.value == pytest.approx(5 / 6)


def test_users_who_sent_nothing_do_not_count() -> None:
    claims = np.eye(3, dtype=np.float32)[:2]
    assert average_precision(claims, np.array([0, 1])).weights.tolist() == [1, 1, 0]
    assert average_precision(claims, np.array([0, 1])).value == 1


def test_top_k_counts_claims_not_users() -> None:
    claims = np.array([[3, 2, 1], [3, 2, 1], [3, 2, 1], [1, 2, 3]], dtype=np.float32)
    right = np.array([0, 0, 1, 2])
    assert top(claims, right, 1).value == pytest.approx(3 / 4)
    assert top(claims, right, 2).value == pytest.approx(1)
    assert top(claims, right, 1).per_user == pytest.approx([1, 0, 1])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_answering_everything_alike_scores_exactly_chance(k: int) -> None:
    claims = np.zeros((30, 10), dtype=np.float32)
    right = np.arange(30) % 10
    assert top(claims, right, k).value == pytest.approx(k / 10)


@given(st.integers(0, 2**32), st.integers(2, 30))
def test_a_derangement_leaves_nobody_in_place(seed: int, n: int) -> None:
    order = derangement(n, np.random.default_rng(seed))
    assert sorted(order) == list(range(n))
    assert (order != np.arange(n)).all()


@given(st.integers(0, 2**32), st.integers(2, 30))
def test_many_derangements_at_once_leave_nobody_in_place(seed: int, n: int) -> None:
    orders = derangements(n, 7, np.random.default_rng(seed))
    assert orders.shape == (7, n)
    assert (np.sort(orders, axis=1) == np.arange(n)).all() and (orders != np.arange(n)).all()


def test_the_null_never_contains_a_true_pair() -> None:
    right = np.repeat(np.arange(8), 4)
    perfect = np.eye(8, dtype=np.float32)[right]
    null = top(perfect, right, 1).under(derangements(8, 200, np.random.default_rng(0)))
    assert (null == 0).all()


def test_chance_exceeds_one_over_users_when_updates_of_a_user_rank_together() -> None:
    rng = np.random.default_rng(1)
    users, each = 20, 10
    right = np.repeat(np.arange(users), each)
    # No claim knows anybody, but a user's updates resemble each other and so get similar claims.
    claims = (rng.normal(size=(users, users))[right] + 0.1 * rng.normal(size=(users * each, users))).astype(np.float32)
    tally = average_precision(claims, right)
    null = tally.under(derangements(users, 400, rng))
    assert null.mean() > 1.5 / users
    assert np.quantile(null, 0.005) < tally.value < np.quantile(null, 0.995)


def test_one_sender_alone_has_no_null() -> None:
    with pytest.raises(AttackError, match="fewer than two users"):
        assert average_precision(np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.int64)).present.size


def test_blind_guessing_is_one_in_as_many_as_there_are() -> None:
    right = np.arange(10)
    claims = np.eye(10, dtype=np.float32)
    assert top(claims, right, 1).blind == pytest.approx(0.1)
    assert top(claims, right, 5).blind == pytest.approx(0.5)
    assert average_precision(claims, right).blind == pytest.approx(0.1)

import numpy as np
import pytest
from played_games import attribute, match, open_world
from sklearn.metrics import precision_recall_curve

from fedleak.metrics.detail import answered, identified, yes_no
from fedleak.score.score import AttackResult


def test_users_are_ordered_by_how_identifiable_they_are_and_confusions_are_named() -> None:
    claims = np.zeros((6, 3), dtype=np.float32)
    right = np.array([0, 0, 1, 1, 2, 2])
    claims[[0, 1], 0] = 5  # always found
    claims[[2, 3], [1, 0]] = 5  # found once, once taken for the first
    claims[[4, 5], 1] = 5  # always taken for the second
    found = identified(AttackResult(0, claims, right, ("u0", "u1", "u2")))
    assert found.users[0].user == "u0"
    assert {user.user: user.mistaken_for for user in found.users} == {"u0": None, "u1": "u0", "u2": "u1"}
    place = {user: i for i, user in enumerate(found.confusion_users)}
    assert found.confusion[place["u1"]][place["u0"]] == pytest.approx(0.5)
    assert all(sum(row) == pytest.approx(1) for row in found.confusion)


def test_the_curve_runs_through_points_of_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    right = rng.integers(12, size=200)
    claims = rng.normal(size=(200, 12)).astype(np.float32)
    claims[np.arange(200), right] += 1.5
    found = identified(AttackResult(0, claims, right, tuple("abcdefghijkl")))
    precision, recall, _ = precision_recall_curve(np.eye(12)[right].ravel(), claims.ravel())
    known = {(round(float(r), 9), round(float(p), 9)) for r, p in zip(recall, precision, strict=True)}
    assert all((round(r, 9), round(p, 9)) in known for r, p in zip(found.recall, found.precision, strict=True))
    assert found.recall == sorted(found.recall)
    assert found.recall[-1] == 1
    assert 20 < len(found.recall) <= 60
    assert len(found.confusion_users) == 10


def test_strangers_are_not_among_the_users_of_an_open_world() -> None:
    one = open_world(1, 2.0)
    found = identified(one)
    assert {user.user for user in found.users} == set(one.options[:-1])
    assert not any(user.mistaken_for == "unseen" for user in found.users)
    assert found.values == []
    assert found.claims is None


def test_claims_of_a_yes_or_no_game_are_counted_by_their_right_answer() -> None:
    one = match(1, 2.0)
    found = yes_no(one)
    assert found.claims is not None
    assert (sum(found.claims.yes), sum(found.claims.no)) == (int(one.right.sum()), int((1 - one.right).sum()))
    assert len(found.claims.edges) == len(found.claims.yes) + 1
    middles = np.convolve(found.claims.edges, [0.5, 0.5], "valid")
    assert np.average(middles, weights=found.claims.yes) > np.average(middles, weights=found.claims.no)
    precision, recall, _ = precision_recall_curve(one.right, one.claims[:, 0])
    known = {(round(float(r), 9), round(float(p), 9)) for r, p in zip(recall, precision, strict=True)}
    assert all((round(r, 9), round(p, 9)) in known for r, p in zip(found.recall, found.precision, strict=True))


def test_groups_stand_commonest_first_with_what_their_users_were_taken_for() -> None:
    one = attribute(1, 50.0)
    found = answered(one)
    assert [(value.value, value.users) for value in found.values] == [("a", 15), ("b", 10), ("c", 5)]
    assert [value.right for value in found.values] == [1, 1, 1]
    assert [value.answered for value in found.values] == np.eye(3).tolist()

"""Every metric of every game: right by hand or by scikit-learn, at chance where nothing is known, and covered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from played_games import attribute, match, open_world, profile, users
from sklearn.metrics import average_precision_score, roc_auc_score

from fedleak.errors import AttackError
from fedleak.score.score import AttackResult, Measured, decide
from scored import applies, measure

EVERY = [
    (match, "ap"),
    (match, "auc"),
    (profile, "ap"),
    (profile, "p5"),
    (profile, "p10"),
    (attribute, "top1"),
    (attribute, "ap"),
    (open_world, "ap"),
    (open_world, "top1"),
    (open_world, "unseen"),
]
Make = Callable[[int, float], AttackResult]


def found(one: AttackResult, metric: str, permutations: int = 50) -> Measured:
    return measure([one], metric, level=0.95, permutations=permutations)


@pytest.mark.parametrize(("make", "metric"), EVERY)
def test_an_attack_that_knows_nothing_is_at_chance_on_average_and_seldom_called_a_leak(make: Make, metric: str) -> None:
    runs = [found(make(seed, 0.0), metric) for seed in range(40)]
    gap = np.array([run.value - run.chance for run in runs])
    # Where chance is blind guessing that no random attack reaches (the commonest group), the gap is below zero.
    assert gap.mean() < 3 * gap.std() / np.sqrt(len(gap))
    assert np.mean([bool(decide(run, level=0.95).leaks) for run in runs]) <= 0.15  # 40 runs: 0.05 + 3 errors
    if metric != "top1":
        assert abs(gap.mean()) < max(3 * gap.std() / np.sqrt(len(gap)), 0.03)


@pytest.mark.parametrize(("make", "metric"), EVERY)
def test_an_attack_that_knows_everything_scores_one_and_its_null_does_not(make: Make, metric: str) -> None:
    run = found(make(1, 1e3), metric)
    assert run.value == pytest.approx(1.0)
    assert run.chance < 0.7
    assert decide(run, level=0.95).leaks
    assert run.low < 1  # unanimous users still leave doubt
    assert run.high == 1


@pytest.mark.parametrize(("make", "metric"), [pair for pair in EVERY if pair[1] not in ("p5", "p10")])
def test_the_interval_covers_what_other_users_would_have_given(make: Make, metric: str) -> None:
    runs = [found(make(seed, 1.3), metric, permutations=20) for seed in range(120)]
    truth = np.mean([run.value for run in runs])
    covered = np.mean([run.low <= truth <= run.high for run in runs])
    # 120 audits: the binomial error is 0.02. Pairs have two users, and drawing both is known to be conservative
    # (Owen and Eckles, 2012).
    assert 0.89 <= covered <= (1.0 if make is match else 0.99)


@pytest.mark.parametrize("metric", ["p5", "p10"])
def test_the_interval_of_the_likeliest_users_covers_too(metric: str) -> None:
    runs = [found(profile(seed, 1.0), metric, permutations=20) for seed in range(200)]
    truth = np.mean([run.value for run in runs])
    assert np.mean([run.low <= truth <= run.high for run in runs]) >= 0.92


def test_resampling_questions_instead_of_users_would_be_too_narrow() -> None:
    def alone(one: AttackResult) -> AttackResult:  # the mistake: every question is about somebody else
        return replace(one, who=np.arange(len(one.right)), users=users(len(one.right)))

    runs = [profile(seed, 1.3) for seed in range(60)]
    truth = np.mean([found(one, "ap", 20).value for one in runs])
    narrow = [found(alone(one), "ap", 20) for one in runs]
    assert np.mean([run.low <= truth <= run.high for run in narrow]) < 0.8


def test_yes_or_no_is_scikit_learns_and_seeds_are_averaged() -> None:
    runs = [match(seed, 1.0) for seed in (1, 2)]
    for metric, theirs in (("ap", average_precision_score), ("auc", roc_auc_score)):
        expected = np.mean([theirs(one.right, one.claims[:, 0]) for one in runs])
        assert measure(runs, metric, level=0.95, permutations=20).value == pytest.approx(expected)


def test_the_open_world_is_about_the_seen_users_and_ranks_strangers_with_them() -> None:
    one = open_world(1, 1.0)
    expected = [average_precision_score(one.right == user, one.claims[:, user]) for user in range(8)]
    assert found(one, "ap").value == pytest.approx(np.mean(expected))
    seen = one.right < 8
    assert found(one, "top1").value == pytest.approx(np.mean(one.claims.argmax(axis=1)[seen] == one.right[seen]))
    assert found(one, "ap").options == 8
    assert found(one, "unseen").value == pytest.approx(average_precision_score(one.right == 8, one.claims[:, 8]))


def test_strangers_make_it_harder_to_find_the_seen() -> None:
    crowd = open_world(1, 1.0)
    alone = replace(crowd, claims=crowd.claims[crowd.right < 8], right=crowd.right[crowd.right < 8])
    assert found(crowd, "ap").value < found(alone, "ap").value


def test_answering_unseen_to_everything_names_nobody() -> None:
    one = open_world(1, 1.0)
    claims = one.claims.copy()
    claims[:, -1] = 1e6
    assert found(replace(one, claims=claims), "top1").value == 0


def test_somebody_called_unseen_does_not_open_the_world() -> None:
    names = ("a", "b", "unseen")
    who = np.repeat(np.arange(3), 4)
    closed = AttackResult(0, np.eye(3, dtype=np.float32)[who], who, names, "identify", who, names)
    assert not applies([closed], "unseen")
    assert found(closed, "top1").value == 1
    assert applies([open_world(1, 1.0)], "unseen")


def test_accuracy_counts_users_and_chance_is_the_commonest_group() -> None:
    who = np.array([0, 0, 0, 0, 1, 2, 3])
    value = np.array([0, 1, 0, 0])
    claims = np.zeros((7, 2), dtype=np.float32)
    claims[:, 0] = 1  # always the first group
    claims[3] = [0, 1]
    one = AttackResult(0, claims, value[who], ("x", "y"), "attribute", who, users(4))
    assert found(one, "top1").value == pytest.approx((0.75 + 0 + 1 + 1) / 4)
    assert found(one, "top1").chance == pytest.approx(0.75)


def test_macro_average_precision_is_scikit_learns() -> None:
    one = attribute(3, 0.7)
    expected = np.mean([average_precision_score(one.right == v, one.claims[:, v]) for v in range(3)])
    assert found(one, "ap").value == pytest.approx(expected)


def test_the_likeliest_are_users_not_updates_and_ties_are_shared() -> None:
    who = np.array([0, 0, 0, 1, 2, 3, 4, 5])
    fits = np.array([0, 1, 1, 0, 0, 0])
    claims = np.array([[9], [0], [0], [8], [7], [5], [5], [1]], dtype=np.float32)  # the first user's mean is 3
    one = AttackResult(0, claims, fits[who], ("fits",), "profile", who, users(6))
    assert found(one, "p5").value == pytest.approx(2 / 5)
    assert found(one, "p5").chance == pytest.approx(2 / 6)
    level = replace(one, claims=np.zeros_like(claims))
    assert found(level, "p5").value == pytest.approx(2 / 6)


def test_users_named_in_every_seed_are_not_more_evidence_than_once() -> None:
    once, other = profile(1, 50.0), profile(2, 50.0, prefix="v")
    alone = found(once, "p5")
    again = measure([once, once], "p5", level=0.95, permutations=50)
    others = measure([once, other], "p5", level=0.95, permutations=50)
    assert again.low == pytest.approx(alone.low)
    assert others.low > alone.low
    assert (again.users, others.users) == (30, 60)


def test_everyone_of_several_seeds_is_one_user_to_resample() -> None:
    runs = [match(seed, 1.0) for seed in (1, 2)]
    strangers = [runs[0], replace(runs[1], users=users(20, "v"))]
    same, apart = (measure(which, "ap", level=0.95, permutations=20) for which in (runs, strangers))
    assert (same.users, apart.users) == (20, 40)
    assert same.value == pytest.approx(apart.value)


def test_questions_with_one_answer_only_are_refused() -> None:
    one = match(1, 1.0)
    with pytest.raises(AttackError, match="the true answer is the same for all 200 questions"):
        found(replace(one, right=np.ones_like(one.right)), "ap")


def test_a_metric_that_a_game_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(AttackError, match="game 'match' has no metric 'top1'"):
        found(match(1, 1.0), "top1")

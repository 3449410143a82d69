"""Metrics of membership: right by scikit-learn, at chance on noise, refused where they cannot be resolved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from fedleak.errors import AttackError
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.membership import (
    EXPOSED,
    HELD_OUT,
    MEMBER,
    OTHERS,
    OUTSIDE,
    OWN,
    MembershipAnswers,
    applies,
    auc,
    roc,
    tpr,
    tpr_applies,
)
from fedleak.metrics.per_user import user_tail
from fedleak.score.decision import decide


def played(seed: int, users: int, each: int = 20, skill: float = 0.0, *, whole: bool = False) -> AttackResult:
    """Records of some users are easier than those of others; half of each user's records, or of the users, are in."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(2 * users), each)
    right = rng.permutation(np.arange(2 * users) % 2)[who] if whole else np.concatenate(
        [rng.permutation(np.arange(each) % 2) if user < users else np.zeros(each, int) for user in range(2 * users)]
    )  # fmt: skip
    easy = 2 * rng.normal(size=2 * users)
    claims = (skill * right + easy[who] + rng.normal(size=len(who))).astype(np.float32)
    kind = np.where(right == 1, MEMBER, HELD_OUT if whole else np.where(who < users, HELD_OUT, OUTSIDE))
    answers = MembershipAnswers(
        right=right,
        who=who,
        users=tuple(f"{seed}/{i}" for i in range(2 * users)),
        kind=kind,
        paired=np.full(len(who), not whole),
    )
    return AttackResult.of(seed, claims[:, None], "membership", ("member",), 1, answers)


def answers_of(one: AttackResult) -> MembershipAnswers:
    assert isinstance(one.answers, MembershipAnswers)
    return one.answers


@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_the_true_positive_rate_is_the_height_of_the_roc_curve(rate: float) -> None:
    one = played(3, 10, 40, skill=1.5)
    own = answers_of(one).kind != OUTSIDE
    false, true, _ = roc_curve(one.right[own], one.claims[own, 0], drop_intermediate=False)
    found = tpr(rate, OWN, [one], level=0.95, permutations=50)
    assert found.value == pytest.approx(true[false <= rate].max())
    assert found.chance == rate
    area = auc(OWN, [one], level=0.95, permutations=50)
    assert area.value == pytest.approx(roc_auc_score(one.right[own], one.claims[own, 0]), abs=1e-6)
    assert area.low < area.value < area.high


def test_equal_scores_find_as_many_members_as_they_accuse_non_members() -> None:
    one = played(0, 5)
    same = AttackResult.of(0, np.zeros_like(one.claims), "membership", ("member",), 1, answers_of(one))
    assert tpr(0.1, OWN, [same], level=0.95, permutations=20).value == pytest.approx(0.1)
    assert auc(OWN, [same], level=0.95, permutations=20).value == pytest.approx(0.5)


def test_style_is_in_the_comparison_with_others_alone() -> None:
    one = played(1, 30)
    who = answers_of(one).who
    styled = AttackResult.of(
        1, one.claims + 20 * (who < 30)[:, None].astype(np.float32), "membership", ("member",), 1, answers_of(one)
    )  # fmt: skip
    assert auc(OTHERS, [styled], level=0.95, permutations=20).value > 0.99
    assert auc(OWN, [styled], level=0.95, permutations=20).value == pytest.approx(
        auc(OWN, [one], level=0.95, permutations=20).value, abs=0.05
    )


def test_a_rate_that_the_non_members_cannot_resolve_is_refused_with_the_resolution() -> None:
    few = [played(0, 5, 20)]  # fifty non-members
    assert tpr_applies(0.1, OWN, few) is True
    refused = tpr_applies(0.01, OWN, few)
    assert isinstance(refused, str)
    assert "50 non-members in a run resolve false-positive rates down to 2%, not 1%: it takes 100" in refused
    assert min(roc(few, OWN)[0]) >= 0.02


def test_one_class_only_is_refused() -> None:
    one = played(0, 5)
    kind = np.where(answers_of(one).kind == HELD_OUT, OUTSIDE, answers_of(one).kind)
    only = AttackResult.of(
        0, one.claims, "membership", ("member",), 1, replace(answers_of(one), kind=kind)
    )  # fmt: skip
    assert isinstance(applies(OWN, [only]), str)
    with pytest.raises(AttackError, match="all or none are members"):
        auc(OWN, [only], level=0.95, permutations=20)


@pytest.mark.parametrize(("users", "whole"), [(2, False), (40, False), (20, True)])
def test_noise_is_seldom_called_a_leak(users: int, whole: bool) -> None:
    """In at most 5% of audits, though records of one user go together; 60 audits may show 7."""
    called = 0
    for seed in range(60):
        found = auc(OWN, [played(seed, users, 8, whole=whole)], level=0.95, permutations=60)
        called += decide(found, level=0.95).leaks is True
    assert called <= 7


def test_the_worst_off_user_is_found_and_noise_has_none() -> None:
    quiet = user_tail([played(0, 12, 40)], EXPOSED, level=0.95, permutations=200)
    loud = user_tail([played(0, 12, 40, skill=3.0)], EXPOSED, level=0.95, permutations=200)
    assert quiet is not None
    assert loud is not None
    assert not quiet.leaks
    assert loud.leaks
    assert loud.worst > 0.9

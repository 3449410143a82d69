"""A game that cannot be scored in one of its parts loses that part, with the reason, and the audit goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import fedleak
from fedleak.games.identify import Identify
from fedleak.games.link import Link
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.identification import UNSEEN
from fedleak.score.score import measure_all, scores_of, unmeasured

PLAN = {
    "title": "few come back",
    "seeds": [2],
    "dataset": {"name": "mnist-clients", "source": "digits", "clients": 8, "examples": 30, "auxiliary": 200},
    "model": {"name": "strided-cnn", "channels": [4, 8], "strides": [2, 1], "activation": "elu"},
    "population": {"prior": "none"},
    "federation": {"rounds": 12, "fraction": 0.3, "batch": 10, "lr": 0.05, "centralised": False},
    "game": [{"name": "link", "starts": 1}],
    "attack": [{"name": "link-cosine", "shadows": 4, "shadow_rounds": 2}],
    "audit": {"adversaries": ["anonymous-server"], "controls": [], "permutations": 40},
}


def test_an_audit_scores_what_it_can_and_says_what_it_could_not(tmp_path: Path) -> None:
    audit = fedleak.audit(PLAN, out=tmp_path / "out").audit
    measured = [score.metric for score in audit.scores]
    assert "gap1" not in measured and {"matched", "auc"} <= set(measured)
    assert [score.metric for score in audit.scores if score.headline] == measured[:1]
    [lost] = [one for one in audit.untested if one.what.startswith("game link, found again in the next round")]
    assert "the undefended run" in lost.what
    assert "took part again 1 round(s) after a compared round, and at least two are needed" in lost.why


def searches(*gaps: tuple[int, bool]) -> AttackResult:
    """Three clients searched for over each gap among three, who are those that were there before or are not."""
    rows = [
        (gap, 3 * at + i, i, j if back else j + 3)
        for at, (gap, back) in enumerate(gaps)
        for i in range(3)
        for j in range(3)
    ]
    table = np.asarray(rows)
    right = (table[:, 2] == table[:, 3]).astype(np.int64)
    claims = right[:, None].astype(np.float32)
    users = tuple(f"user-{i}" for i in range(6))
    return AttackResult(0, claims, right, ("same",), "link", table[:, 2:], users, gallery=table[:, :2])


def test_where_nobody_returns_in_the_next_round_the_next_gap_is_the_headline() -> None:
    played = [searches((1, False), (2, True), (5, True))]
    measured = measure_all(played, Link(), level=0.95, permutations=20)
    assert list(measured) == ["gap2", "gap5", "matched", "auc"]
    found = scores_of(measured, Link(), 0.95, [0], attack="a", adversary="b", game="link")
    assert [name for name, score in found.items() if score.headline] == ["gap2"]
    assert "all updates of the round 2 later" in found["gap2"].in_words
    assert list(unmeasured(played, Link())) == ["found again in the next round"]
    assert not unmeasured([searches((1, True), (2, True))], Link()), "longer gaps are not in the run"


def test_an_open_world_without_an_update_of_an_unseen_user_loses_only_their_detection() -> None:
    rng = np.random.default_rng(0)
    one = AttackResult(
        seed=3,
        claims=rng.random((8, 3)).astype(np.float32),
        right=np.array([0, 1] * 4),
        options=("ann", "bob", UNSEEN),
        game="identify",
        who=np.array([0, 1] * 4),
        users=("ann", "bob", "carl"),
    )
    assert list(measure_all([one], Identify(), level=0.95, permutations=20)) == ["ap", "top1", "top5"]
    [why] = unmeasured([one], Identify()).values()
    assert why == "seed 3: every update in the questions is of a seen user; train more rounds"
    mixed = replace(one, right=np.array([0, 1, 2, 2] * 2), who=np.array([0, 1, 2, 2] * 2))
    assert not unmeasured([mixed], Identify())

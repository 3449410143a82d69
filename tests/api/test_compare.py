"""Two results compared: score by score, the same users on both sides where that can be done."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import fedleak
from command_line import TINY
from fedleak.games.identify import Identify
from fedleak.metrics.attack_result import AttackResult, pooled
from fedleak.results.audit import Score
from fedleak.score.compare import _statistic, difference
from fedleak.score.score import metric_of
from scored import measure, metric_named

TOP1 = metric_of(Identify, "top1")


def plan(**dataset: Any) -> dict[str, Any]:
    table = tomllib.loads(TINY)
    return {**table, "dataset": {**table["dataset"], **dataset}, "audit": {"controls": []}}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> fedleak.Result:
    return fedleak.audit(plan(class_bias=0.05), tmp_path_factory.mktemp("compare") / "out", jobs=1)


def test_a_result_does_not_differ_from_itself(done: fedleak.Result) -> None:
    for row in done.compare(fedleak.load(done.folder)):
        assert (row.difference, row.low, row.high) == (0, 0, 0)
        assert row.paired and not row.excludes_zero


def test_a_planted_difference_is_found_with_the_same_users_on_both_sides(done: fedleak.Result, tmp_path: Path) -> None:
    alike = fedleak.audit(plan(class_bias=50.0, style=0.0), tmp_path / "out", jobs=1)
    rows = done.compare(alike)
    assert [row.metric for row in rows] == ["ap", "top1", "top5"]
    found = rows[0]
    assert found.paired and found.excludes_zero and found.low > 0
    assert found.difference == pytest.approx(found.here - found.there)
    back = alike.compare(done)[0]
    assert back.difference == -found.difference and back.high < 0
    frame = pandas.DataFrame(rows)
    assert {"attack", "metric", "here", "there", "difference", "low", "high", "paired"} <= set(frame.columns)
    # Without the runs, the interval follows from those of the two scores, and says so.
    shutil.rmtree(alike.folder / "runs")
    unpaired = done.compare(alike)[0]
    assert not unpaired.paired and unpaired.difference == found.difference
    assert unpaired.low <= found.low


def test_results_without_a_common_score_are_not_compared(done: fedleak.Result) -> None:
    other = replace(done, audit=fedleak.load(done.folder).audit, folder=Path("elsewhere"))
    scores = [fedleak.Score(**{**_fields(score), "attack": "another"}) for score in done.scores]
    other.audit.scores[:] = scores
    with pytest.raises(fedleak.FedleakError, match="no score in common"):
        done.compare(other)


def _fields(score: Score) -> dict[str, Any]:
    return {name: getattr(score, name) for name in score.__struct_fields__}


@pytest.mark.parametrize("seed", range(3))
def test_pairing_users_narrows_the_interval(seed: int) -> None:
    """Users differ a lot, the second attack is a little better for each of them: only pairing can show it."""
    rng = np.random.default_rng(seed)
    users, each = 20, 30
    right = np.repeat(np.arange(users), each)
    easy = rng.uniform(0.1, 0.8, users)[right]
    luck = rng.random(len(right))

    def attack(gain: float) -> AttackResult:
        hit = luck < easy + gain
        claims = np.zeros((len(right), users), dtype=np.float32)
        claims[np.arange(len(right)), np.where(hit, right, (right + 1) % users)] = 1
        names = tuple(f"user-{n}" for n in range(users))
        return AttackResult(seed=0, claims=claims, right=right, options=names, who=right, users=names)

    mine, theirs = [attack(0.1)], [attack(0.0)]
    here, there = _score(mine), _score(theirs)
    paired, unpaired = difference(here, there, TOP1, mine, theirs), difference(here, there)
    assert paired.paired and paired.excludes_zero
    assert not unpaired.paired and not unpaired.excludes_zero
    assert paired.low <= paired.difference <= paired.high


def test_equal_scores_of_different_runs_leave_doubt() -> None:
    """Everybody is found in both: that is no proof that there is no difference."""
    right = np.repeat(np.arange(5), 3)
    names = tuple("abcde")
    perfect = [AttackResult(0, np.eye(5, dtype=np.float32)[right], right, names, "identify", right, names)]
    score = _score(perfect)
    found = difference(score, score, TOP1, perfect, perfect)
    assert found.low < found.difference == 0 < found.high and not found.paired
    assert difference(score, score, TOP1, perfect, perfect, same_runs=True).high == 0


@pytest.mark.parametrize(("game", "metric"), [("profile", "ap"), ("match", "auc"), ("attribute", "top1")])
def test_a_metric_as_a_function_of_the_users_drawn_is_the_metric(game: str, metric: str) -> None:
    """So what is resampled for a difference is the number that was scored."""
    rng, users, options = np.random.default_rng(1), 12, 3 if game == "attribute" else 1
    who = np.repeat(np.arange(users), 5)
    right = (who % 3 if game == "attribute" else who % 2).astype(np.int64)
    claims = rng.normal(size=(len(who), options)).astype(np.float32)
    names = tuple(f"user-{n}" for n in range(users))
    played = [AttackResult(0, claims, right, tuple("abc"[:options]), game, who, names)]
    count, numbers = pooled(played)
    statistic = _statistic(played, numbers, count, metric_named(played, metric))
    assert statistic is not None
    value = measure(played, metric, level=0.95, permutations=20).value
    assert statistic(np.ones((1, users)))[0] == pytest.approx(value)


def _score(played: list[AttackResult]) -> Score:
    found = measure(played, "top1", level=0.95, permutations=20)
    return Score(
        attack="a",
        adversary="server",
        game="identify",
        metric="top1",
        value=found.value,
        low=found.low,
        high=found.high,
        level=0.95,
        chance=found.chance,
        chance_high=found.chance_high,
        multiple=None,
        n=found.n,
        users=found.users,
        options=found.options,
        seeds=[0],
    )

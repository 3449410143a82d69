"""The contract of data sets and splits: where there is nothing to find, attacks find nothing, over many seeds.

    from fedleak.plan.read import load_plan
    from fedleak.testing import check_null

    def test_my_data_set_manufactures_no_leak(tmp_path):
        check_null(load_plan(Path("my-plan.toml")), tmp_path)

A plan is trained as its control, once for every seed: data is redistributed, sampled, split and trained as in the run.
Every attack must be at chance on average, neither above nor below, and must not report a leak more often than its
confidence level allows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from fedleak.pipeline.attack_runner import play
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.training import train_run
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.score.labels import label
from fedleak.score.score import Measured, decide, measure
from fedleak.testing.contract import ContractBroken

__all__ = ["NullResult", "check_null", "play_null"]

_Z = 4.0  # of the mean over seeds: a sound set-up exceeds it once in 10,000 times
_RARE = 1e-3  # how unlikely the number of false leaks must be before the contract is broken


@dataclass(frozen=True, slots=True)
class NullResult:
    """One attack on the control of a plan, over all seeds."""

    attack: str
    adversary: str
    game: str
    control: str
    values: tuple[float, ...]
    chances: tuple[float, ...]
    permuted: tuple[float, ...]  # the score with permuted identities: below chance where a blind guess scores more
    leaks: int  # the number of seeds in which this attack alone would be called a leak

    @property
    def value(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values))

    @property
    def chance(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.chances))

    @property
    def z(self) -> float:
        """By how many standard errors the mean is above chance, or below permuted identities; otherwise 0."""
        above, below = (np.subtract(self.values, level) for level in (self.chances, self.permuted))
        apart = above if above.mean() > 0 else below
        error = float(apart.std(ddof=1)) / np.sqrt(len(apart))
        return float(apart.mean()) / error if error and (above.mean() > 0 or below.mean() < 0) else 0.0

    def broken(self, level: float) -> str | None:
        """What is wrong, if anything; `level` is the confidence level of the intervals."""
        told = f"{self.attack} ({self.game}, {self.control} control): {self.value:.3f} at chance {self.chance:.3f}"
        if abs(self.z) > _Z:
            return f"{told}, {self.z:+.1f} standard errors over {len(self.values)} seeds"
        if stats.binom.sf(self.leaks - 1, len(self.values), 1 - level) < _RARE:
            return f"{told}, called a leak in {self.leaks} of {len(self.values)} seeds"
        return None


def check_null(plan: Plan, folder: Path, seeds: Sequence[int] = range(20)) -> list[NullResult]:
    """Test a plan's data set, prior and split against the contract; runs are written below `folder` and deleted."""
    found = play_null(plan, folder, seeds)
    broken = [words for result in found if (words := result.broken(plan.audit.level))]
    if broken:
        raise ContractBroken(f"{plan.source}: a leak was found where there is none: {'; '.join(broken)}")
    return found


def play_null(plan: Plan, folder: Path, seeds: Iterable[int]) -> list[NullResult]:
    """Train the control of a plan for every seed, and run every attack on it."""
    return _play(plan, folder, seeds, list(dict.fromkeys(game.controls[0] for game in plan.games)))


def play_undefended(plan: Plan, folder: Path, seeds: Iterable[int]) -> list[NullResult]:
    """The same for the run itself, for data sets that are known to have no user-specific data."""
    return _play(plan, folder, seeds, [])


def _play(plan: Plan, folder: Path, seeds: Iterable[int], controls: Sequence[str]) -> list[NullResult]:
    change = {**plan.change, "seeds": list(seeds), "defence": []}
    audit = {**plan.change.get("audit", {}), "controls": list(controls)}
    nulls = parse(plan.text, plan.source, {**change, "audit": audit})
    measured: dict[tuple[str, str, str, str], list[Measured]] = {}
    for run in runs(nulls, folder):
        if (run.variant.control is None) == bool(controls):
            continue
        train_run(nulls, run, lambda units: None)
        for key, one in _played(nulls, run):
            measured.setdefault(key, []).append(one)
        shutil.rmtree(run.folder)
    return [
        NullResult(
            *key,
            values=tuple(one.value for one in every),
            chances=tuple(one.chance for one in every),
            permuted=tuple(float(one.null.mean()) for one in every),
            leaks=sum(bool(decide(one, level=plan.audit.level).leaks) for one in every),
        )
        for key, every in measured.items()
    ]


def _played(plan: Plan, run: Run) -> Iterable[tuple[tuple[str, str, str, str], Measured]]:
    for attack, game, adversary in plan.plays:
        if run.variant.control not in (None, game.controls[0]):
            continue
        found = play(run, attack, game, adversary)
        one = measure([found], game.metrics[0], level=plan.audit.level, permutations=plan.audit.permutations)
        yield (label(attack, plan.attacks), adversary.name, label(game, plan.games), run.variant.control or "no"), one

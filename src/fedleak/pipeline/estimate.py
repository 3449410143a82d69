"""How long an audit will take, how much memory and how much disk, from a calibration of seconds.

What an attack takes is measured on two small runs and carried over to the whole by how the attack says that its work
grows with the rounds (`work`). Of one that does not say, nothing is claimed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import msgspec

from fedleak.pipeline.calibrate import AttackSamples, Calibration, Sample
from fedleak.pipeline.jobs import share_cores
from fedleak.pipeline.runs import variants
from fedleak.plan.plan import Plan
from fedleak.score.labels import label

__all__ = ["AttackEstimate", "Estimate", "estimate"]

_REPORT = 3.0  # seconds: starting processes, writing the report
_SPARE = 1 << 30  # bytes that an attack may take beyond its memory for updates


class AttackEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One attack, on all runs and seeds and as all adversaries."""

    attack: str
    runs: int
    seconds: float | None  # of computing; None: not known
    memory: float  # bytes that one of its processes holds
    why: str = ""  # it is not known


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A whole audit."""

    seconds: float  # by the clock, on cores that nobody else uses; without what is not known
    computing: float  # seconds on all cores together
    training: float  # seconds of computing for the federations
    scoring: float
    memory: float  # bytes at most, all processes together
    disk: float  # bytes
    processes: int
    rounds: int  # that the calibration trained
    attacks: list[AttackEstimate]
    unknown: list[str]  # what is not in the estimate


def estimate(plan: Plan, found: Calibration, jobs: int | None = None) -> Estimate:
    """Carry what a calibration found over to the whole audit, and add it up."""
    every, seeds = variants(plan), len(plan.seeds)
    trained = [variant for variant in every if variant.trained]
    rounds = plan.federation.rounds
    federations = [
        found.ready
        + rounds * found.defended.get(variant.label, found.per_round)
        + found.tested
        + (found.central if variant.label == "plain" else 0.0)
        for variant in trained
        for _ in range(seeds)
    ]
    processes, workers = share_cores(len(federations), jobs)
    attacks, plays, scoring = [], list[float](), 0.0
    for samples in found.attacks:
        attack, game, _ = samples.play
        same = [
            (variant, play)
            for variant in every
            for play in variant.plays(plan)
            if play[0] == attack and play[1] == game
        ]
        runs = seeds * sum(variant.played for variant, _ in same)
        seconds, memory, why = _attack_cost(samples, rounds, plan.audit.memory)
        attacks.append(
            AttackEstimate(
                attack=label(attack, plan.attacks),
                runs=runs,
                seconds=None if seconds is None else runs * seconds,
                memory=memory,
                why=why,
            )
        )
        plays += [] if seconds is None else runs * [seconds]
        scoring += seeds * len(same) * (extrapolate(samples.scored, rounds, lambda count: count) or 0.0)
    wall = _schedule([one / workers for one in federations], processes) + _schedule(plays, processes)
    largest = max([found.memory, *(one.memory for one in attacks)])
    return Estimate(
        seconds=wall + scoring + _REPORT,
        computing=sum(federations) + sum(plays) + scoring + _REPORT,
        training=sum(federations),
        scoring=scoring,
        memory=largest * min(processes, max(len(federations), len(plays))),
        disk=len(federations) * (found.fixed_bytes + rounds * found.round_bytes),
        processes=processes,
        rounds=found.sampled,
        attacks=attacks,
        unknown=[
            *(f"attack {one.attack}: {one.why}" for one in attacks if one.seconds is None),
            *(f"analysis {analysis.name}" for analysis in plan.analyses),
        ],
    )


def _attack_cost(samples: AttackSamples, rounds: int, memory: int) -> tuple[float | None, float, str]:
    """Seconds and bytes of one attack on one run; or why nobody knows."""
    attack = samples.play[0]
    if samples.why:
        return None, 0.0, samples.why
    held = [Sample(one.rounds, one.memory) for one in samples.attacked if one.memory]
    most = (held[-1].seconds if held else 0.0) + (memory << 20) + _SPARE
    holding = min(most, extrapolate(held, rounds, lambda count: count) or 0.0)
    if samples.attacked[-1].rounds == rounds:  # nothing to carry over
        return samples.attacked[-1].seconds, holding, ""
    work = getattr(attack, "work", None)
    if work is None:
        return None, holding, "it does not say how its work grows with the rounds"
    return extrapolate(samples.attacked, rounds, work), holding, ""


def extrapolate(samples: Sequence[Sample], rounds: int, work: Callable[[int], float]) -> float | None:
    """A fixed part and one in proportion to the work, from two samples; all in proportion, from one.

    >>> extrapolate([Sample(2, 3.0), Sample(8, 6.0)], 100, lambda rounds: rounds)
    52.0
    >>> extrapolate([Sample(8, 6.0)], 16, lambda rounds: min(10, rounds))
    7.5
    """
    if not samples:
        return None
    last = samples[-1]
    if last.rounds == rounds:
        return last.seconds
    first, target = work(last.rounds), work(rounds)
    if len(samples) > 1 and (less := work(samples[0].rounds)) < first:
        slope = max(0.0, last.seconds - samples[0].seconds) / (first - less)
        slope = min(slope, last.seconds / first)  # nothing has a negative fixed part
        return last.seconds + slope * (target - first)
    return last.seconds * target / first


def _schedule(jobs: Sequence[float], processes: int) -> float:
    """When the last of some jobs is done, if each begins as soon as a process is free.

    >>> _schedule([2.0, 2.0, 2.0], 2), _schedule([], 2)
    (4.0, 0.0)
    """
    free = [0.0] * max(1, processes)
    for job in jobs:
        heapq.heapreplace(free, free[0] + job)
    return max(free)

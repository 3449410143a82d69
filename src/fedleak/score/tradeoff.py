"""The trade-off of a defence: leakage in multiples of chance against utility relative to the undefended model.

As in Figure 12 of Orekondy et al. (2020). Every defence is judged by the strongest attack on it, defence-aware or not.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fedleak.core import format_value
from fedleak.results.audit import Score
from fedleak.results.defence_results import Setting, Tradeoff

__all__ = ["Price", "tradeoffs"]

_TINY = 1e-3  # a chance below this has no meaningful multiples


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one run, by seed."""

    defence: dict[str, Any] | None
    adaptive: bool
    utility: list[float]
    matched: list[float] | None  # utility after as many local steps as without a defence
    steps: list[int]
    seconds: list[float]  # of one update; empty where it was not measured
    epsilon: float | None = None


def tradeoffs(
    scores: Sequence[Score],
    prices: Sequence[Price],
    target: float,
    missing: Mapping[tuple[str, str], str] | None = None,
) -> list[Tradeoff]:
    """One for every adversary and game; the first price is the undefended run's.

    `missing` names, by adversary and game, the strongest attack where the plan does not run it.
    """
    headline = [score for score in scores if score.headline and score.control is None]
    found = []
    for adversary, game in dict.fromkeys((score.adversary, score.game) for score in headline):
        here = [score for score in headline if (score.adversary, score.game) == (adversary, game)]
        defences: list[dict[str, Any] | None] = []
        for score in here:
            if score.defence not in defences:
                defences.append(score.defence)
        if len(defences) < 2 or None not in defences:
            continue
        settings = [_setting(d, [s for s in here if s.defence == d], prices, higher(here)) for d in defences]
        settings = [msgspec.structs.replace(s, best=not any(_beats(o, s) for o in settings)) for s in settings]
        found.append(
            Tradeoff(
                adversary=adversary,
                game=game,
                metric=here[0].metric,
                target=target,
                settings=settings,
                advice=advice(
                    settings,
                    target,
                    known=any(score.adaptive for score in here),
                    missing=(missing or {}).get((adversary, game)),
                ),
            )
        )
    return found


def higher(scores: Sequence[Score]) -> bool:
    """Whether more utility is better."""
    return next((score.utility.higher_is_better for score in scores if score.utility is not None), True)


def _setting(defence: dict[str, Any] | None, scores: Sequence[Score], prices: Sequence[Price], better: bool) -> Setting:
    strongest = max(scores, key=lambda score: (score.low, score.value))
    base = prices[0]
    # The true utility of a defence is measured where every client applies it, shadow clients too.
    mine = max((p for p in prices if p.defence == defence), key=lambda price: price.adaptive)
    kept = [_kept(value, alone, better) for value, alone in zip(mine.utility, base.utility, strict=True)]
    matched = (
        None
        if mine.matched is None
        else statistics.fmean(_kept(v, alone, better) for v, alone in zip(mine.matched, base.utility, strict=True))
    )
    bounds = [score.high / score.chance for score in scores if score.chance > _TINY]
    timed = bool(mine.seconds and base.seconds)
    return Setting(
        defence=defence,
        attack=strongest.attack,
        adaptive=strongest.adaptive,
        value=strongest.value,
        low=strongest.low,
        high=strongest.high,
        chance=strongest.chance,
        bound=max(bounds) if len(bounds) == len(scores) else None,
        leaks=any(score.low > score.chance for score in scores),
        utility=statistics.fmean(mine.utility),
        kept=statistics.fmean(kept),
        kept_low=min(kept),
        kept_high=max(kept),
        matched=matched,
        steps=sum(mine.steps) / max(1, sum(base.steps)),
        seconds=statistics.fmean(mine.seconds) / statistics.fmean(base.seconds) if timed else None,
        epsilon=mine.epsilon,
        best=False,
    )


def _kept(value: float, alone: float, better: bool) -> float:
    """Utility relative to the undefended model, such that higher is better for every metric."""
    above, below = (value, alone) if better else (alone, value)
    return above / below if below else 1.0


def _beats(one: Setting, other: Setting) -> bool:
    """Whether one is at least as good in both, and better in at least one (Pareto dominance)."""
    no_worse = one.kept >= other.kept and one.value <= other.value
    return no_worse and (one.kept > other.kept or one.value < other.value)


def advice(settings: Sequence[Setting], target: float, *, known: bool, missing: str | None = None) -> str:
    """The cheapest setting that keeps the leak below the target, in words; it never says that anything is safe.

    `known` says whether defence-aware attacks were run. Without the strongest attack no defence is recommended;
    `missing` is its name, if it was not run.
    """
    defended = [setting for setting in settings if setting.defence is not None]
    bare = next(setting for setting in settings if setting.defence is None)
    counted = all(setting.bound is not None for setting in settings)
    goal = f"keeps the upper end of every attack's interval below {target:g} times chance"
    if not counted:
        goal = "leaves no attack that was shown to beat chance"

    def reached(setting: Setting) -> bool:
        return setting.bound < target if counted and setting.bound is not None else not setting.leaks

    if missing is not None:
        return (
            f"No defence is recommended: '{missing}', the strongest attack on this question, was not run. Add it to "
            "the plan."
        )
    if reached(bare):
        return f"Without any defence, the run already {goal}. This covers only the attacks of this plan."
    able = sorted((s for s in defended if reached(s)), key=lambda s: -s.kept)
    if not able:
        nearest = min(defended, key=lambda s: (s.bound if s.bound is not None else s.value, -s.kept))
        left = (
            f"{format_value(nearest.bound)} times chance" if nearest.bound is not None else format_value(nearest.value)
        )
        return f"No tested setting {goal}. The nearest is {_named(nearest)}: up to {left}, {_costs(nearest)}."
    cheapest = able[0]
    knowing = "" if known else " No defence-aware attack was run."
    return (
        f"The cheapest setting that {goal} is {_named(cheapest)}: {_costs(cheapest)}. "
        f"This covers only the attacks of this plan.{knowing}"
    )


def _named(setting: Setting) -> str:
    assert setting.defence is not None
    shown = {key: v for key, v in setting.defence.items() if key not in ("name", "also") and v is not None}
    rest = ", ".join(f"{key}={_plain(value)}" for key, value in shown.items())
    also = "".join(f" with {other['name']}" for other in setting.defence.get("also", []))
    return f"{setting.defence['name']}{f' ({rest})' if rest else ''}{also}"


def _plain(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _costs(setting: Setting) -> str:
    parts = [f"{setting.kept:.0%} of the undefended utility"]
    if setting.matched is not None:
        parts.append(f"{setting.matched:.0%} after as many local steps")
    if abs(setting.steps - 1) >= 0.05:
        parts.append(f"{setting.steps:.1f} times the local steps")
    return ", ".join(parts)

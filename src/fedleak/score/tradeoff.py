"""The trade-off of a defence: the advantage of the strongest attack against the utility that the model keeps.

As in Figure 12 of Orekondy et al. (2020), in units that cannot invert. All settings of one trade-off share one chance
level, so the advantage keeps the order of the scores; utility is counted from the best constant answer. Every defence
is judged by the strongest attack on it, defence-aware or not.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fedleak import registry
from fedleak.core import Capability, Observation, advantage, format_interval, format_value
from fedleak.results.audit import Score
from fedleak.results.defence_results import Setting, Tradeoff
from fedleak.score.strongest import any_leaks, interval_of, strongest

__all__ = ["Price", "tradeoffs"]

_LEAST_GAIN = 0.05  # of the way from a constant prediction to a perfect one, for a model that is clearly better
_LEAST_ROOM = 1e-3  # between chance and the highest score; a question with less cannot show a leak


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one run, by seed."""

    defence: dict[str, Any] | None
    adaptive: bool
    utility: list[float]
    constant: list[float]  # utility of the best constant prediction
    matched: list[float] | None  # utility after as many local steps as without a defence
    steps: list[int]
    seconds: list[float]  # of one update; empty where it was not measured
    epsilon: float | None = None


class _Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The units of one trade-off: one chance level for all settings, and the undefended model's gain in utility."""

    chance: float
    distance: bool
    utility: str  # the metric
    higher_is_better: bool
    base: Price

    def advantage(self, value: float) -> float:
        return advantage(value, self.chance, lower_leaks=self.distance)

    @property
    def room(self) -> float:
        return self.chance if self.distance else 1 - self.chance

    @property
    def clear(self) -> bool:
        """Whether the undefended model is clearly better than a constant prediction.

        On every seed, by _LEAST_GAIN on average, and by twice the standard deviation over seeds.
        """
        gains = [
            advantage(value, constant, lower_leaks=not self.higher_is_better)
            for value, constant in zip(self.base.utility, self.base.constant, strict=True)
        ]
        spread = statistics.stdev(gains) if len(gains) > 1 else 0.0
        return min(gains) > 0 and statistics.fmean(gains) >= max(_LEAST_GAIN, 2 * spread)

    def kept(self, utility: Sequence[float]) -> float:
        """The share of the undefended model's gain over a constant prediction; the same for either way of better."""
        constant = statistics.fmean(self.base.constant)
        return (statistics.fmean(utility) - constant) / (statistics.fmean(self.base.utility) - constant)

    def kept_by_seed(self, utility: Sequence[float]) -> list[float]:
        seeds = zip(utility, self.base.utility, self.base.constant, strict=True)
        return [(value - constant) / (alone - constant) for value, alone, constant in seeds]


def tradeoffs(
    scores: Sequence[Score],
    prices: Sequence[Price],
    target: float,
    missing: Mapping[tuple[str, str], str] | None = None,
) -> list[Tradeoff]:
    """One for every adversary and game; the first price is the undefended run's.

    `target` is an advantage. `missing` names, by adversary and game, the strongest attack where the plan does not run
    it.
    """
    headline = [score for score in scores if score.headline and score.control is None]
    found = []
    for adversary, game in dict.fromkeys((score.adversary, score.game) for score in headline):
        here = [score for score in headline if (score.adversary, score.game) == (adversary, game)]
        defences: list[dict[str, Any] | None] = []
        for score in here:
            if score.defence not in defences:
                defences.append(score.defence)
        bare = strongest(score for score in here if score.defence is None)
        if len(defences) < 2 or bare is None:
            continue
        # The chance level furthest from a leak: by any other, a run that is shown to leak could lie below 0.
        levels = [picked.chance for d in defences if (picked := strongest(s for s in here if s.defence == d))]
        scale = _Scale(
            chance=max(levels) if bare.distance else min(levels),
            distance=bare.distance,
            utility=bare.utility.metric if bare.utility else "utility",
            higher_is_better=bare.utility.higher_is_better if bare.utility else True,
            base=prices[0],
        )
        settings = [_setting(d, [s for s in here if s.defence == d], prices, scale) for d in defences]
        settings = [
            msgspec.structs.replace(s, best=not any(_beats(o, s, scale.higher_is_better) for o in settings))
            for s in settings
        ]
        known = any(score.adaptive for score in here)
        found.append(
            Tradeoff(
                adversary=adversary,
                game=game,
                metric=here[0].metric,
                chance=scale.chance,
                target=target,
                settings=settings,
                advice=_no_advice(settings, scale, (missing or {}).get((adversary, game)))
                or advice(settings, target, known=known, adversary=adversary),
            )
        )
    return found


def _setting(
    defence: dict[str, Any] | None, scores: Sequence[Score], prices: Sequence[Price], scale: _Scale
) -> Setting:
    picked = strongest(scores)
    assert picked is not None
    low, high = interval_of(picked)
    # The lower end of a distance is the one that leaks more.
    worst = [interval_of(score)[0 if scale.distance else 1] for score in scores]
    ends = sorted((scale.advantage(low), scale.advantage(high)))
    # The true utility of a defence is measured where every client applies it, shadow clients too.
    mine = max((p for p in prices if p.defence == defence), key=lambda price: price.adaptive)
    kept = scale.kept_by_seed(mine.utility) if scale.clear else None
    timed = bool(mine.seconds and scale.base.seconds)
    return Setting(
        defence=defence,
        attack=picked.attack,
        adaptive=picked.adaptive,
        value=picked.value,
        low=low,
        high=high,
        chance=picked.chance,
        advantage=scale.advantage(picked.value),
        advantage_low=ends[0],
        advantage_high=ends[1],
        bound=max(scale.advantage(end) for end in worst),
        leaks=any_leaks(scores),
        utility=statistics.fmean(mine.utility),
        kept=scale.kept(mine.utility) if kept else None,
        kept_low=min(kept) if kept else None,
        kept_high=max(kept) if kept else None,
        matched=scale.kept(mine.matched) if kept and mine.matched is not None else None,
        steps=sum(mine.steps) / max(1, sum(scale.base.steps)),
        seconds=statistics.fmean(mine.seconds) / statistics.fmean(scale.base.seconds) if timed else None,
        epsilon=mine.epsilon,
        best=False,
    )


def _beats(one: Setting, other: Setting, higher_is_better: bool) -> bool:
    """Whether one is at least as good in both, and better in at least one (Pareto dominance)."""
    gain = one.utility - other.utility if higher_is_better else other.utility - one.utility
    return gain >= 0 and one.advantage <= other.advantage and (gain > 0 or one.advantage < other.advantage)


def _no_advice(settings: Sequence[Setting], scale: _Scale, missing: str | None) -> str | None:
    """Why these results do not allow any advice, if so."""
    if missing is not None:
        return (
            f"No defence is recommended: '{missing}', the strongest attack on this question, was not run. Add it to "
            "the plan."
        )
    if any(setting.leaks is None for setting in settings):
        return "No advice: no verdict, because too few users are asked about."
    if scale.room < _LEAST_ROOM:
        return f"No advice: chance is {format_value(scale.chance)}, so this question cannot show a leak."
    if not scale.clear:
        reached, constant = (statistics.fmean(v) for v in (scale.base.utility, scale.base.constant))
        return (
            "No advice: the undefended model is not clearly better than a constant prediction "
            f"({scale.utility} {format_value(reached)}, constant {format_value(constant)}), so what a defence costs "
            "cannot be measured."
        )
    return None


def advice(settings: Sequence[Setting], target: float, *, known: bool, adversary: str = "") -> str:
    """The cheapest setting that keeps the leak below the target, in words; it never says that anything is safe.

    `known` says whether defence-aware attacks were run. Where sums alone hide the updates, it says who could change the
    model: secure aggregation is about what a server sees, not about what it sends.
    """
    chosen, text = _advice(settings, target, known)
    return f"{text}{_who_may_change_the_model(chosen, adversary)}"


def _who_may_change_the_model(setting: Setting | None, adversary: str) -> str:
    """A caveat for settings that rely on secure aggregation, whether it is a defence or the adversary's limit."""
    known = registry.load("adversary", adversary) if adversary in registry.names("adversary") else None
    seen = Observation.NONE if known is None else known.observations
    sums = Observation.AGGREGATE in seen and Observation.UPDATES not in seen
    defence = (setting.defence if setting is not None else None) or {}
    masked = any(one.get("name") == "secure-aggregation" for one in (defence, *defence.get("also", [])))
    if setting is None or not (sums or masked):
        return ""
    if known is not None and Capability.CHOOSE_MODEL in known.capabilities:
        return f" This is against '{adversary}', which may change the model that clients train."
    who = f"'{adversary}'" if adversary else "the server"
    return (
        f" Secure aggregation is not enough by itself: this assumes that {who} sends the agreed model. "
        "Whoever may change the model that clients train can read single examples out of the sum; name who that is, "
        "and test it as 'malicious-aggregate-server'."
    )


def _advice(settings: Sequence[Setting], target: float, known: bool) -> tuple[Setting | None, str]:
    """The advice, and the setting that it is about, if any."""
    bare = next(setting for setting in settings if setting.defence is None)
    goal = f"keeps the upper end of every attack's interval below an advantage of {target:g}"
    only = "This covers only the attacks of this plan."
    # A wider interval must not make a lower score worse: nothing passes that scores more than what fails.
    fails = min((s for s in settings if s.bound >= target), key=lambda s: s.advantage, default=None)
    able = [s for s in settings if s.bound < target and (fails is None or s.advantage <= fails.advantage)]
    if bare in able:
        return bare, f"Without any defence, the run already {goal}. {only}{_still(bare)}"
    useful = sorted((s for s in able if _kept(s) > 0), key=lambda s: (-_kept(s), s.bound))
    if useful:
        knowing = "" if known else " No defence-aware attack was run."
        named = f"{_named(useful[0])}: {_costs(useful[0])}"
        passed = f" {_passed_over(settings, fails, target)}" if fails is not None else ""
        text = f"The cheapest setting that {goal} is {named}. {only}{_still(useful[0])}{knowing}{passed}".rstrip()
        return useful[0], text
    if able:
        return None, f"No tested setting {goal} and leaves a model that is better than a constant prediction."
    if fails is not None and (passed := _passed_over(settings, fails, target)):
        return None, f"No setting is recommended. {passed}"
    nearest = min(settings, key=lambda s: (s.advantage, s.bound, -_kept(s)))
    if nearest.defence is None:
        return None, (
            f"No tested setting {goal}, and none scores less than the run without a defence "
            f"(advantage {format_value(bare.advantage)})."
        )
    left = f"up to an advantage of {format_value(nearest.bound)}"
    return nearest, f"No tested setting {goal}. The nearest is {_named(nearest)}: {left}, {_costs(nearest)}."


def _passed_over(settings: Sequence[Setting], fails: Setting, target: float) -> str:
    """Why a setting whose own upper end is below the target does not count: one with a lower score is above it."""
    names = [_named(s) for s in settings if s.bound < target and s.advantage > fails.advantage]
    if not names:
        return ""
    return (
        f"Passed over: {', '.join(names)}, because {_named(fails)} scores less and its interval still reaches an "
        f"advantage of {format_value(fails.bound)}. More users would narrow the intervals."
    )


def _kept(setting: Setting) -> float:
    assert setting.kept is not None, "no advice is given where utility kept has no meaning"
    return setting.kept


def _still(setting: Setting) -> str:
    """Below the target is not without a leak."""
    if not setting.leaks:
        return ""
    shown = format_interval(setting.advantage, setting.advantage_low, setting.advantage_high)
    return f" It still leaks: the strongest attack, {setting.attack}, has an advantage of {shown}."


def _named(setting: Setting) -> str:
    if setting.defence is None:
        return "no defence"
    shown = {key: v for key, v in setting.defence.items() if key not in ("name", "also") and v is not None}
    rest = ", ".join(f"{key}={_plain(value)}" for key, value in shown.items())
    also = "".join(f" with {other['name']}" for other in setting.defence.get("also", []))
    return f"{setting.defence['name']}{f' ({rest})' if rest else ''}{also}"


def _plain(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _costs(setting: Setting) -> str:
    parts = [f"{_kept(setting):.0%} of the utility kept"]
    if _kept(setting) < 0:
        parts = ["a model worse than a constant prediction"]
    elif setting.matched is not None:
        parts.append(f"{setting.matched:.0%} after as many local steps")
    if abs(setting.steps - 1) >= 0.05:
        parts.append(f"{setting.steps:.1f} times the local steps")
    return ", ".join(parts)

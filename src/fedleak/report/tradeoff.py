"""The trade-off of each defence as a figure, a table and a sentence; the terminal and the page say the same."""

from __future__ import annotations

from fedleak.report.formatting import epsilon, format_value, run_label
from fedleak.results.defence_results import Effect, Promise, Setting, Tradeoff
from fedleak.results.detail import Figure, Series

__all__ = ["COLUMNS", "figure", "rows", "changes", "promise"]

COLUMNS = (
    "defence",
    "strongest attack",
    "score",
    "up to",
    "utility kept",
    "equal steps",
    "steps",
    "time",
    "epsilon",
    "best",
)


def figure(weighed: Tradeoff, measure: str) -> Figure:
    """Leakage against utility, one line per defence through its strengths (Fig. 12 of Orekondy et al., 2020).

    `measure` is the title of the metric. Leakage is in multiples of chance, where these are meaningful.
    """
    counted = all(setting.bound is not None for setting in weighed.settings)
    named: dict[str, list[Setting]] = {}
    for setting in weighed.settings:
        named.setdefault(_family(setting), []).append(setting)
    lines = []
    for family, same in named.items():
        unit = [one.chance if counted else 1.0 for one in same]
        lines.append(
            Series(
                name=family,
                x=[one.kept for one in same],
                y=[one.value / u for one, u in zip(same, unit, strict=True)],
                low=[one.low / u for one, u in zip(same, unit, strict=True)],
                high=[one.high / u for one, u in zip(same, unit, strict=True)],
                labels=[run_label(one.defence, None) for one in same],
            )
        )
    ends = [min(s.kept for s in weighed.settings), max(s.kept for s in weighed.settings)]
    chance = 1.0 if counted else max(setting.chance for setting in weighed.settings)
    lines.append(Series(name="chance", x=ends, y=[chance, chance], reference=True))
    if counted:
        lines.append(Series(name=f"target, {weighed.target:g}x", x=ends, y=[weighed.target] * 2, reference=True))
    return Figure(
        kind="lines",
        title="Leakage against utility of each defence",
        x_label="utility, in units of the undefended model's",
        y_label=f"{measure} of the strongest attack" + (", times chance" if counted else ""),
        series=lines,
    )


def rows(weighed: Tradeoff) -> list[tuple[str, ...]]:
    """Every setting under COLUMNS."""
    return [
        (
            run_label(one.defence, None),
            f"{one.attack}{', adapted' if one.adaptive else ''}",
            f"{format_value(one.value)} [{format_value(one.low)}, {format_value(one.high)}]",
            "-" if one.bound is None else f"{one.bound:.1f}x",
            _share(one.kept, one.kept_low, one.kept_high),
            "" if one.matched is None else f"{one.matched:.2f}",
            f"{one.steps:.1f}x",
            "" if one.seconds is None else f"{one.seconds:.1f}x",
            "" if one.epsilon is None else epsilon(one.epsilon),
            "yes" if one.best else "",
        )
        for one in weighed.settings
    ]


def changes(effect: Effect) -> str:
    """How a defence changes the updates, in a sentence."""
    sizes = f" Norm {effect.norm:.2f} of the raw update's." if effect.norm is not None and effect.same < 1 else ""
    return f"{run_label(effect.defence, None)}: {effect.text}{sizes}"


def promise(given: Promise) -> str:
    """A defence's privacy statement, and whether canaries contradict it, in a sentence."""
    if given.epsilon is None:
        return f"{given.how[:1].upper()}{given.how[1:]}."
    hidden = (
        f" ({epsilon(given.hidden_epsilon)} while participation is secret)" if given.hidden_epsilon is not None else ""
    )
    parts = (
        ("unit", f"one {given.unit}" + (f" of {given.count}" if given.count is not None else "")),
        ("adjacency", given.adjacency),
        ("protects against", given.against),
        ("trusted", given.trusted),
        ("sampling", given.sampling),
        ("public", given.public),
        ("composition", given.composition),
        ("accountant", given.accountant),
    )
    said = (
        f"{given.defence} states epsilon {epsilon(given.epsilon)}{hidden} at delta {given.delta:.1e} for the whole "
        f"run, {epsilon(given.per_round or 0.0)} for a round with the client, at {given.unit} level. {given.how}. "
        + " ".join(f"{name.capitalize()}: {text}." for name, text in parts if text)
    )
    if given.warning:
        said += f" Weak: {given.warning}."
    if given.shown is None or given.tested is None:
        return said
    stated = epsilon(given.tested)
    if given.tested_delta is not None and given.tested_delta != given.delta:
        stated += f" (at delta {given.tested_delta:.1e})"
    least = f"canaries show at least {epsilon(given.shown)} in one round"
    if given.contradicted:
        return f"{said} CONTRADICTED: {least}, and {stated} is stated there."
    if given.most is not None and given.tested > given.most:
        return (
            f"{said} Not tested: canaries cannot show more than {epsilon(given.most)} in one round, and "
            f"{stated} is stated there; they show at least {epsilon(given.shown)}."
        )
    return f"{said} C{least[1:]} and do not contradict the {stated} stated there."


def _family(setting: Setting) -> str:
    if setting.defence is None:
        return "no defence"
    return "+".join([str(setting.defence["name"]), *(str(d["name"]) for d in setting.defence.get("also", []))])


def _share(value: float, low: float, high: float) -> str:
    return f"{value:.2f}" if high - low < 0.005 else f"{value:.2f} [{low:.2f}, {high:.2f}]"

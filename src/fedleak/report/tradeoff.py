"""The trade-off of each defence as a figure, a table and a sentence; the terminal and the page say the same."""

from __future__ import annotations

from fedleak.core import counted, format_interval
from fedleak.report.formatting import epsilon, format_value, run_label
from fedleak.results.defence_results import Effect, Promise, Setting, Tradeoff
from fedleak.results.detail import Figure, Series

__all__ = ["COLUMNS", "NOTES", "unclear", "figure", "rows", "note", "changes", "promise"]

COLUMNS = (
    "defence",
    "strongest attack",
    "advantage",
    "up to",
    "leak shown",
    "utility kept",
    "equal steps",
    "steps",
    "time",
    "epsilon",
    "best",
)


NOTES = {  # below a column's head, where it stands
    "advantage": "0: chance, 1: always right",
    "up to": "highest upper bound of all attacks",
    "utility kept": "of the gain over a constant",
    "equal steps": "utility kept after as many local steps as without a defence",
    "steps": "of a client, against no defence",
    "time": "of a client, against no defence",
    "epsilon": "stated for the whole run",
    "best": "nothing keeps more and leaks less",
}


def unclear(weighed: Tradeoff) -> bool:
    """Whether utility kept has no meaning, because the undefended model is not clearly better than a constant."""
    return any(setting.kept is None for setting in weighed.settings)


def figure(weighed: Tradeoff, measure: str) -> Figure:
    """Leakage against utility, one line per defence through its strengths (Fig. 12 of Orekondy et al., 2020).

    `measure` is the title of the metric. Leakage is the advantage, by one chance level for all settings, so a lower
    score is never drawn higher.
    """
    named: dict[str, list[Setting]] = {}
    for setting in weighed.settings:
        named.setdefault(_family(setting), []).append(setting)
    across = [_across(setting) for setting in weighed.settings]
    lines = [
        Series(
            name=family,
            x=[_across(one) for one in same],
            y=[one.advantage for one in same],
            low=[one.advantage_low for one in same],
            high=[one.advantage_high for one in same],
            labels=[run_label(one.defence, None) for one in same],
        )
        for family, same in named.items()
    ]
    ends = [min(across), max(across)]
    lines.append(Series(name="chance", x=ends, y=[0.0, 0.0], reference=True))
    lines.append(Series(name=f"target, {weighed.target:g}", x=ends, y=[weighed.target] * 2, reference=True))
    return Figure(
        kind="lines",
        title="Leakage against utility of each defence",
        x_label="utility" if unclear(weighed) else "utility kept",
        y_label=f"advantage of the strongest attack ({measure})",
        series=lines,
    )


def rows(weighed: Tradeoff) -> list[tuple[str, ...]]:
    """Every setting under COLUMNS."""
    return [
        (
            run_label(one.defence, None),
            f"{one.attack}{', adapted' if one.adaptive else ''}",
            format_interval(one.advantage, one.advantage_low, one.advantage_high),
            format_value(one.bound),
            {True: "yes", False: "no", None: "no verdict: too few users"}[one.leaks],
            _kept(one),
            "" if one.matched is None else _share(one.matched),
            f"{one.steps:.1f}x",
            "" if one.seconds is None else f"{one.seconds:.1f}x",
            "" if one.epsilon is None else epsilon(one.epsilon),
            "yes" if one.best else "",
        )
        for one in weighed.settings
    ]


def note(weighed: Tradeoff) -> str:
    """What the units of the table are, for the terminal."""
    worse = any(one.kept is not None and one.kept < 0 for one in weighed.settings)
    longer = any(one.matched is not None for one in weighed.settings)
    return (
        f"Advantage: 0 at chance ({format_value(weighed.chance)}, for all rows), 1 for the highest possible score. "
        "Up to: the highest upper confidence bound of all attacks. "
        "Utility kept: share of the gain over a constant prediction"
        + ("; below 0%: worse than one." if worse else ".")
        + (" Equal steps: after as many local steps as without a defence." if longer else "")
    )


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
    return " ".join([said, *_tested(given)])


def _tested(given: Promise) -> list[str]:
    """What canaries show of a stated epsilon: in one round, and over the whole run."""
    found = []
    if given.shown is not None and given.tested is not None:
        stated = epsilon(given.tested)
        if given.tested_delta is not None and given.tested_delta != given.delta:
            stated += f" (at delta {given.tested_delta:.1e})"
        least = f"canaries show at least {epsilon(given.shown)} in one round"
        if given.shown > given.tested:
            found.append(f"CONTRADICTED: {least}, and {stated} is stated there.")
        elif given.most is not None and given.tested > given.most:
            found.append(
                f"Not tested in one round: canaries cannot show more than {epsilon(given.most)} there, and "
                f"{stated} is stated; they show at least {epsilon(given.shown)}."
            )
        else:
            found.append(f"C{least[1:]} and do not contradict the {stated} stated there.")
    if given.shown_over_run is not None and given.epsilon is not None:
        least = f"canary clients show at least {epsilon(given.shown_over_run)} over the whole run"
        if given.shown_over_run > given.epsilon:
            found.append(f"CONTRADICTED: {least}, and {epsilon(given.epsilon)} is stated for it.")
        else:
            found.append(f"C{least[1:]} and do not contradict the {epsilon(given.epsilon)} stated for it.")
    if (one := given.one_run) is not None:
        stated = f"{epsilon(one.stated)} stated for them (delta {one.delta:.1e})"
        what = f"{one.canaries} canary records in one training of {counted(one.rounds, 'round')}, {one.sampling}"
        if one.contradicted:
            found.append(f"CONTRADICTED: {what}, show at least {epsilon(one.shown)}, more than the {stated}.")
        elif one.stated > one.most:
            found.append(
                f"Not tested by canary records: all guesses right would show {epsilon(one.most)}, and {stated[:-1]})."
            )
        else:
            found.append(f"{what[:1].upper()}{what[1:]}, show at least {epsilon(one.shown)} of the {stated}.")
    return found


def _family(setting: Setting) -> str:
    if setting.defence is None:
        return "no defence"
    return "+".join([str(setting.defence["name"]), *(str(d["name"]) for d in setting.defence.get("also", []))])


def _across(one: Setting) -> float:
    return one.utility if one.kept is None else one.kept


def _kept(one: Setting) -> str:
    if one.kept is None or one.kept_low is None or one.kept_high is None:
        return "-"
    kept, low, high = (_share(value) for value in (one.kept, one.kept_low, one.kept_high))
    return kept if low == high else f"{kept} [{low}, {high}]"


def _share(value: float) -> str:
    return f"{round(value, 2) + 0.0:.0%}"  # never a negative zero

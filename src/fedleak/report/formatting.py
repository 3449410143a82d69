"""How numbers, settings and names are written in every report."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedleak.core import format_value, percent, places
from fedleak.results.audit import Score
from fedleak.score.strongest import interval_of

__all__ = [
    "run_label",
    "setting",
    "epsilon",
    "format_value",
    "column",
    "rows",
    "numeric",
    "interval",
    "picked_interval",
    "by_seed",
    "percent",
    "times",
    "printable",
]

_TIMES_WORTH = 0.25  # a multiple of a larger chance level says less than the two numbers


PLAIN, RECORDED = "no defence", "recorded run"


def run_label(defence: Mapping[str, Any] | None, control: str | None) -> str:
    """Name a run in a table.

    >>> run_label(None, None), run_label({"name": "noise", "sigma": 0.5}, None), run_label(None, "iid")
    ('no defence', 'noise (sigma=0.5)', 'IID control')
    """
    parts = []
    if control is not None:
        parts.append(f"{control.upper() if control == 'iid' else control} control")
    if defence is not None:
        rest = ", ".join(
            f"{key}={setting(value)}" for key, value in defence.items() if key != "name" and value is not None
        )
        name = str(defence.get("name", "defence"))
        parts.append(f"{name} ({rest})" if rest else name)
    return printable(", ".join(parts) or PLAIN)


def epsilon(value: float) -> str:
    """An epsilon of differential privacy; above 1000 it guarantees nothing, so it is rounded.

    >>> epsilon(2.5), epsilon(341983.01)
    ('2.50', '3.4e+05')
    """
    return format_value(value) if value < 1000 else f"{value:.1e}"


def setting(value: Any) -> str:
    """Write a value of a plan as a user would.

    >>> setting({"lr": 0.05, "layers": [32, 10], "stratify": True, "clip": None})
    'lr=0.05, layers=[32, 10], stratify=yes, clip=none'
    """
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{key}={setting(item)}" for key, item in value.items())
        case str():
            return printable(value)
        case Iterable():
            return f"[{', '.join(setting(item) for item in value)}]"
    return str(value)


def interval(score: Score) -> str:
    """A score with its interval, all three to the same place."""
    to = places(score.value)
    return f"{score.value:.{to}f} [{score.low:.{to}f}, {score.high:.{to}f}]"


def picked_interval(score: Score) -> str:
    """The same with the interval that holds for all attacks on the question at once, where it is known."""
    to, (low, high) = places(score.value), interval_of(score)
    return f"{score.value:.{to}f} [{low:.{to}f}, {high:.{to}f}]"


def by_seed(score: Score) -> str:
    """The score of each seed and their spread; nothing for one seed."""
    if len(score.by_seed) < 2:
        return ""
    to = places(score.value)
    each = ", ".join(f"{value:.{to}f}" for value in score.by_seed)
    return f"{each} (spread {max(score.by_seed) - min(score.by_seed):.{to}f})"


def times(score: Score) -> str:
    """How many times chance a score is.

    A chance of exactly zero has no multiple, and a multiple of a large chance, for instance 1.6 times 0.5, says little:
    both are a dash.
    """
    if score.multiple is None or score.chance > _TIMES_WORTH:
        return "-"
    if score.multiple >= 999.5:
        return "over 999x"  # of the chance to guess a secret
    return f"{score.multiple:.1f}x" if score.multiple < 99.95 else f"{score.multiple:.0f}x"


def column(values: Sequence[str | float | None]) -> list[str]:
    """One column of a table of numbers, all written alike; None is a dash.

    >>> column([12.0, 1500.0, None]), column([1.0, 0.034]), column([3.14159, 120.5])
    (['12', '1500', '-'], ['1.00', '0.034'], ['3.14', '120'])
    """
    numbers = [value for value in values if isinstance(value, (int, float))]
    whole = all(float(value).is_integer() for value in numbers)
    share = all(abs(value) <= 1 for value in numbers)

    def written(value: str | float | None) -> str:
        if value is None:
            return "-"
        if isinstance(value, str):
            return printable(value)
        return f"{value:.0f}" if whole else format_value(value) if share else f"{value:.3g}"

    return [written(value) for value in values]


def rows(values: Sequence[Sequence[str | float | None]]) -> list[tuple[str, ...]]:
    """The rows of a table, each column written alike."""
    written = [column(one) for one in zip(*values, strict=True)]
    return [*zip(*written, strict=True)]


def numeric(values: Sequence[Sequence[str | float | None]]) -> list[bool]:
    """Which columns of a table hold numbers."""
    return [not any(isinstance(value, str) for value in one) for one in zip(*values, strict=True)]


def printable(text: str) -> str:
    r"""Replace what a terminal or a browser would act on instead of showing: escapes, overrides of text direction.

    >>> printable("a\x1b[2Jb") == "a\ufffd[2Jb"
    True
    """
    kept = {"\n", "\t"}
    hidden = {"Cc", "Cf", "Cs"}
    return "".join(c if c in kept or unicodedata.category(c) not in hidden else "\ufffd" for c in text)

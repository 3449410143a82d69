"""The part of a result that is about defences: what each promises, changes, buys and costs."""

from __future__ import annotations

from typing import Any

import msgspec

from fedleak.federation.promises import Promise

__all__ = ["Promise", "Promised", "Effect", "Setting", "Tradeoff", "Failure"]


class Promised(msgspec.Struct, frozen=True, kw_only=True):
    """What the defences of one run promise."""

    defence: dict[str, Any]
    promises: list[Promise]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a defence changes of what leaves the clients, in the first round of the first seed."""

    defence: dict[str, Any]
    clients: int  # that are compared
    same: float  # share of updates that leave as they would without it
    cosine: float | None = None  # with the raw update, mean over clients
    cosine_low: float | None = None
    cosine_high: float | None = None
    norm: float | None = None  # in units of the raw update's, mean over clients
    idle: bool  # it changes nothing at all
    text: str


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What one defence, at one strength, buys against one adversary's question, and what it costs."""

    defence: dict[str, Any] | None  # null: none
    attack: str  # the strongest: its score is the highest
    adaptive: bool  # by somebody who knows of the defence
    value: float
    low: float  # of the interval that holds for all attacks at once, where it is known
    high: float
    chance: float
    advantage: float  # value on the scale of the trade-off, with the chance level that all its settings share
    advantage_low: float
    advantage_high: float
    bound: float  # the highest upper end of any attack's interval, as an advantage
    leaks: bool | None  # some attack was shown to leak; None: no verdict, because too few users are asked about
    utility: float
    kept: float | None  # share of the undefended model's gain over a constant prediction; None: there is no clear gain
    kept_low: float | None  # over seeds
    kept_high: float | None
    matched: float | None  # the same after as many local steps as the undefended run; None where they are as many
    steps: float  # local steps, in units of the undefended run's
    seconds: float | None  # computing time of one update on its client, in the same units
    epsilon: float | None = None  # of the whole run, where a defence states one; the smallest of several
    best: bool  # nothing else keeps more utility and leaks less (the Pareto front)


class Tradeoff(msgspec.Struct, frozen=True, kw_only=True):
    """What stopping one adversary would cost."""

    adversary: str
    game: str
    metric: str
    chance: float  # of the strongest attack on the undefended run; every advantage is counted from it
    target: float  # an advantage, below which the upper bound must lie
    settings: list[Setting]  # none first, then the defences as the plan lists them
    advice: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of a sweep that could not be trained or attacked."""

    defence: dict[str, Any] | None
    adaptive: bool = False
    seed: int
    why: str

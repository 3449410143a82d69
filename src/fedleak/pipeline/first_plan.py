"""The first plan for data that nobody has described in one yet, with a comment on every choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedleak.core import counted
from fedleak.plan.toml_text import toml_key, toml_value
from fedleak.report.formatting import printable

__all__ = ["Choice", "FirstPlan", "federation_like", "title_of", "write_plan"]

_SEEDS = "seeds = [0, 1, 2]  # three runs, with other random choices: intervals are over users and runs"
_MANY = 150  # users above which a plan takes some of them
_SOME = 100
_CLIENTS = 8  # clients in a round, about


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting, and why it has this value."""

    value: Any
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPlan:
    """The tables of a plan: settings with reasons."""

    title: str
    tables: Mapping[str, Mapping[str, Choice]]
    attacks: Sequence[Mapping[str, Choice]]
    notes: Sequence[str] = ()  # what the user should know or may try
    optional: Sequence[str] = field(default=())  # lines to uncomment


def federation_like(users: int, *, text: bool) -> tuple[dict[str, Choice], dict[str, Choice]]:
    """Settings of [population] and [federation] that train in minutes, for so many users."""
    population = {}
    if users > _MANY:
        population["users"] = Choice(_SOME, f"of {users}, drawn by the seed: the audit takes less time; delete for all")
        users = _SOME
    # Every user has two clients: one with private data, one with what the adversary knows.
    fraction = min(1.0, max(0.1, round(_CLIENTS / (2 * users), 2)))
    federation = {
        "rounds": Choice(60 if text else 100, "set these to what your federation does"),
        "fraction": Choice(fraction, "share of the clients that take part in a round"),
        "batch": Choice(20 if text else 10),
        "lr": Choice(4.0 if text else 0.1, "learning rate of a client"),
    }
    if text:
        federation["clip"] = Choice(5.0, "of a local step's gradient, as is usual for recurrent models")
    return population, federation


def write_plan(plan: FirstPlan) -> str:
    """The text of the plan."""
    lines = [
        "# Written by `fedleak init`; every choice is yours to change. All keys: docs/reference/plan.md",
        *(f"# - {printable(note)}" for note in plan.notes),
        "",
        f"title = {toml_value(plan.title)}",
        *([] if "trace" in plan.tables else [_SEEDS]),
        "",
    ]
    for name, table in plan.tables.items():
        lines += [f"[{name}]", *_settings(table), ""]
    for attack in plan.attacks:
        lines += ["[[attack]]", *_settings(attack), ""]
    lines += [f"# {line}".rstrip() for line in plan.optional]
    return "\n".join(lines).rstrip() + "\n"


def _settings(table: Mapping[str, Choice]) -> list[str]:
    return [
        f"{toml_key(key)} = {toml_value(choice.value)}" + (f"  # {_comment(choice.why)}" if choice.why else "")
        for key, choice in table.items()
    ]


def _comment(text: str) -> str:
    """One line, whatever a column or a user is called."""
    return " ".join(printable(text).split())


def title_of(path: Path, users: int) -> str:
    """A title for the report; a plan that takes some of the users says how many elsewhere."""
    of = counted(users, "user") if users <= _MANY else "its users"
    return f"{path.name}: what do updates give away about {of}?"

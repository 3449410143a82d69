"""The keys of a plan, from the dataclasses that a plan is read into: docs/reference/plan.md as a whole."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

from fedleak import registry
from fedleak.plan.meaning import meaning
from fedleak.plan.plan import (
    AuditPlan,
    FederationPlan,
    ImprintPlan,
    InjectPlan,
    IsolatePlan,
    JoinPlan,
    PopulationPlan,
    PriorPlan,
    ProxyPlan,
    RecordPlan,
    TracePlan,
    TruthPlan,
)
from fedleak.plan.signoff_table import SignoffPlan

__all__ = ["plan_keys"]

_HEAD = """# Plan keys

Terms are defined in the [glossary](../glossary.md).

A plan is a TOML file. `fedleak check PLAN` validates it; `fedleak check PLAN --resolved` prints it with all defaults
filled in. Unknown keys are errors. This page is generated from the code (`make reference`).

## Top level

| key | type | default | meaning |
| --- | --- | --- | --- |
| `title` | text | the file's name | title of the report |
| `story` | text | empty | what is audited, in plain language, for readers who do not know the system |
| `seeds` | list of int >= 0 | `[0]` | everything is run once per seed; scores pool the seeds by user |
| `[full]` | table | none | keys of this plan that `--full` replaces, for instance `population = {users = 300}` |
| `[limits.GAME]` | table | none | scores that the lower end of an interval must not exceed (exit code 3) |
| `[limits.epsilon]` | table | none | `record`, `client`: the epsilon that a client of the deployed run may spend |

Limits are in a table for each game, for instance `[limits.identify]` with `ap = 0.3`. They apply to the undefended
run, or to the `[[defence]]` that is marked `deployed = true`.
Paths in a plan are relative to the folder in which `fedleak` is started.
"""

_TABLES = (
    ("population", PopulationPlan),
    ("federation", FederationPlan),
    ("trace", TracePlan),
    ("truth", TruthPlan),
    ("prior", PriorPlan),
    ("imprint", ImprintPlan),
    ("inject", InjectPlan),
    ("isolate", IsolatePlan),
    ("join", JoinPlan),
    ("proxy", ProxyPlan),
    ("record", RecordPlan),
    ("audit", AuditPlan),
    ("signoff", SignoffPlan),
)
_KINDS: tuple[tuple[str, registry.Kind, str], ...] = (
    (
        "[dataset]",
        "dataset",
        "Exactly one, or with `[trace]` none; `name` chooses it, the other keys are its settings. `name = "
        '"module:callable"` is your own data.',
    ),
    ("[model]", "model", 'Exactly one; `name = "module:callable"` is your own model.'),
    ("[[attack]]", "attack", "One or more."),
    (
        "[[game]]",
        "game",
        "Any number; the settings of the attacks' games. Every attack runs on each table of its game, or on the game "
        "with its defaults if there is none. All games of a plan are asked of the same trained federations "
        "([which games can share one](../decisions/0020-games-share-a-federation.md)). `adversaries = [...]` in a "
        "table gives its game to some of the adversaries in `[audit]` only.",
    ),
    (
        "[[analysis]]",
        "analysis",
        "Any number, each once; run on the undefended run after the attacks. `fedleak analyse` runs others.",
    ),
    (
        "[[defence]]",
        "defence",
        "Any number; each is an alternative that is audited separately. `also = [{name = ...}]` combines it with "
        "others, `deployed = true` marks the deployed one.",
    ),
)


def plan_keys() -> str:
    """The whole page."""
    parts = [_HEAD]
    for name, cls in _TABLES:
        parts.append(f"## `[{name}]`\n\n{summary(cls)}\n\n{table(cls)}")
    for heading, kind, text in _KINDS:
        parts.append(f"## `{heading}`\n\n{text}")
        for name in registry.names(kind):
            chosen: Any = registry.load(kind, name)
            parts.append(f"### `{name}`\n\n{summary(chosen)}\n\n{table(chosen)}")
    parts.append("## Adversaries\n\nNames for `adversaries` in `[audit]`.")
    rows = [f"| `{name}` | {registry.load('adversary', name).summary} |" for name in registry.names("adversary")]
    parts.append("\n".join(["| name | description |", "| --- | --- |", *rows]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def summary(cls: type[Any]) -> str:
    """The first paragraph of a docstring."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def table(cls: type[Any]) -> str:
    """One row per key."""
    rows = list(keys(cls))
    if not rows:
        return "No keys."
    return "\n".join(["| key | type | default | meaning |", "| --- | --- | --- | --- |", *rows])


def keys(cls: type[Any]) -> Iterator[str]:
    """The table rows of a dataclass's fields."""
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            default = "required"
        else:
            default = f"`{toml(field.default)}`" if field.default not in (None, ()) else "none"
        yield f"| `{field.name}` | {described_keys(hints[field.name])} | {default} | {meaning(hints[field.name])} |"


def toml(value: Any) -> str:
    """A default as it would be written in a plan."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def described_keys(kind: Any) -> str:
    """A type in words, with its range."""
    if hasattr(kind, "__metadata__"):
        bounds = [
            f"{sign} {value}"
            for meta in kind.__metadata__
            if isinstance(meta, Meta)
            for sign, value in ((">=", meta.ge), (">", meta.gt), ("<=", meta.le), ("<", meta.lt))
            if value is not None
        ]
        return " ".join([described_keys(get_args(kind)[0]), ", ".join(bounds)]).strip()
    origin = get_origin(kind)
    if origin is Literal:
        return " or ".join(f"`{toml(choice)}`" for choice in get_args(kind))
    if origin in (Union, types.UnionType):
        return " or ".join(described_keys(inner) for inner in get_args(kind) if inner is not type(None))
    if origin is tuple:
        return "list of " + described_keys(get_args(kind)[0])
    return {"str": "text", "float": "number"}.get(getattr(kind, "__name__", ""), getattr(kind, "__name__", str(kind)))

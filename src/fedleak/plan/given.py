"""Objects that stand in a plan where a table could: an attack, a defence, a data set, a model of one's own.

From Python a plan is a dict, and its components may be objects. One of a class that is registered is turned into the
table that means the same. Any other stays an object: it cannot cross into a worker process, because nothing that
Fedleak reads may execute, so such a plan runs in the process that made it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from fedleak import registry
from fedleak.errors import PlanError
from fedleak.plan.configure import to_dict
from fedleak.plan.content import content_digest

__all__ = ["given", "holds_object", "portable", "code_of"]

_LISTS = ("attack", "game", "defence", "analysis")  # of these a plan has any number

_NEEDED: Mapping[registry.Kind, tuple[str, ...]] = {
    "dataset": ("name", "load"),
    "model": ("name", "tasks", "reads", "build"),
    "attack": ("name", "summary", "game", "needs", "capabilities", "tasks", "run"),
    "game": tuple(
        [
            "name",
            "summary",
            "metrics",
            "needs_prior",
            "needs_evidence",
            "needs_owners",
            "allows_join",
            "strongest",
            "multiples",
            "legend",
            "controls",
            "note",
            "ask",
            "check",
            "headline",
            "detail",
            "figures",
        ]
    ),
    "defence": ("name", "summary", "on_update", "overrides", "clashes"),
    "analysis": ("name", "summary", "check", "run"),
}
_HINTS: Mapping[registry.Kind, str] = {
    "dataset": "see fedleak.Dataset and fedleak.ArrayDataset",
    "model": "give a torch module, or a function that builds one",
    "attack": "see fedleak.Attack",
    "game": "derive its class from fedleak.OptionGame or fedleak.BaseGame",
    "defence": "derive its class from fedleak.Defence",
    "analysis": "derive its class from fedleak.SweepAnalysis",
}


def given(kind: registry.Kind, value: Any, where: str) -> Any:
    """Check an object that stands in a plan, and return the component that it is."""
    if kind == "model" and callable(value) and not hasattr(value, "build"):
        own: Any = registry.load("model", "own")
        return own.of(value)
    if isinstance(value, type):
        raise PlanError(f"{where}: {value.__name__} is a class; give an object of it: {value.__name__}(...)")
    what = f"{where}: an object of class {type(value).__name__}"
    missing = [name for name in _NEEDED[kind] if not hasattr(value, name)]
    if len(missing) == len(_NEEDED[kind]):
        raise PlanError(f"{where}: expected a table with a name, or an object ({_HINTS[kind]}); got {value!r:.60}")
    if missing:
        raise PlanError(f"{what} cannot be used as {kind}: it has no {', '.join(missing)}; {_HINTS[kind]}")
    if not dataclasses.is_dataclass(value):
        raise PlanError(f"{what} has no settings to tell it by; make its class a frozen dataclass")
    registry.add(kind, type(value), what)
    return value


def holds_object(key: str, value: Any) -> bool:
    """Whether a key of a plan holds an object, or a list with one, instead of tables."""
    if key in _LISTS:
        return isinstance(value, list) and any(map(_is_object, value))
    return key in _NEEDED and _is_object(value)


def _is_object(value: Any) -> bool:
    """Whether a value is none that TOML could hold."""
    if isinstance(value, list):
        return any(map(_is_object, value))
    return not isinstance(value, (Mapping, str, int, float, datetime.date, datetime.time))


def portable(change: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a plan with every object of a registered class as the table that means the same."""
    for key in _LISTS:
        if dataclasses.is_dataclass(change.get(key)):
            raise PlanError(f"{key}: expected a list of objects or tables; write [{change[key]!r:.60}]")
    tables: dict[str, Any] = {kind: _portable(kind, change[kind]) for kind in _NEEDED if kind in change}
    return {**change, **tables}


def _portable(kind: registry.Kind, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_portable(kind, one) for one in value]
    if isinstance(value, (Mapping, type)) or not dataclasses.is_dataclass(value) or not hasattr(value, "name"):
        return value
    if not registry.has(kind, type(value)):
        return value
    table = to_dict(value)
    # In [[defence]] a list stands for alternatives.
    return value if kind == "defence" and any(isinstance(item, list) for item in table.values()) else table


def code_of(kind: registry.Kind, *components: Any) -> list[str]:
    """A digest of the code of each component whose class is not registered.

    With it, a class that was edited since does not get the results of what it was before.
    """
    return [content_digest(type(one)) for one in components if not registry.has(kind, type(one))]

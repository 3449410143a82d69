"""Turn a TOML table into a frozen dataclass, key by key, with errors that name file, table, key and fix."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from fedleak.errors import PlanError, did_you_mean
from fedleak.plan.content import content_digest

__all__ = ["configure", "to_dict"]

T = TypeVar("T")


def configure(cls: type[T], table: Any, where: str) -> T:
    """Build `cls` from a table.

    Unknown keys are checked first: msgspec, like others, silently accepts a misspelt key of a plain dataclass, and the
    run would then use a default that nobody chose.
    """
    if not isinstance(table, Mapping):
        raise PlanError(f"{where}: expected a table of keys, got {shown(table)}")
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    hints = get_type_hints(cls, include_extras=True)
    for key in table:
        if key not in fields:
            raise PlanError(f"{where}: unknown key '{key}'{did_you_mean(key, fields)}")
    for name, f in fields.items():
        if name not in table and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise PlanError(f"{where}: missing key '{name}'")
    return cls(**{key: convert(value, hints[key], f"{where} {key}") for key, value in table.items()})


def convert(value: Any, kind: Any, where: str) -> Any:
    """Check one value against its type and range."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PlanError(f"{where} = {value}: expected a finite number")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        # msgspec appends its own path ("- at `$[0]`"); the place in the plan is already in `where`.
        reason = str(error).split(" - at ")[0].replace("`", "")
        reason = reason[:1].lower() + reason[1:].replace("object", "table")
        if reason.startswith("invalid enum value"):
            reason = "no such choice" + did_you_mean(str(wrong(value, choices(kind))), choices(kind))
        raise PlanError(f"{where} = {shown(value)}: {reason}") from error


def choices(kind: Any) -> list[str]:
    """The values that a type with a Literal inside allows."""
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [choice for inner in get_args(kind) for choice in choices(inner)]


def wrong(value: Any, known: list[str]) -> Any:
    """The value, or the item of a list, that is not among the choices."""
    return next((item for item in value if item not in known), value) if isinstance(value, list) else value


def shown(value: Any) -> str:
    """A value as it would be written in TOML, shortened."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def to_dict(component: Any) -> dict[str, Any]:
    """The settings of a configured component as plain data, its registered name first.

    A setting that is not plain data (an array, a function) is replaced by a digest of its content.
    """
    name = getattr(type(component), "name", None)
    if hasattr(component, "plain_settings"):  # it holds too much to list
        fields = component.plain_settings()
    else:
        fields = {f.name: getattr(component, f.name) for f in dataclasses.fields(component)}
    # Through JSON and back, so that it compares equal to what is read from disk (a tuple becomes a list).
    settings: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fields, enc_hook=content_digest))
    return {"name": name, **settings} if isinstance(name, str) else settings

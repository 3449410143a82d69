"""Write TOML: what a command writes for its user to edit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["toml_key", "toml_table", "toml_value"]


def toml_table(name: str, settings: Mapping[str, Any], *, twice: bool = False) -> list[str]:
    """The lines of a table, or of one of several of the same name; none where there is nothing to set."""
    if not settings:
        return []
    head = f"[[{name}]]" if twice else f"[{name}]"
    return [head, *(f"{toml_key(key)} = {toml_value(value)}" for key, value in settings.items()), ""]


def toml_key(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else toml_value(key)


def toml_value(value: Any) -> str:
    """A value of TOML, for what TOML has read before."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {toml_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value) if isinstance(value, (int, float)) else str(value)

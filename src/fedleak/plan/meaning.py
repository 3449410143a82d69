"""What the settings of a component mean, from the descriptions in its annotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from msgspec import Meta

__all__ = ["meanings", "meaning"]


def meanings(cls: type[Any]) -> dict[str, str]:
    """The meaning of each setting that has a description."""
    hints = get_type_hints(cls, include_extras=True)
    found = {field.name: meaning(hints[field.name]) for field in dataclasses.fields(cls) if field.name in hints}
    return {name: text for name, text in found.items() if text}


def meaning(kind: Any) -> str:
    """What the description of a field says."""
    return next((meta.description for meta in _metas(kind) if meta.description), "")


def _metas(kind: Any) -> Iterator[Meta]:
    """Every annotation inside a type."""
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, Meta):
            yield meta
    for inner in get_args(kind):
        yield from _metas(inner)

"""The names of users instead of their pseudonyms, for those who may see them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedleak.errors import TraceError
from fedleak.results.audit import Audit
from fedleak.trace.pseudonyms import Pseudonyms, restored

__all__ = ["with_names"]


def with_names(audit: Audit, folder: Path) -> Audit:
    """The audit with users' names, which only the key beside the runs gives."""
    kept = Pseudonyms.open(Path(folder))
    if not kept.path.exists():
        raise TraceError(
            f"{kept.path} is missing, and nothing else says whose a pseudonym is; show names where the runs are, or "
            "run `fedleak score` there"
        )
    found = msgspec.convert(_restored(msgspec.to_builtins(audit), kept.names), Audit)
    return msgspec.structs.replace(found, named=True)


def _restored(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return restored(value, names)
    if isinstance(value, dict):
        return {key: _restored(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_restored(item, names) for item in value]
    return value

"""What exactly was audited: digests of the data, the plan and the code, which a reader can compare with their own."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import fedleak
from fedleak.plan.code import is_code
from fedleak.plan.plan import Plan
from fedleak.trace.run_facts import RunFacts

__all__ = ["versions"]


def versions(plan: Plan, facts: Sequence[RunFacts]) -> dict[str, str]:
    """SHA-256 of the data of all seeds, of the plan's file, of its settings with all defaults, and of the code."""
    data = [one.data for one in facts]
    own = sorted(set(_own_files(plan)))
    return {
        **({"data": _digest(msgspec.json.encode(data))} if all(data) else {}),
        **({"plan": _digest(plan.text.encode())} if plan.text else {}),
        "settings": _digest(msgspec.json.encode(plan.resolved, order="deterministic")),
        "fedleak": _package(),
        **({"own code": _digest(*(file.read_bytes() for file in own))} if own else {}),
    }


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


@cache
def _package() -> str:
    """Every source file of this installation, in the order of the names."""
    root = Path(fedleak.__file__).parent
    files = sorted(file for ending in ("*.py", "*.html", "*.css") for file in root.rglob(ending))
    return _digest(*(part for f in files for part in (f.relative_to(root).as_posix().encode(), f.read_bytes())))


def _own_files(plan: Plan) -> Iterator[Path]:
    """The files of code that does not come with Fedleak: components of other packages, and `module:callable`."""
    parts = [plan.dataset, plan.model, *plan.attacks, *plan.games, *plan.analyses]
    for part in (*parts, *(defence for chosen in plan.defences for defence in chosen)):
        if not type(part).__module__.startswith("fedleak."):
            try:
                yield Path(inspect.getfile(type(part)))
            except (TypeError, OSError):  # made in a notebook
                continue
    for named in _texts(plan.resolved):
        if is_code(named):
            try:
                found = importlib.util.find_spec(named.partition(":")[0])
            except (ImportError, ValueError):  # of a plan that was run elsewhere
                continue
            if found is not None and found.origin is not None and Path(found.origin).is_file():
                yield Path(found.origin)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)

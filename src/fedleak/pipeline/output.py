"""The output folder of an audit: which plan it belongs to, which analyses it holds, and how long they took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fedleak import registry
from fedleak.errors import TraceError
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.trace.files import private_folder, read_whole, write_atomic
from fedleak.trace.lock import locked

__all__ = ["ensure_owned", "working_in", "add_elapsed", "save_analysis", "analyses"]


class _Folder(msgspec.Struct, kw_only=True):
    """The description of an output folder."""

    title: str
    trained: dict[str, Any]
    seconds: float = 0.0


def ensure_owned(plan: Plan, out: Path) -> None:
    """Reject a folder of another plan; a plan may get more attacks, defences and seeds, but no other data."""
    path = out / "audit.json"
    if path.exists():
        found = _read(out)
        if found.trained == plan.trained:
            return
        if any((out / "runs").glob("*/*/trace/header.json")):
            raise TraceError(
                f"{out} holds the results of another plan ('{found.title}'); choose another folder with --out, "
                "or delete this one"
            )
        # Nothing was trained: the first attempt failed before that, and the plan has been fixed since.
    elif out.exists() and (not out.is_dir() or any(p.name != ".lock" for p in out.iterdir())):
        raise TraceError(f"{out} is not an output folder of Fedleak and is not empty; choose another with --out")
    private_folder(out)
    write_atomic(path, msgspec.json.encode(_Folder(title=plan.title, trained=plan.trained)))


@contextmanager
def working_in(plan: Plan, out: Path) -> Iterator[None]:
    """Hold the folder of this plan while a stage writes to it, and count the time that the stage takes."""
    ensure_owned(plan, out)
    with locked(out):
        started = time.monotonic()
        yield
        add_elapsed(out, time.monotonic() - started)


def _read(out: Path) -> _Folder:
    """Read the description of an output folder."""
    try:
        return msgspec.json.decode(read_whole(out / "audit.json"), type=_Folder)
    except msgspec.DecodeError as error:
        raise TraceError(f"{out / 'audit.json'} is damaged ({error}); choose another folder with --out") from error


def add_elapsed(out: Path, seconds: float) -> float:
    """Add to the seconds spent on this folder, over all attempts, and return the total."""
    found = _read(out)
    found.seconds += seconds
    write_atomic(out / "audit.json", msgspec.json.encode(found))
    return found.seconds


def save_analysis(found: Analysis, out: Path) -> Path:
    """Write an analysis next to the results, replacing an earlier one of the same name."""
    path = out / "analyses" / f"{found.name}.json"
    private_folder(path.parent)
    write_atomic(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return path


def analyses(out: Path) -> list[Analysis]:
    """Every analysis in this folder, in the order in which analyses are listed."""
    order = {name: place for place, name in enumerate(registry.names("analysis"))}
    paths = sorted((out / "analyses").glob("*.json"), key=lambda path: (order.get(path.stem, len(order)), path.stem))
    found = []
    for path in paths:
        try:
            found.append(msgspec.json.decode(read_whole(path), type=Analysis))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(f"{path} is damaged ({error}); delete it, or run `fedleak analyse {path.stem}`") from error
    return found

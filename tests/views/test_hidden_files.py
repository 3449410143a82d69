"""What an adversary does not see is not even opened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filmed import Run, everything, film

from fedleak.views.adversaries import Adversary, everyone
from fedleak.views.view import View

RUN = Run(6, ((0, 3, 5), (5, 1, 0), (2, 4, 3), (3, 0, 1)))

VISIBLE: dict[str, set[str]] = {
    "server": {
        "snapshots.bin",
        "aggregates.bin",
        "client.bin",
        "shadow.bin",
        "size.bin",
        "update-000.bin",
        "update-001.bin",
    },
    "anonymous-server": {"snapshots.bin", "aggregates.bin", "shadow.bin", "update-000.bin", "update-001.bin"},
    "insider": {"snapshots.bin"},
    "malicious-client": {"snapshots.bin"},
    "global-model-client": {"snapshots.bin"},
    "eavesdropper": {"snapshots.bin", "client.bin"},
    "aggregate-server": {"snapshots.bin", "aggregates.bin", "client.bin"},
    "enclave-server": {"snapshots.bin", "client.bin"},
    "model-user": {"snapshots.bin"},
}
# They can do more, not see more.
VISIBLE["active-server"] = VISIBLE["malicious-server"] = VISIBLE["server"]
VISIBLE["malicious-aggregate-server"] = VISIBLE["aggregate-server"]
PUBLIC = {"header.json", "log"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return film(tmp_path / "trace", RUN)


_opened: set[str] = set()
_watching: list[Path] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event == "open" and isinstance(arguments[0], str | Path):
        path = Path(arguments[0])
        if path.is_relative_to(_watching[0]):
            _opened.add(path.name)


@contextmanager
def _opened_files(folder: Path) -> Iterator[set[str]]:
    """Every file of a folder that the interpreter opens, by whatever way."""
    if not hasattr(_watch, "installed"):
        sys.addaudithook(_watch)  # stays for the life of the process, idle outside this block
        _watch.installed = True  # type: ignore[attr-defined]
    _opened.clear()
    _watching.append(folder)
    try:
        yield _opened
    finally:
        _watching.clear()


@pytest.mark.parametrize("adversary", everyone(), ids=lambda adversary: adversary.name)
def test_what_an_adversary_does_not_see_is_never_opened(trace: Path, adversary: Adversary) -> None:
    with _opened_files(trace) as opened:
        everything(View(trace, adversary))
    assert opened == VISIBLE[adversary.name] | PUBLIC


@pytest.mark.parametrize("adversary", everyone(), ids=lambda adversary: adversary.name)
def test_what_an_adversary_does_not_see_need_not_exist(trace: Path, adversary: Adversary) -> None:
    before = everything(View(trace, adversary))
    for path in trace.iterdir():
        if path.name not in VISIBLE[adversary.name] | PUBLIC:
            path.unlink()
    assert everything(View(trace, adversary)) == before

"""The plans that ship with Fedleak, found by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fedleak.errors import PlanError, did_you_mean

__all__ = ["folder", "names", "title", "find"]


def folder() -> Path:
    """The folder of the shipped plans: inside an installed package, or at the root of a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "plans"
    return installed if installed.is_dir() else package.parents[1] / "plans"


def names() -> list[str]:
    """Names of the shipped plans, for instance `demo`."""
    root = folder()
    return sorted(str(path.relative_to(root).with_suffix("")) for path in root.rglob("*.toml"))


def title(name: str) -> str:
    """The headline of a shipped plan; its tables are not read, because `fedleak list` shows every plan."""
    head, _, _ = (folder() / f"{name}.toml").read_text(encoding="utf-8").partition("\n[")
    return str(tomllib.loads(head)["title"])


def find(plan: str) -> Path:
    """A plan's path: a file if there is one, otherwise a shipped plan of that name."""
    path = Path(plan)
    if path.suffix == ".toml" or path.is_file():
        return path
    if plan in names():
        return folder() / f"{plan}.toml"
    raise PlanError(f"{plan}: neither a file nor a shipped plan{did_you_mean(plan, names())}")

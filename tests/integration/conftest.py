"""Every test below is marked `integration`, and collected only where its framework is installed."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DISTRIBUTIONS = {"flower": "flwr", "nvflare": "nvflare", "pfl": "pfl"}

# For this process and all that the tests start: no telemetry, and one thread each.
os.environ.update(
    FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0", OMP_NUM_THREADS="1"
)


def framework_of(path: Path) -> str | None:
    """The framework of a folder's tests; None for what needs none."""
    inside = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ()
    return inside[0] if inside and inside[0] in DISTRIBUTIONS else None


def installed(framework: str) -> bool:
    # By distribution, not by import: this folder is on the path, and its subfolders have the names of frameworks.
    try:
        importlib.metadata.distribution(DISTRIBUTIONS[framework])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of a framework that is not installed here."""
    framework = framework_of(collection_path)
    return True if framework is not None and not installed(framework) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; the hook is handed all that were collected."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)

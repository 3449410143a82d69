"""One recorded run and one audit of it, for all tests that only look."""

from __future__ import annotations

from pathlib import Path

import pytest
from clinic import ATTACKS, PLAN, record_run

from fedleak.api import Result, audit
from fedleak.plan.read import parse


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of twelve clinics."""
    return record_run(tmp_path_factory.mktemp("recorded") / "run")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shorter one."""
    return record_run(tmp_path_factory.mktemp("recorded") / "run", rounds=5, present=8)


@pytest.fixture(scope="session")
def audited(run: Path) -> Result:
    """The audit of that run."""
    out = run.parent / "out"
    return audit(parse((PLAN + ATTACKS).replace('"run"', f'"{run}"')), out, jobs=1)

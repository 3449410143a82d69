"""Fixtures that every room may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

# As in the product's own jobs: one thread in each process, so that tests do not fight over the cores.
torch.set_num_threads(1)

_BESIDE = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets; tests that need it skip where it is not."""
    folder = Path(os.environ.get("FEDLEAK_DATA") or _BESIDE)
    if not folder.is_dir():
        pytest.skip("the real data sets are not here: set FEDLEAK_DATA (see `fedleak data`)")
    return folder


@pytest.fixture
def find_real_data(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the product find the real data sets."""
    monkeypatch.setenv("FEDLEAK_DATA", str(real_data))

"""Fixtures that every room may use."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import traceback
from pathlib import Path

import pytest
import torch

from command_line import TINY, Run, command
from fedleak.cli.main import main
from fedleak.errors import FedleakError

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


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def fedleak(tmp_path: Path) -> Run:
    """Run the command line in this process, on one core: importing torch anew for every command would take minutes."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        if {"audit", "train", "attack", "analyse"} & set(words):
            words += ["--jobs", "1"]
        out, errors = io.StringIO(), io.StringIO()
        code = 0
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                main(words)
            except SystemExit as end:
                code = int(end.code or 0)
            except FedleakError:  # --debug lets it through
                traceback.print_exc()
                code = 1
        return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())

    return run


@pytest.fixture
def real_fedleak(tmp_path: Path) -> Run:
    """Run the real command in a process of its own, on all cores."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False
        )

    return run

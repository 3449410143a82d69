"""The command line, in this process or in one of its own."""

from __future__ import annotations

import contextlib
import io
import subprocess
import traceback
from pathlib import Path

import pytest

from fedleak.cli.main import main
from fedleak.errors import FedleakError
from story import TINY, Run, command


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
        if {"audit", "train", "attack"} & set(words):
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

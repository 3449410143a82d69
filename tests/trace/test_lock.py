from __future__ import annotations

import os
import signal
import stat
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from fedleak.errors import TraceError
from fedleak.trace.lock import locked
from recorded import processes


def _hold(folder: str, holding: Event, let_go: Event) -> None:
    with locked(Path(folder)):
        holding.set()
        let_go.wait(60)


def test_a_second_process_is_refused_with_the_first_ones_number_until_it_is_killed(tmp_path: Path) -> None:
    context = processes()
    holding, let_go = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(str(tmp_path), holding, let_go))
    process.start()
    assert holding.wait(60)
    with pytest.raises(TraceError, match=rf"in use by another run \(process {process.pid}\).*--out"), locked(tmp_path):
        pytest.fail("two processes write to one folder")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with locked(tmp_path):
        pass


def test_the_same_process_cannot_take_a_folder_twice_and_still_holds_it_after_trying(tmp_path: Path) -> None:
    with locked(tmp_path):
        for _ in range(2):
            with pytest.raises(TraceError, match=f"process {os.getpid()}"), locked(tmp_path / "."):
                pytest.fail("taken twice")
    with locked(tmp_path):
        pass


def test_the_folder_is_let_go_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path / "run"):
        raise RuntimeError
    with locked(tmp_path / "run"):
        assert stat.S_IMODE((tmp_path / "run" / ".lock").stat().st_mode) == 0o600

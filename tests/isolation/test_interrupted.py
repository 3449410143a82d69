"""An audit that is stopped in the middle of an attack leaves no process behind, and nothing that the next one keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
import cheats
import fedleak
plan = {{
    "seeds": [0],
    "dataset": {{"name": "digits", "users": 6}},
    "model": {{"name": "mlp"}},
    "federation": {{"rounds": 4, "fraction": 0.5, "centralised": False}},
    "audit": {{"controls": []}},
    "attack": [cheats.{attack}()],
}}
fedleak.audit(plan, out="out")
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An audit whose attack waits for ever."""
    script = SCRIPT.format(folder=str(Path(__file__).parent), attack="Sleeper")
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE
    )
    deadline, view = time.monotonic() + 60, "out/runs/plain/seed-0/.view-*/given.bin"
    # On a busy machine the view may be there long before the process that reads it.
    while not (list(tmp_path.glob(view)) and psutil.Process(process.pid).children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_attack_ends_with_the_audit_and_its_view_is_removed(
    started: subprocess.Popen[bytes], how: signal.Signals, tmp_path: Path
) -> None:
    family = psutil.Process(started.pid).children(recursive=True)
    assert list(tmp_path.glob("out/runs/plain/seed-0/.view-*"))
    os.kill(started.pid, how)
    started.wait(timeout=30)
    gone, alive = psutil.wait_procs(family, timeout=10)
    assert gone and not alive
    script = SCRIPT.format(folder=str(Path(__file__).parent), attack="Clock")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert not list(tmp_path.glob("out/runs/plain/seed-0/.view-*"))

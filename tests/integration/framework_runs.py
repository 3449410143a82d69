"""What a recorder wrote, put back together with its key, for tests to compare with what clients really sent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedleak.record.key import read_key
from fedleak.record.state import RecorderState
from fedleak.report.results_file import read_results
from fedleak.results.audit import Audit
from fedleak.trace.closed import Closed
from fedleak.trace.reader import Trace

Flat = dict[str, npt.NDArray[np.float32]]


def updates_by_name(run: Path, number: int) -> dict[str, Flat]:
    """The updates of a round, by the names that the framework gives its clients."""
    trace = Trace.open(run / "trace")
    node = {known.client: known.node for known in read_key(run / "key")}
    span = trace.span(number)
    clients = [node[trace.header.clients[index]] for index in trace.client[span]]
    rows = {layer.name: trace.updates(layer.name)[span] for layer in trace.header.layout}
    return {name: {layer: values[at] for layer, values in rows.items()} for at, name in enumerate(clients)}


def lost_by_name(run: Path) -> list[tuple[int, str, str]]:
    """Round, client and reason of everybody who was asked and did not answer."""
    node = {known.client: known.node for known in read_key(run / "key")}
    return [(note.round, node[note.client], note.why) for note in Trace.open(run / "trace").dropped()]


def flat(arrays: dict[str, npt.NDArray[np.float32]]) -> Flat:
    """Arrays by the names of torch, as the flat layers of a trace."""
    layers: dict[str, list[npt.NDArray[np.float32]]] = {}
    for name, values in arrays.items():
        layers.setdefault(name.rpartition(".")[0], []).append(values.reshape(-1))
    return {layer: np.concatenate(parts) for layer, parts in layers.items()}


def assert_private(run: Path, names: tuple[str, ...]) -> None:
    """Nobody else may read the recording, and only the key says who is who."""
    for folder in (run, run / "trace", run / "key"):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
    for path in run.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o777 == 0o600, path
            if path.parent.name != "key":
                assert not any(name.encode() in path.read_bytes() for name in names), path
    assert {known.node for known in read_key(run / "key")} == set(names)


def assert_closed(run: Path, rounds: int, reason: str = "") -> None:
    """The recording says that it is over."""
    closed = Closed.load(run / "trace")
    assert closed is not None and (closed.rounds, closed.reason) == (rounds, reason)
    state = RecorderState.load(run)
    assert (state.state, state.rounds, state.reason) == ("partial" if reason else "closed", rounds, reason)
    Trace.open(run / "trace").verify()


def assert_still_open(run: Path, rounds: int) -> None:
    """The recording was cut off, and keeps the rounds that were over."""
    assert Closed.load(run / "trace") is None and RecorderState.load(run).state == "recording"
    trace = Trace.open(run / "trace")
    trace.verify()
    assert trace.rounds == rounds


def audit(example: Path, run: Path, folder: Path) -> Audit:
    """Audit a recorded run with the plan of its example, by the command that its README gives."""
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(run, folder / "fedleak-run")
    for arguments in (["trace", "check", "fedleak-run"], ["audit", "audit.toml", "--out", "out", "--jobs", "1"]):
        done = subprocess.run(
            [sys.executable, "-m", "fedleak.cli.main", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return read_results(folder / "out")

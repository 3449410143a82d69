"""Whoever has the finished model has no other: not by its view, and not in the folder that its attacks can read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedleak.core import Observation
from fedleak.errors import NotVisible
from fedleak.games.traces.members import write_members
from fedleak.trace.reader import Trace
from fedleak.views.adversaries import GLOBAL_MODEL_CLIENT, MODEL_USER, everyone
from fedleak.views.export import export_view
from fedleak.views.view import View


def test_the_finished_model_and_no_other_reaches_the_model_user(tmp_path: Path) -> None:
    run = write_members(tmp_path / "run", 0, leak=True, users=4)
    trace = Trace.open(run / "trace")
    last = trace.snapshot(trace.rounds)
    view = View(run / "trace", MODEL_USER)
    with pytest.raises(NotVisible, match="snapshots"):
        view.snapshot(trace.rounds - 1)
    there = View(tmp_path / "seen", **export_view(view, tmp_path / "seen"))
    for one in (view, there):
        assert all(np.array_equal(values, last[name]) for name, values in one.final.items())
    before = trace.snapshot(trace.rounds - 1)["out"].tobytes()
    written = b"".join(path.read_bytes() for path in (tmp_path / "seen").rglob("*") if path.is_file())
    assert last["out"].tobytes() in written
    assert before not in written
    assert trace.snapshot(0)["out"].tobytes() not in written


def test_who_has_every_snapshot_has_the_finished_model(tmp_path: Path) -> None:
    run = write_members(tmp_path / "run", 0, leak=True, users=4)
    view = View(run / "trace", GLOBAL_MODEL_CLIENT)
    assert all(np.array_equal(view.final[name], values) for name, values in view.snapshot(view.rounds).items())
    for adversary in everyone():
        assert Observation.SNAPSHOTS not in adversary.observations or Observation.MODEL in adversary.observations

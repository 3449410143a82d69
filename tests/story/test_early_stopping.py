"""A run that ends when its validation loss no longer decreases is attacked and reported like any other."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import Run
from fedleak.trace.closed import Closed
from fedleak.trace.log import LOG
from fedleak.trace.reader import Trace
from pins import pins

MORE = """
audit = { adversaries = ["eavesdropper"], controls = ["decoys"] }
attack = [{ name = "exposure-baseline" }, { name = "eavesdrop" }]
"""


def test_an_audit_of_a_run_that_stopped_early(fedleak: Run, tmp_path: Path) -> None:
    plan = tmp_path / "early.toml"
    plan.write_text(
        pins(tmp_path, MORE).replace("clip = 1.0", 'clip = 1.0\nclip_by = "value"\nplateau = 2\npatience = 3')
    )
    assert fedleak("audit", plan, "--out", "out").returncode == 0
    trace = tmp_path / "out" / "runs" / "plain" / "seed-0" / "trace"
    closed = Closed.load(trace)
    assert closed is not None and closed.reason == "the validation loss stopped decreasing"
    assert Trace.open(trace).finished and closed.rounds == Trace.open(trace).rounds < 90
    assert json.loads((tmp_path / "out" / "results.json").read_text())["scores"]
    before = (trace / LOG).read_bytes()
    again = fedleak("audit", plan, "--out", "out")
    assert again.returncode == 0, again.stderr
    assert (trace / LOG).read_bytes() == before

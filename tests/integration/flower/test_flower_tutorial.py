"""The tutorial, command by command, on Ray; and its app on three SuperNodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")
pytest.importorskip("psutil")
from flower_processes import BIN, ROOT, Deployment, copy_example, kill_orphans, wait

from fedleak.record.key import read_key
from fedleak.trace.closed import Closed
from fedleak.trace.reader import Trace

PAGE = (ROOT / "docs" / "how-to" / "audit-a-flower-run.md").read_text(encoding="utf-8")
INSTALL, *COMMANDS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def environment(home: Path) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "FLWR_HOME": str(home)}


def run(command: str, app: Path, home: Path) -> str:
    words = ["bash", "-ec", command]
    for _ in range(4):
        done = subprocess.run(words, cwd=app, env=environment(home), capture_output=True, text=True, timeout=600)
        if "Failed to start local SuperLink" not in done.stderr + done.stdout:  # on a busy machine; the page says so
            break
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """The folder of the app after all commands of the page, and what each printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    app = copy_example(folder / "app")
    try:
        yield app, [run(command, app, folder / "home") for command in COMMANDS]
    finally:
        kill_orphans(folder / "home")


def test_the_page_has_the_plan_of_the_example() -> None:
    shown, *_ = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)  # another one is about secrets
    bare = [re.sub(r"\s*#.*", "", line) for line in shown.splitlines() if line]
    plan = [re.sub(r"\s*#.*", "", line) for line in (ROOT / "examples/flower-app/audit.toml").read_text().splitlines()]
    assert len(bare) > 10 and set(bare) <= set(plan)
    assert "constraints-flower.txt" in INSTALL and len(COMMANDS) == 4


def test_the_run_is_recorded_as_it_was(said: tuple[Path, list[str]]) -> None:
    run = said[0] / "fedleak-run"
    trace = Trace.open(run / "trace")
    trace.verify()
    assert trace.rounds == 12 and len(trace.client) == 120 and set(trace.size.tolist()) == {40} and trace.finished
    assert {layer.name for layer in trace.header.layout} == {"fc1", "fc2"}
    partitions = [known.partition for known in read_key(run / "key")]
    assert len(partitions) == len(set(partitions)) == 20 and set(partitions) == {str(n) for n in range(20)}


def test_the_audit_names_users_and_the_control_does_not(said: tuple[Path, list[str]]) -> None:
    app, printed = said
    assert re.search(r"^reid-strong +identify +can be run as anonymous-server", printed[1], re.MULTILINE)
    scores = json.loads((app / "audit" / "results.json").read_text())["scores"]
    named: dict[tuple[str, Any], Any] = {(s["attack"], s["control"]): s for s in scores if s["headline"]}
    assert named["reid-strong", None]["leaks"] and named["link-cosine", None]["leaks"]
    assert not named["reid-strong", "rotated-owners"]["leaks"]
    assert ("link-cosine", "rotated-owners") not in named, "whoever the users are, updates of one client are linked"


def test_the_plan_of_a_similar_federation_is_valid(said: tuple[Path, list[str]]) -> None:
    app = said[0]
    assert "[[defence]]" in (app / "similar.toml").read_text()
    assert "valid" in run("fedleak check similar.toml", app, app.parent / "home")


def test_the_example_on_three_supernodes(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    try:
        app = copy_example(tmp_path / "app")
        for partition in range(3):
            deployment.add_node(partition)
        deployment.run(app, **{"num-server-rounds": 2, "fraction-train": 1.0})
        wait(lambda: (tmp_path / "fedleak-run" / "trace" / "closed.json").exists(), 300, "the run is over")
    finally:
        deployment.stop()
    recorded = tmp_path / "fedleak-run"
    closed, trace = Closed.load(recorded / "trace"), Trace.open(recorded / "trace")
    assert closed is not None and not closed.reason and trace.rounds == 2 and len(trace.client) == 6
    recorded.rename(app / "fedleak-run")
    run("fedleak audit audit.toml --out audit", app, tmp_path / "home")
    scores = json.loads((app / "audit" / "results.json").read_text())["scores"]
    best = next(s for s in scores if s["headline"] and s["attack"] == "reid-strong" and s["control"] is None)
    assert best["users"] == 3 and best["leaks"] is None and best["verdict"].startswith("no verdict: 3 users")

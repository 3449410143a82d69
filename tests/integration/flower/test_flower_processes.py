# ruff: noqa: E402 - without Flower these tests are skipped
"""Runs of real processes: the example on Ray and on SuperNodes, and processes that are killed with -9 on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
pytest.importorskip("ray")
from flower_processes import Deployment, copy_example, kill_all, rounds, tiny_app, wait

from fedleak.record.key import read_key
from fedleak.record.state import RecorderState
from fedleak.trace.closed import Closed
from fedleak.trace.reader import Trace


def opened(folder: Path) -> Trace:
    trace = Trace.open(folder / "trace")
    trace.verify()
    return trace


def closed(folder: Path) -> bool:
    return Closed.load(folder / "trace") is not None


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    found = Deployment(tmp_path_factory.mktemp("deployment"))
    try:
        tiny_app(found.folder / "app")
        yield found
    finally:
        found.stop()


def test_the_example_on_ray(tmp_path: Path) -> None:
    simulation = Deployment(tmp_path, simulation=True)
    try:
        app = copy_example(tmp_path / "app")
        simulation.run(app, "--federation-config", "num-supernodes=20", **{"num-server-rounds": 3})
        wait(lambda: closed(tmp_path / "fedleak-run"), 180, "the run is over")
    finally:
        simulation.stop()
    trace = opened(tmp_path / "fedleak-run")
    assert trace.rounds == 3 and len(trace.client) == 30 and set(trace.size.tolist()) == {40}
    assert {layer.name for layer in trace.header.layout} == {"fc1", "fc2"}
    partitions = [known.partition for known in read_key(tmp_path / "fedleak-run" / "key")]
    assert len(partitions) == len(set(partitions)) and set(partitions) <= {str(n) for n in range(20)}


def test_a_killed_supernode_is_lost_and_the_run_goes_on(deployment: Deployment) -> None:
    folder = deployment.folder / "run"
    nodes = [deployment.add_node(partition) for partition in range(3)]
    hanging = deployment.folder / "hanging"
    deployment.run(deployment.folder / "app", folder=str(folder), rounds=4, hangs=2, hanging=str(hanging))
    wait(hanging.exists, 120, "the client of partition 2 is at work in round 2")
    kill_all(nodes[2])
    deployment.add_node(2)
    wait(lambda: closed(folder), 240, "the run is over")
    assert (deployment.folder / "run.finished").exists()  # the user's training went on to its end
    trace = opened(folder)
    assert trace.rounds == 4 and RecorderState.load(folder).state == "closed"
    by_client = {known.client: known.partition for known in read_key(folder / "key")}
    # On a busy machine others may be late, too; the killed one must be among the lost, under its own name or none yet.
    lost = {by_client[one.client]: one.why for one in trace.dropped() if one.round == 2}
    assert lost.get("2", lost.get(None)) in ("no reply in time", "the node is unavailable")
    answered = [by_client[trace.header.clients[int(index)]] for index in trace.client[trace.span(2)]]
    assert "2" not in answered
    for number in (1, 2, 3, 4):
        for row in range(trace.span(number).start, trace.span(number).stop):
            partition = by_client[trace.header.clients[int(trace.client[row])]]
            np.testing.assert_allclose(trace.updates("fc")[row], int(partition or -1) + 1, atol=1e-5)


def test_a_killed_serverapp_loses_no_round_and_a_second_run_appends(deployment: Deployment) -> None:
    folder = deployment.folder / "run"
    before = rounds(folder)
    deployment.run(deployment.folder / "app", folder=str(folder), rounds=50)
    wait(lambda: rounds(folder) >= before + 3, 180, "rounds of the second run")  # one leads back to the first model
    os.kill(deployment.server_app().pid, signal.SIGKILL)
    killed = rounds(folder)
    assert killed >= before + 3 and not closed(folder)
    opened(folder)
    deployment.run(deployment.folder / "app", folder=str(folder), rounds=1)
    wait(lambda: closed(folder), 180, "the third run is over")
    trace = opened(folder)
    # The server begins with its first model again, zeros: a round without clients leads there, if it was elsewhere.
    elsewhere = bool(trace.snapshot(killed)["fc"].any())
    assert trace.rounds == killed + 1 + elsewhere and trace.rounds == RecorderState.load(folder).rounds


def test_a_killed_superlink_loses_no_round(deployment: Deployment) -> None:
    folder = deployment.folder / "other"
    deployment.run(deployment.folder / "app", folder=str(folder), rounds=50)
    wait(lambda: rounds(folder) >= 2, 180, "two rounds")
    os.kill(deployment.superlink.pid, signal.SIGKILL)
    assert opened(folder).rounds >= 2

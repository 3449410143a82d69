# ruff: noqa: E402 - without psutil these tests are skipped
"""Real Flower processes on loopback: a SuperLink with or without SuperNodes, and apps that are run on them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

psutil = pytest.importorskip("psutil")

from fedleak.errors import FedleakError
from fedleak.trace.reader import Trace

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "flower-app"
BIN = Path(sys.executable).parent

_APP = """
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from fedleak.record.flower import identify, record

client = ClientApp(mods=[identify])
server = ServerApp()


@client.train()
def train(message, context):
    partition = int(context.node_config["partition-id"])
    if partition == int(context.run_config["hangs"]) and message.content["config"]["server-round"] == 2:
        Path(str(context.run_config["hanging"])).touch()
        time.sleep(120)
    values = message.content["arrays"]["fc.weight"].numpy() + np.float32(partition + 1)
    content = RecordDict({
        "arrays": ArrayRecord({"fc.weight": Array(values)}),
        "metrics": MetricRecord({"num-examples": 10 * (partition + 1)}),
    })
    return Message(content, reply_to=message)


@server.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    strategy = record(strategy, str(context.run_config["folder"]))
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"fc.weight": Array(np.zeros((4, 5), np.float32))}),
        num_rounds=int(context.run_config["rounds"]),
        timeout=30,
    )
    Path(str(context.run_config["folder"]) + ".finished").touch()
"""

_PROJECT = """
[project]
name = "tiny"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr"]
[tool.flwr.app]
publisher = "example"
[tool.flwr.app.components]
serverapp = "tiny.app:server"
clientapp = "tiny.app:client"
[tool.flwr.app.config]
folder = "run"
rounds = 2
hangs = -1
hanging = "hanging"
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tiny_app(folder: Path) -> Path:
    """An app without torch, whose processes start quickly."""
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "__init__.py").touch()
    (folder / "tiny" / "app.py").write_text(_APP)
    (folder / "pyproject.toml").write_text(_PROJECT)
    return folder


class Deployment:
    """A SuperLink, and whatever SuperNodes are added to it; `stop` leaves none of them behind."""

    def __init__(self, folder: Path, *, simulation: bool = False) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }
        self.started: list[subprocess.Popen[bytes]] = []
        words = ["--insecure", "--host", "127.0.0.1", "--port", self.port, "--disable-runtime-dependency-installation"]
        self.superlink = self._start("flower-superlink", *words, *(["--simulation"] if simulation else []))
        wait(lambda: _listens(self.port), 60, "the SuperLink listens")

    def add_node(self, partition: int, of: int = 3) -> subprocess.Popen[bytes]:
        return self._start(
            "flower-supernode",
            *("--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", free_port()),
            *("--node-config", f"partition-id={partition} num-partitions={of}"),
        )

    def run(self, app: Path, *options: str, **config: Any) -> None:
        settings = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        words = [str(BIN / "flwr"), "run", str(app), "here", "--run-config", settings, *options]
        done = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    def server_app(self) -> Any:
        """The process that the ServerApp runs in."""
        children = psutil.Process(self.superlink.pid).children(recursive=True)
        return next(child for child in children if any("flwr-serverapp" in word for word in _words(child)))

    def stop(self) -> None:
        for process in reversed(self.started):
            kill_all(process)
        kill_orphans(self.folder / "home")

    def _start(self, program: str, *words: object) -> subprocess.Popen[bytes]:
        with (self.folder / f"{program}-{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [BIN / program, *map(str, words)],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process


def _words(process: Any) -> list[str]:
    """The command line of a process, none if it has ended meanwhile."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie is one, too
        return []


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started, with -9."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        family = []
    for one in family:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait(30)


def kill_orphans(home: Path) -> None:
    """Kill what was started with this FLWR_HOME, also where the process that started it is gone."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("FLWR_HOME") == str(home):
                process.kill()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def rounds(folder: Path) -> int:
    """How many rounds a trace holds that is being written."""
    try:
        return Trace.open(folder / "trace").rounds
    except (FedleakError, OSError):
        return 0


def wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} seconds")
        time.sleep(0.2)


def copy_example(folder: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("fedleak-run", "__pycache__")))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

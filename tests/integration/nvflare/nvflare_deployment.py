"""A provisioned deployment of NVFlare on loopback: a server and clients, each a process started by its startup kit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedleak.errors import FedleakError
from fedleak.trace.reader import Trace

BIN = Path(sys.executable).parent
ADMIN = "admin@example.org"
RUNNER = "nvflare.private.fed.app.server.runner_process"  # the process of a job on the server


class Deployment:
    """The project of a file, provisioned and started; `stop` leaves no process of it behind."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",  # startup kits call `python3`
            "HOME": str(folder / "home"),  # NVFlare's command keeps its settings there
        }
        (folder / "home").mkdir(parents=True)
        (folder / "project.yml").write_text(project.read_text().replace("8002", str(_free_port())))
        self._run("provision", "-p", "project.yml", "-w", "workspace", "--force")
        [self.kits] = (folder / "workspace").glob("*/prod_00")
        self.server = self.kits / "localhost"
        self.sites = sorted(kit.name for kit in self.kits.iterdir() if kit.name not in ("localhost", ADMIN))
        self.resources = self.server / "local" / "resources.json"
        # By default a server keeps its jobs in /tmp/nvflare, where two servers of one machine would meet.
        default = self.resources.with_name("resources.json.default").read_text()
        self.resources.write_text(default.replace("/tmp/nvflare", str(folder / "storage")))
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for kit in ("localhost", *self.sites):
            with (self.folder / f"{kit}.log").open("wb") as log:
                # What start.sh runs; with --once it neither goes to the background nor restarts what ended.
                process = subprocess.Popen(
                    [self.kits / kit / "startup" / "sub_start.sh", "--once"],
                    env=self.environment,
                    cwd=self.folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._started.append(process)
        wait(self._ready, 120, "the server knows all clients")

    def submit(self, job: Path) -> str:
        return str(self._admin("job", "submit", "-j", str(job))["data"]["job_id"])

    def wait_for_end(self, job: str, seconds: float) -> str:
        """How the job ended, or why that is not known."""
        answer = self._admin("job", "wait", job, "--timeout", str(seconds), "--interval", "1")
        data = answer.get("data") or {}
        return str(data.get("status", answer))

    def job_log(self, job: str) -> str:
        return (self.server / job / "log.txt").read_text()

    def kill_job(self, job: str) -> None:
        """End the server's process of a job, and nothing else, with -9."""
        [process] = [pid for pid, words in processes_of(self.folder).items() if RUNNER in words and job in words]
        os.kill(process, signal.SIGKILL)
        wait(lambda: process not in processes_of(self.folder), 10, "the job's process is gone")

    def stop(self) -> None:
        for process in self._started:
            process.kill()
            process.wait(30)
        for pid in processes_of(self.folder):  # of jobs, which are in sessions of their own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _ready(self) -> bool:
        log = (self.folder / "localhost.log").read_text()
        return all(f"client {site} registered" in log for site in self.sites)

    def _admin(self, *words: str) -> dict[str, Any]:
        """What a command of the admin answers; on a busy machine it may take several attempts to be let in."""
        for _ in range(10):
            printed = self._run("--format", "json", *words, "--startup-kit", str(self.kits / ADMIN), may_fail=True)
            answer: dict[str, Any] = json.loads(printed)
            if answer.get("error_code") != "CONNECTION_FAILED":
                break
        return answer

    def _run(self, *words: str, may_fail: bool = False) -> str:
        command = [str(BIN / "nvflare"), *words]
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=600, check=False
        )
        assert may_fail or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout


def processes_of(folder: Path) -> dict[int, list[str]]:
    """Processes whose command names this folder, which no other test has, and their words."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if f"{folder}/".encode() in words and int(entry.name) != os.getpid():
            found[int(entry.name)] = words.decode(errors="replace").split("\0")
    return found


def rounds(run: Path) -> int:
    """How many rounds a recording holds that is being written."""
    try:
        return Trace.open(run / "trace").rounds
    except (FedleakError, OSError):
        return 0


def wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} seconds")
        time.sleep(0.3)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""The process that an attack runs in: it confines itself before it reads or imports anything of the attack's."""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.core import rng_for
from fedleak.errors import FedleakError
from fedleak.sandbox import encode
from fedleak.sandbox.confine import confine
from fedleak.sandbox.own_code import FindByFile, installation
from fedleak.views.view import View

__all__ = ["AttackJob", "VIEW", "SCRATCH", "RESULT", "run_job", "message"]

VIEW, SCRATCH, RESULT = "view", "scratch", "predictions.npy"
_SPARE = 1 << 30  # bytes beyond the memory for updates: what an attack needs to compute with them
_LONGEST = 2000  # characters of an error message


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackJob:
    """What a process is told before it runs an attack: plain data only."""

    folder: str  # everything that the attack is given
    modules: dict[str, str]  # by name, the file of each module outside the installation that may be imported
    packages: tuple[str, ...]  # folders of code that may be read as a whole
    memory: int  # MB
    minutes: float  # of computing time


def run_job(job: AttackJob, say: Callable[[dict[str, Any]], None]) -> None:
    """Confine this process, run the attack and write its predictions; `say` sends a message to who waits for them."""
    folder = Path(job.folder)
    _limit(job)
    os.environ.clear()
    os.environ["TMPDIR"] = str(folder / SCRATCH)
    found = confine(
        [*installation(), *map(Path, [*job.modules.values(), *job.packages]), folder],
        [folder / SCRATCH, Path(os.devnull)],
    )
    say({"confined": str(found) if found.complete else ""})
    try:
        sys.meta_path.insert(0, FindByFile(job.modules))
        predictions = _predictions(folder, lambda share: say({"progress": share}))
    except MemoryError:
        say({"error": "memory", "text": ""})
    except FedleakError as error:
        say({"error": type(error).__name__, "text": str(error)[:_LONGEST]})
    except BaseException as error:
        if "allocate memory" in str(error):  # torch has no error of its own for it
            say({"error": "memory", "text": ""})
            return
        say({"error": "failed", "text": _told(error)[:_LONGEST]})
    else:
        with open(folder / SCRATCH / RESULT, "wb") as file:
            np.save(file, predictions, allow_pickle=False)
        say({"done": True})


def _predictions(folder: Path, tick: Callable[[float], None]) -> Any:
    given = encode.load(folder)
    view = View(folder / VIEW, **given["view"])
    done = 0.0

    def add(share: float) -> None:
        nonlocal done
        done = min(1.0, done + share)
        tick(done)

    context = AttackContext(
        rng_for(given["seed"], "attack"), memory=given["memory"], workers=given["workers"], tick=add
    )
    return np.asarray(given["attack"].run(view, given["prior"], given["questions"], context))


def _limit(job: AttackJob) -> None:
    """A process that takes more than it may is stopped by the kernel; Python sees it as a MemoryError."""
    used = 0
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
        used = pages * os.sysconf("SC_PAGE_SIZE")
    most = used + (job.memory << 20) + _SPARE
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    seconds = max(1, round(60 * job.minutes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a memory dump would be written outside


def _told(error: BaseException) -> str:
    """What went wrong, and in which line of the attack's code."""
    place = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(place[-1].filename).name}, line {place[-1].lineno})" if place else ""
    return f"{type(error).__name__}: {error}{where}"


def message(data: dict[str, Any]) -> bytes:
    """A message as it is sent: JSON on one line, so that whoever receives it executes nothing."""
    return json.dumps(data).encode() + b"\n"

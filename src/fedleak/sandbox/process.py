"""Hand an attack over to a process of its own, and take its predictions back."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from fedleak import errors, registry
from fedleak.attacks.attack import Attack
from fedleak.core import UserId
from fedleak.errors import AttackError, AttackStopped, FedleakError
from fedleak.games.game import Predictions, Questions
from fedleak.sandbox import encode
from fedleak.sandbox.confined import RESULT, SCRATCH, VIEW, AttackJob
from fedleak.sandbox.fork_server import fork_server, without_main
from fedleak.sandbox.own_code import installation, loaded_code
from fedleak.sandbox.zygote import FROM_ZYGOTE, fork_zygote, request, serve
from fedleak.trace.files import private_folder
from fedleak.trace.prior import Prior
from fedleak.views.export import export_view
from fedleak.views.view import View

__all__ = [
    "Budget",
    "Isolated",
    "UNCONFINED",
    "attack_in_process",
    "remove_stale",
    "rename",
    "start_zygote",
]

_PREFIX = ".view-"
_LONGEST = 1 << 20  # bytes of a message that are looked at
UNCONFINED = "process"  # of its own, but not confined: this system has no Landlock, or does not let it be used


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What an attack may use of the machine."""

    memory: int = 2000  # MB of updates that it may hold; the process may take 1 GB more
    minutes: float = 120.0  # of computing time
    workers: int = 1  # threads


@dataclass(frozen=True, slots=True)
class Isolated:
    """The predictions of an attack, and how it was kept from everything else."""

    predictions: Predictions
    confined: str  # by which features of the system; empty: it had a process of its own, but could read files
    seconds: float  # of computing
    memory: int = 0  # bytes that its process held at most


class _Zygote:
    """The zygote of this process, and the connection to it."""

    def __init__(self, connection: Connection, owner: int, stop: Callable[[], None]) -> None:
        self.connection, self.owner, self._stop = connection, owner, stop

    def close(self) -> None:
        self.connection.close()
        self._stop()


_current: _Zygote | None = None
_lock = threading.Lock()


def start_zygote() -> None:
    """Fork the zygote of a worker process, which must not hold anything yet."""
    global _current
    mine, theirs = multiprocessing.Pipe()
    number = fork_zygote(mine, theirs)

    def stop() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(number, 0)

    _current = _Zygote(mine, os.getpid(), stop)


def attack_in_process(
    attack: Attack,
    view: View,
    prior: Prior,
    questions: Questions,
    seed: int,
    beside: Path,
    budget: Budget,
    progress: Callable[[float], None],
    withheld: Collection[str] = (),
) -> Isolated:
    """Run an attack in a process that holds its view, its prior data and the questions, and nothing else.

    `beside` is a folder on the file system of the trace, below which the view is written for the time of the attack.
    `withheld` are modules that hold users' data, which it may not import.
    """
    # Resolved: the process that forks the attack may have been started in another folder.
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=beside)).resolve()
    try:
        private_folder(folder / SCRATCH)
        renamed, asked = rename(prior, questions)
        encode.save(
            folder,
            {
                "attack": attack,
                "view": export_view(view, folder / VIEW),
                "prior": renamed,
                "questions": asked,
                "seed": seed,
                "memory": budget.memory,
                "workers": budget.workers,
            },
        )
        _import_own(view)
        modules, packages = _code(attack, questions, *view.defences)
        modules = {name: file for name, file in modules.items() if name not in withheld}
        job = AttackJob(
            folder=str(folder), modules=modules, packages=packages, memory=budget.memory, minutes=budget.minutes
        )
        confined, seconds, memory = _converse(attack.name, job, budget, progress)
        if any(folder.is_relative_to(place) for place in installation()):
            confined = ""  # the audit lies among the code that every process may read
        return Isolated(_read(folder / SCRATCH / RESULT, attack.name), confined, seconds, memory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Delete the views that a killed process left in a folder which no other process works in."""
    for left in folder.glob(f"{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def rename(prior: Prior, questions: Questions) -> tuple[Prior, Questions]:
    """Candidates under names that lead nowhere: those of a data set would lead to the rest of their data on disk."""
    names = {str(user): f"candidate-{place:04}" for place, user in enumerate(prior.candidates)}
    examples = tuple(
        replace(one, album=_numbered(one.album), document=_numbered(one.document)) for one in prior.examples
    )
    told = replace(prior, candidates=tuple(UserId(names[str(user)]) for user in prior.candidates), examples=examples)
    return told, replace(questions, options=tuple(names.get(option, option) for option in questions.options))


def _numbered(column: Any) -> Any:
    """Documents and albums by their order here, not by their place in the data set."""
    return None if column is None else np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _import_own(view: View) -> None:
    """Import the user's own model and training here, so that the process may read the files of their modules.

    Only the modules that this loads, not their whole packages: those may hold the users' data.
    """
    target = getattr(view.own_model, "target", None)
    for name in filter(None, (target, view.own_training)):
        registry.resolve_own(name)


def _code(*objects: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Code outside the installation: every module that this process has loaded, and the objects' whole packages."""
    own = loaded_code()
    tops = {type(one).__module__.partition(".")[0] for one in objects}
    packages = [file for name, file in own.items() if name in tops and file.endswith("__init__.py")]
    return own, tuple(str(Path(file).parent) for file in packages)


def _converse(attack: str, job: AttackJob, budget: Budget, progress: Callable[[float], None]) -> tuple[str, float, int]:
    """Send the job to the zygote and listen; returns by what the process was confined, and what it used."""
    confined: str | None = None
    error, finished, rest = None, False, b""
    with _lock, _ready() as connection:
        connection.send_bytes(request(job))
        while True:
            try:
                received = connection.recv_bytes()
            except (EOFError, OSError) as gone:
                raise _Gone(f"attack '{attack}': its process is gone; rerun the same command to resume") from gone
            if received.startswith(FROM_ZYGOTE):
                ended = _parse(received[1:])
                _require(attack, ended, error, finished, budget)
                return confined or "", float(ended["seconds"]), int(ended["memory"])
            *lines, rest = (rest + received[1:])[-_LONGEST:].split(b"\n")
            for said in map(_parse, lines):
                if confined is None:  # the first message, before any code of the attack's is run
                    confined = str(said.get("confined", ""))[:80]
                finished = finished or said.get("done") is True
                error = said if "error" in said else error
                if isinstance(share := said.get("progress"), float) and 0 <= share <= 1:
                    progress(share)


class _Gone(AttackError):
    """The zygote itself has ended."""


def _parse(line: bytes) -> dict[str, Any]:
    """One message; what an attack may have written there instead is ignored."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _require(attack: str, ended: dict[str, Any], error: dict[str, Any] | None, finished: bool, budget: Budget) -> None:
    kind, text = (str(error.get("error")), str(error.get("text"))) if error else ("", "")
    if kind == "memory":
        raise AttackError(
            f"attack '{attack}' needs more memory than it may use ({budget.memory} MB for updates and 1 GB to compute "
            "with); raise memory ([audit] in the plan)"
        )
    if kind == "failed":
        raise AttackError(f"attack '{attack}' failed: {text}")
    if kind:
        known = getattr(errors, kind, AttackError)
        raise (known if isinstance(known, type) and issubclass(known, FedleakError) else AttackError)(text)
    if ended.get("late") or ended["exit"] == -signal.SIGXCPU:
        raise AttackStopped(
            f"attack '{attack}' was stopped after {budget.minutes:g} minutes of computing; raise minutes ([audit] in "
            "the plan)"
        )
    if not finished:
        raise AttackError(
            f"attack '{attack}' ended without predictions (exit {ended['exit']}); perhaps memory ran out. Rerun the "
            "same command to resume (--jobs 1 needs less memory)"
        )


def _read(path: Path, attack: str) -> Predictions:
    """Read predictions from a process that is not trusted."""
    if path.is_symlink() or not path.is_file():
        raise AttackError(f"attack '{attack}' left no predictions")
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return np.array(mapped)
    except (ValueError, OSError, EOFError) as error:
        raise AttackError(f"attack '{attack}' left predictions that are no array of numbers") from error


@contextmanager
def _ready() -> Iterator[Connection]:
    """The connection to this process's zygote, which is started if there is none; an interrupted one is stopped."""
    global _current
    if _current is None or _current.owner != os.getpid():
        _current = _from_fork_server()
    done = False
    try:
        yield _current.connection
        done = True
    except FedleakError as error:
        done = not isinstance(error, _Gone)
        raise
    finally:
        if not done:
            _current.close()
            _current = None


def _from_fork_server() -> _Zygote:
    context = fork_server()
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    with without_main():
        process.start()
    theirs.close()

    def stop() -> None:
        process.kill()
        process.join(timeout=10)

    return _Zygote(mine, os.getpid(), stop)

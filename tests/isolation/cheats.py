"""Attacks that cheat: each looks for the answers where an adversary has no business, and guesses if it finds none.

They are what a hostile, or merely clever, plugin could try. None is of use against a federation.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, FloatArray, Observation, Task, rng_for
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

EVERYWHERE = (OSError, ValueError, AttributeError, KeyError, TypeError, RuntimeError, ReferenceError)


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """Base of them all: a perfect answer if the right options are found, noise otherwise."""

    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES | Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    name: ClassVar[str] = "cheat"
    summary: ClassVar[str] = "Cheats."

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        scores = context.rng.random((len(questions), len(questions.options))).astype(np.float32)
        try:
            right = self.peek(view, prior, questions, context)
        except EVERYWHERE:
            right = None
        if right is not None and len(right) == len(scores):
            scores[np.arange(len(scores)), right] += 2
        return scores

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        """The right option of each question, or None."""
        raise NotImplementedError


def answers_in(objects: Any, questions: Questions) -> Any:
    """The answers of the game, if they are among these objects."""
    for one in objects:
        for held in (one, getattr(one, "answers", None)):
            right = getattr(held, "right", None)
            if isinstance(right, np.ndarray) and right.shape == (len(questions),):
                return right
    return None


def from_truth(text: str, prior: Prior, questions: Questions, view: View) -> Any:
    """With the truth, and the trace that lies beside it, the rest is bookkeeping."""
    known = json.loads(text)["content"]["client_user"]
    folder = next(path for path in _above(view) if (path / "truth").is_dir())
    from fedleak.trace.reader import Trace

    trace = Trace.open(folder / "trace")
    users = [known[name] for name in trace.header.clients]
    place = {users[i]: shadow for i, shadow in enumerate(trace.header.shadow) if shadow >= 0}
    return np.array([place[users[int(trace.client[row])]] for row in questions.updates])


def _above(view: View) -> Iterator[Path]:
    mapped = view.updates.layer(view.layout[0].name)
    start = Path(str(getattr(mapped, "filename", None) or view._trace.folder))
    yield from start.parents


class Frames(Cheat):
    """Reads the variables of whoever called it."""

    name: ClassVar[str] = "cheat-frames"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            found = answers_in(list(frame.f_locals.values()), questions)
            if found is not None:
                return found
            frame = frame.f_back  # type: ignore[assignment]
        return None


class Garbage(Cheat):
    """Asks the garbage collector for every object in memory."""

    name: ClassVar[str] = "cheat-gc"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for one in gc.get_objects():
            if type(one).__name__ in ("Answers", "GameInstance", "AttackResult"):
                found = answers_in([one], questions)
                if found is not None:
                    return found
        return None


class Memmap(Cheat):
    """Goes from the file behind an array to the truth beside it."""

    name: ClassVar[str] = "cheat-memmap"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for folder in _above(view):
            with contextlib.suppress(OSError):
                return from_truth((folder / "truth" / "truth.json").read_text(), prior, questions, view)
        return None


class Shell(Cheat):
    """Lets another program read the truth."""

    name: ClassVar[str] = "cheat-shell"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for folder in _above(view):
            for shell in ("/bin/sh", "/usr/bin/sh"):
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    text = subprocess.run(
                        [shell, "-c", f"cat '{folder}/truth/truth.json'"], capture_output=True, check=True, timeout=5
                    ).stdout
                    return from_truth(text.decode(), prior, questions, view)
        return None


class Descriptors(Cheat):
    """Reads every file that is open already."""

    name: ClassVar[str] = "cheat-descriptors"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for number in range(256):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                # At an offset: reading from the start would let whatever writes a log there write over it.
                text = os.pread(number, 1 << 20, 0).decode()
                if "client_user" in text:
                    return from_truth(text, prior, questions, view)
        return None


class Proc(Cheat):
    """Looks for the audit among the processes and their command lines, and reads the parent's memory map."""

    name: ClassVar[str] = "cheat-proc"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        mapped = view.updates.layer(view.layout[0].name)  # so that its file is in the memory map
        assert len(mapped)
        for process in ("self", str(os.getppid())):
            for what in ("environ", "maps", "cmdline", "mountinfo"):
                with contextlib.suppress(OSError):
                    text = Path(f"/proc/{process}/{what}").read_bytes().decode(errors="replace")
                    for folder in re.findall(r"/[\w./-]+", text):
                        for place in Path(folder).parents:
                            if (place / "truth" / "truth.json").exists():
                                return from_truth((place / "truth" / "truth.json").read_text(), prior, questions, view)
        return None


class Environment(Cheat):
    """Finds the folder of the truth in an environment variable."""

    name: ClassVar[str] = "cheat-environment"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for value in os.environ.values():
            with contextlib.suppress(OSError):
                return from_truth((Path(value) / "truth.json").read_text(), prior, questions, view)
        return None


@dataclass(frozen=True, kw_only=True)
class Sockets(Cheat):
    """Asks an accomplice on this machine, over TCP or a socket in the file system."""

    name: ClassVar[str] = "cheat-sockets"
    port: int = 0
    path: str = ""

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for family, address in ((socket.AF_INET, ("127.0.0.1", self.port)), (socket.AF_UNIX, self.path)):
            with contextlib.suppress(OSError), socket.socket(family) as asked:
                asked.settimeout(5)
                asked.connect(address)
                return json.loads(asked.makefile().readline())
        return None


class ParentMemory(Cheat):
    """Copies the memory of the process that started it."""

    name: ClassVar[str] = "cheat-memory"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        libc = ctypes.CDLL(None, use_errno=True)
        attached = libc.ptrace(16, os.getppid(), 0, 0)  # PTRACE_ATTACH
        if attached == 0:
            os.waitpid(os.getppid(), 0)
        with open(f"/proc/{os.getppid()}/mem", "rb") as memory:
            return answers_in([memory], questions)


class SmallSeeds(Cheat):
    """Tries seeds until one gives the initial weights or the generator's state, then draws the clients again."""

    name: ClassVar[str] = "cheat-seeds"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        model, start = model_of(view), view.snapshot(0)
        state: Mapping[str, Any] = context.rng.bit_generator.state["state"]
        for seed in range(50):
            weights = model.init(rng_for(seed, "weights"))
            same = all(np.array_equal(weights[name], start[name]) for name in start)
            handed = rng_for(seed, "attack", self.name, view.adversary.name).bit_generator.state["state"]
            if same or handed == state:
                return self._again(seed, view, prior, questions)
        return None

    def _again(self, seed: int, view: View, prior: Prior, questions: Questions) -> Any:
        count = 2 * len(prior.candidates)
        rng = rng_for(seed, "devices")
        rng.choice(16**6, count, replace=False)
        places = rng.permutation(count)
        rows: list[int] = []
        for number in range(1, view.rounds + 1):
            present = int((view.updates.round == number).sum())
            rows += rng_for(seed, "select", number).choice(count, present, replace=False).tolist()
        return np.array([int(places[rows[row]]) // 2 for row in questions.updates])


class Names(Cheat):
    """Looks candidates up in the data set by their names."""

    name: ClassVar[str] = "cheat-names"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        if not any(str(name).startswith("person-") for name in prior.candidates):
            return None
        raise AssertionError("the names of the data set are visible")


class Clock(Cheat):
    """Ranks candidates by when and where files were written."""

    name: ClassVar[str] = "cheat-clock"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        found = [path.stat() for path in sorted(Path(view._trace.folder).iterdir())]
        mark = sum(one.st_mtime_ns + one.st_ino + one.st_size for one in found) % (1 << 31)
        order = np.random.default_rng(mark).permutation(len(questions.options))
        return order[np.arange(len(questions)) % len(order)]


class Vandal(Cheat):
    """Overwrites the truth, and patches the code that will score it."""

    name: ClassVar[str] = "cheat-vandal"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        from fedleak.metrics import identification

        identification.average_precision = lambda *_, **__: 1 / 0  # type: ignore[assignment]
        for folder in _above(view):
            for path in (folder / "truth" / "truth.json", folder / "predictions" / "other.npy"):
                with contextlib.suppress(OSError):
                    path.write_bytes(b"{}")
        return None


class Forger(Cheat):
    """Tells whoever waits for it that it has finished, on every descriptor that is open."""

    name: ClassVar[str] = "cheat-forger"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        for number in range(3, 256):
            with contextlib.suppress(OSError):
                os.write(number, b'{"confined": "everything"}\nz{"exit": 0}\n{"progress": NaN}\n[]\n\xff\n')
        return None


class Libraries(Cheat):
    """Does not cheat: it uses libraries that look around on the machine they run on."""

    name: ClassVar[str] = "libraries"

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits

        rows = np.asarray(view.updates.layer(view.layout[-1].name)[questions.updates])
        with threadpool_limits(1):
            clusters = MiniBatchKMeans(n_clusters=len(questions.options), n_init=1, random_state=0).fit_predict(rows)
        return np.asarray(np.eye(len(questions.options), dtype=np.float32)[clusters])


class Sleeper(Cheat):
    """Waits for ever."""

    name: ClassVar[str] = "cheat-sleeper"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        time.sleep(600)


class Spinner(Cheat):
    """Computes for ever."""

    name: ClassVar[str] = "cheat-spinner"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        while True:
            pass


class Glutton(Cheat):
    """Takes all memory."""

    name: ClassVar[str] = "cheat-glutton"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        return np.ones(1 << 33)


class Crash(Cheat):
    """Ends its process in the middle of the work."""

    name: ClassVar[str] = "cheat-crash"

    def peek(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Any:
        os._exit(7)

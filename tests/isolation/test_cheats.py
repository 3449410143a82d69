"""What an attack's own code can reach: cheats that work in the auditor's process fail where attacks run."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cheats
import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.core import rng_for
from fedleak.errors import AttackError
from fedleak.games.identify import Identify
from fedleak.metrics.identification import average_precision
from fedleak.pipeline import prepare
from fedleak.pipeline.attack_runner import build_questions, play, predict, with_answers
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.training import train_run
from fedleak.plan.read import parse
from fedleak.sandbox.confine import landlock_version
from fedleak.views.adversaries import ANONYMOUS_SERVER

pytestmark = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock to confine attacks with")

PLAN = """
title = "t"
seeds = [3]
[dataset]
name = "digits"

[population]
users = 8
[model]
name = "mlp"
[federation]
rounds = 12
fraction = 0.5
[[attack]]
name = "reid-mlp"
[audit]
controls = []
"""

# Those that found the answers when attacks ran in the process of the audit.
WORKED = [
    cheats.Frames(),
    cheats.Garbage(),
    cheats.Memmap(),
    cheats.Shell(),
    cheats.Descriptors(),
    cheats.Proc(),
    cheats.Environment(),
]


def trained(folder: Path) -> Run:
    """A small federation of users with nothing personal in their data."""
    plan = parse(PLAN, "plan")
    [run] = runs(plan, folder)
    train_run(plan, run, lambda units: None)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("isolation"))


@pytest.fixture
def known(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The truth is open in this process, and a variable names its folder."""
    monkeypatch.setenv("FEDLEAK_TEST_TRUTH", str(run.folder / "truth"))
    with open(run.folder / "truth" / "truth.json", "rb"):
        yield


def score(run: Run, cheat: cheats.Cheat) -> tuple[float, float, str]:
    """Average precision and its chance level, where attacks run, and how the attack was confined."""
    given = build_questions(run, Identify())
    done = predict(run, cheat, Identify(), ANONYMOUS_SERVER, given)
    result = with_answers(run, done.predictions, Identify(), given)
    measured = average_precision([result], level=0.95, permutations=200)
    # The 97.5th percentile of chance would fail one test in forty; what cheats find is beyond any doubt.
    assert measured.value < measured.chance_high + 0.15, f"{cheat.name} reaches {measured.value}"
    return measured.value, measured.chance, done.confined


def score_here(run: Run, cheat: cheats.Cheat, rng: np.random.Generator | None = None) -> float:
    """The same in this process, as any code could be called."""
    given = build_questions(run, Identify())
    view, questions = given.look(run.folder / "trace", ANONYMOUS_SERVER)
    claims = cheat.run(view, given.prior, questions, AttackContext(rng or rng_for(0)))
    return average_precision([with_answers(run, claims, Identify(), given)], level=0.95, permutations=20).value


@pytest.mark.parametrize("cheat", WORKED, ids=lambda cheat: cheat.name)
def test_a_cheat_finds_the_answers_here_and_nothing_where_attacks_run(
    run: Run, known: None, cheat: cheats.Cheat
) -> None:
    before = score_here(run, cheat)
    after, chance, isolation = score(run, cheat)
    print(f"{cheat.name}: {before:.2f} -> {after:.2f} (chance {chance:.2f}, {isolation})")
    assert before > 0.99
    assert isolation.startswith("Landlock")


@pytest.mark.parametrize(
    "cheat",
    [cheats.ParentMemory(), cheats.Names(), cheats.Clock(), cheats.Vandal(), cheats.Forger()],
    ids=lambda cheat: cheat.name,
)
def test_other_ways_lead_nowhere(run: Run, known: None, cheat: cheats.Cheat) -> None:
    truth = (run.folder / "truth" / "truth.json").read_bytes()
    _, _, isolation = score(run, cheat)
    assert isolation.startswith("Landlock")
    assert (run.folder / "truth" / "truth.json").read_bytes() == truth
    score(run, cheats.Clock())  # the process that forks them still answers


def test_an_accomplice_cannot_be_asked(run: Run, tmp_path: Path) -> None:
    right = json.dumps(build_questions(run, Identify()).answers.right.tolist()).encode() + b"\n"
    with (
        Served(socket.AF_INET, ("127.0.0.1", 0), right) as port,
        Served(socket.AF_UNIX, str(tmp_path / "s"), right) as path,
    ):
        cheat = cheats.Sockets(port=port, path=path)
        assert score_here(run, cheat) > 0.99
        score(run, cheat)


class Served:
    """A server on this machine that says one thing to whoever connects."""

    def __init__(self, family: socket.AddressFamily, address: Any, text: bytes) -> None:
        self._socket = socket.socket(family)
        self._socket.bind(address)
        self._socket.listen()
        self._text = text

    def __enter__(self) -> Any:
        threading.Thread(target=self._serve, daemon=True).start()
        name = self._socket.getsockname()
        return name[1] if isinstance(name, tuple) else name

    def _serve(self) -> None:
        while True:
            try:
                asked, _ = self._socket.accept()
            except OSError:
                return
            with asked:
                asked.sendall(self._text)

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_who_is_who_cannot_be_drawn_again_from_a_small_seed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat = cheats.SmallSeeds()
    score(run, cheat)
    with monkeypatch.context() as patch:  # as it was, with the seed of the plan
        patch.setattr(prepare, "salted_seed", lambda population, seed: seed)
        unsalted = trained(tmp_path)
    assert score_here(unsalted, cheat) > 0.99


@pytest.mark.parametrize(
    ("cheat", "message"),
    [
        (cheats.Sleeper(), "was stopped after 0.005 minutes of computing; raise minutes"),
        (cheats.Spinner(), "was stopped after 0.005 minutes of computing; raise minutes"),
        (cheats.Glutton(), "needs more memory than it may use"),
        (cheats.Crash(), r"ended without predictions \(exit 7\)"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_attack_that_takes_too_much_is_stopped(run: Run, cheat: cheats.Cheat, message: str) -> None:
    with pytest.raises(AttackError, match=message):
        play(replace(run, minutes=0.005), cheat, Identify(), ANONYMOUS_SERVER)
    score(run, cheats.Clock())


def test_a_class_of_the_running_script_runs_here_and_the_result_says_so(run: Run) -> None:
    class Local(cheats.Clock):
        pass

    *_, isolation = score(run, Local())
    assert isolation.startswith("none: its class")
    assert isolation.endswith("Local is not in a module that can be imported")


def test_libraries_that_look_around_work_in_a_confined_process(run: Run) -> None:
    found = play(run, cheats.Libraries(), Identify(), ANONYMOUS_SERVER)
    assert (found.claims.sum(axis=1) == 1).all()


def test_nothing_is_left_behind(run: Run) -> None:
    score(run, cheats.Clock())
    assert not list(run.folder.glob(".view-*"))

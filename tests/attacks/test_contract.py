from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fedleak import registry
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.centroid import Centroid
from fedleak.core import Capability, IntArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Predictions, Questions
from fedleak.games.identify import Identify
from fedleak.games.reconstruct import ImageQuestions
from fedleak.testing import ContractBroken, check_attack
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.view import View

# Generators take long to train; what is small here is images and networks, so fewer steps do.
QUICK = {"pretraining": 200, "steps": 10, "early": 2, "rounds": 1, "iterations": 15}
LONGER = {"steps": 100, "early": 2, "iterations": 15, "width": 0.1, "recall": True}
LONGEST = {"steps": 250, "width": 0.1, "recall": True}  # it has nothing but classes to go by
SETTINGS: dict[str, dict[str, Any]] = {
    "profile-proxy": {"layer": "fc1"},  # labels do not depend on the mark, so the output layer hardly does
    "mgan-prior": QUICK,
    "mgan-linked": QUICK,
    "mgan-weighted": {"pretraining": 200, "steps": 20, "rounds": 3, "iterations": 15, "width": 0.1},
    "mgan-linked-paper": {"steps": 100, "iterations": 15, "width": 0.1, "shadows": 8},
    "mgan-passive": LONGER,
    "mgan-passive-paper": {"steps": 100, "iterations": 15, "width": 0.1},
    # A model of four rounds is flat, so small steps leave noise as noise.
    "model-inversion-paper": {"steps": 60, "rate": 100.0, "confidence": 1.0},
    "mgan-active": LONGEST,
    "gradient-inversion": {"iterations": 6, "products": 20},
    # References of sixteen rounds each are trained again for every federation.
    "membership-lira": {"references": 2},
    "membership-lira-online": {"references": 2},
    "membership-rmia": {"references": 2},
    "membership-strong": {"references": 2, "rounds": 4},
    "membership-cosine": {"rounds": 6},
    "membership-drop": {"rounds": 6},
}
# From nothing, and minutes; or like another one here.
SLOW = (
    "mgan-prior",
    "membership-lira-online",
    "mgan-passive",
    "mgan-passive-paper",
    "mgan-active",
    "mgan-active-paper",
    "mgan-linked",
    "mgan-linked-paper",
    "mgan-weighted",
    "representatives-paper",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in registry.names("attack")]
)
def test_every_registered_attack_keeps_the_contract(name: str, tmp_path: Path) -> None:
    attack = registry.load("attack", name)(**SETTINGS.get(name, {}))
    assert attack.name == name
    check_attack(attack, tmp_path)


@dataclass(frozen=True)
class Bad:
    """An attack that breaks one part of the contract at a time."""

    how: str
    name: ClassVar[str] = "bad"
    summary: ClassVar[str] = "breaks the contract"
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        shape = (len(questions.updates), len(questions.options))
        honest = Centroid().run(view, prior, questions, context)
        if self.how == "unsteady":
            return honest + np.random.default_rng().normal(size=shape).astype(np.float32)
        if self.how == "infinite":
            return np.full(shape, np.inf, dtype=np.float32)
        if self.how == "short":
            return honest[1:]
        if self.how == "blind":
            return context.rng.normal(size=shape).astype(np.float32)
        raise AssertionError(self.how)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("unsteady", ContractBroken, "same seed gave different predictions"),
        ("infinite", AttackError, "not finite"),
        ("short", AttackError, "shape"),
        ("blind", ContractBroken, "planted leak was not found"),
    ],
)
def test_the_contract_catches_an_attack_that_breaks_it(
    how: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        check_attack(Bad(how), tmp_path)


@dataclass(frozen=True)
class Vandal(Bad):
    """An attack that writes to the trace it was shown."""

    how: str = "vandal"
    folder: Path = Path()

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        victim = next(self.folder.glob("planted-0/trace/header.json"))
        victim.write_bytes(victim.read_bytes() + b" ")
        return Centroid().run(view, prior, questions, context)


def test_the_contract_catches_an_attack_that_changes_the_trace(tmp_path: Path) -> None:
    with pytest.raises(ContractBroken, match="trace was changed"):
        check_attack(Vandal(folder=tmp_path), tmp_path)


@dataclass(frozen=True)
class Cheat(Bad):
    """An attack that reads the truth: it finds what is not there, and the null traces tell."""

    how: str = "cheat"
    folder: Path = Path()

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        return np.eye(len(questions.options), dtype=np.float32)[looked_up(view, prior)]


def looked_up(view: View, prior: Prior) -> IntArray:
    folder = view._trace.folder.parent
    trace, truth = Trace.open(folder / "trace"), Truth.load(folder / "truth")
    return Identify().ask(trace, truth, prior, np.random.default_rng(0)).answers.right


def test_the_contract_catches_an_attack_that_knows_too_much(tmp_path: Path) -> None:
    with pytest.raises(ContractBroken, match="a leak was found on a null trace"):
        check_attack(Cheat(folder=tmp_path), tmp_path)


@dataclass(frozen=True)
class Reader(Bad):
    """An attack that says openly that it reads the truth."""

    how: str = "reader"

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        truth = Truth.load(view._trace.folder.parent / "truth")
        return np.zeros((len(questions), len(truth.users)), dtype=np.float32)


def test_the_contract_refuses_an_attack_that_uses_the_truth(tmp_path: Path) -> None:
    with pytest.raises(
        ContractBroken, match=r"line \d+ of .*test_contract uses Truth; an attack never reads the truth"
    ):
        check_attack(Reader(), tmp_path)


@dataclass(frozen=True)
class Overdone(Bad):
    """An attack that declares no updates and tells clients apart all the same."""

    how: str = "overdone"
    game: ClassVar[str] = "reconstruct"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.JOIN
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        assert isinstance(questions, ImageQuestions)
        return stolen(view._trace.folder.parent, questions)


def stolen(folder: Path, questions: ImageQuestions) -> Predictions:
    trace, truth = Trace.open(folder / "trace"), Truth.load(folder / "truth")
    assert truth.evidence is not None
    owners = [truth.client_user[trace.header.clients[trace.client[row]]] for row in questions.updates]
    places = [truth.evidence.held.candidates.index(owner) for owner in owners]
    return np.stack([truth.evidence.held.examples[place].x[: questions.samples] for place in places])


def test_finding_what_its_needs_do_not_allow_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(ContractBroken, match="a leak was found that an attack with these needs cannot find"):
        check_attack(Overdone(), tmp_path)


@dataclass(frozen=True)
class Deaf(Bad):
    """An attack that says it listens to who takes part, and has what it finds from elsewhere."""

    how: str = "deaf"
    game: ClassVar[str] = "extract"
    needs: ClassVar[Observation] = Observation.SELECTION
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        assert isinstance(questions, RecordQuestions)
        folder = view._trace.folder.parent
        claims = np.zeros((len(questions), questions.most, questions.form.longest), dtype=np.int64)
        if folder.name.startswith("planted"):
            claims[:, 0] = questions.records.spell(overheard(folder, questions.clients), questions.form.longest)
        return claims


def overheard(folder: Path, clients: tuple[str, ...]) -> list[str]:
    truth = Truth.load(folder / "truth")
    return [truth.secrets[truth.client_user[client]][0] for client in clients]


def test_the_contract_catches_an_attack_that_finds_as_much_where_selection_is_told_in_the_wrong_order(
    tmp_path: Path,
) -> None:
    with pytest.raises(ContractBroken, match="in the wrong order"):
        check_attack(Deaf(), tmp_path)

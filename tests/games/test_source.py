"""The source game: what is asked, what the questions tell, what is measured, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.source.selection import SourceSelection
from fedleak.attacks.source.strong import SourceStrong
from fedleak.attacks.source.updates import SourceCosine, SourceLoss
from fedleak.core import UserId, rng_for
from fedleak.errors import AttackError, PlanError
from fedleak.games.game import GameInstance
from fedleak.games.source import Source, SourceQuestions
from fedleak.games.traces.members import EACH, OUTSIDERS, write_members
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.source import NOBODY, TRAINED, UNUSED, SourceAnswers, applies, top
from fedleak.plan.read import parse
from fedleak.score.decision import decide
from fedleak.trace.members import MemberRecords
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import AGGREGATE_SERVER, EAVESDROPPER, SERVER

USERS = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_members(tmp_path_factory.mktemp("source"), 0, leak=True, users=USERS)


def ask(run: Path, game: Source, seed: int = 0, **changed: Any) -> GameInstance:
    truth = replace(Truth.load(run / "truth"), **changed)
    return game.ask(Trace.open(run / "trace"), truth, Prior.load(run / "prior"), rng_for(seed, "game"))


def members_of(run: Path) -> MemberRecords:
    found = Truth.load(run / "truth").members
    assert found is not None
    return found


def unpacked(found: GameInstance) -> tuple[SourceQuestions, SourceAnswers]:
    assert isinstance(found.questions, SourceQuestions)
    assert isinstance(found.answers, SourceAnswers)
    return found.questions, found.answers


def test_the_answer_is_the_client_that_trained_on_the_record(run: Path) -> None:
    questions, answers = unpacked(ask(run, Source()))
    trace, truth, members = Trace.open(run / "trace"), Truth.load(run / "truth"), members_of(run)
    places = {str(user): place for place, user in enumerate(members.used.candidates)}
    for option, client in enumerate(questions.options):
        assert trace.header.clients[trace.client[questions.updates[option]]] == client
        place = places[truth.client_user[client]]
        assert answers.users[option] == truth.client_user[client]
        for kind, held in ((TRAINED, members.used), (UNUSED, members.held_out)):
            rows = questions.records.x[(answers.right == option) & (answers.kind == kind)]
            assert {row.tobytes() for row in rows} == {row.tobytes() for row in held.examples[place].x}


def test_every_client_is_asked_about_equally_often(run: Path) -> None:
    members = members_of(run)
    fewer = (members.used.examples[0].take(np.arange(5)), *members.used.examples[1:])
    changed = replace(members, used=replace(members.used, examples=fewer))
    _, answers = unpacked(ask(run, Source(), members=changed))
    assert set(Counter(answers.right[answers.kind == TRAINED].tolist()).values()) == {5}
    assert set(Counter(answers.right[answers.kind == UNUSED].tolist()).values()) == {EACH}


def test_neither_options_nor_records_are_in_the_order_of_users_or_of_each_other(run: Path) -> None:
    orders, places = [], []
    for seed in range(40):
        _, answers = unpacked(ask(run, Source(records=4), seed))
        orders.append(answers.users.index("user-00"))
        places.append(np.corrcoef(np.arange(len(answers.right)), answers.right)[0, 1])
    assert len(set(orders)) == USERS
    assert abs(np.mean(places)) < 4 * np.std(places) / np.sqrt(len(places))


def test_decoys_are_other_peoples_records_and_change_no_question(run: Path) -> None:
    asked, before = unpacked(ask(run, Source()))
    control, answers = unpacked(ask(run, Source(), members=replace(members_of(run), decoys=True)))
    assert np.array_equal(asked.records.x, control.records.x) and asked.options == control.options
    assert (before.kind[answers.kind == TRAINED] == NOBODY).all()
    assert (answers.kind == TRAINED).sum() == min(USERS, OUTSIDERS) * EACH


def played(run: Path, attack: Any, adversary: Any, seed: int = 0) -> AttackResult:
    found = ask(run, Source(), seed)
    view, questions = found.look(run / "trace", adversary)
    claims = attack.run(view, found.prior, questions, AttackContext(rng_for(seed, "attack")))
    return AttackResult.of(seed, claims, "source", questions.options, questions.choices, found.answers)


def test_under_secure_aggregation_the_selection_is_enough(run: Path) -> None:
    """The snapshots and the selection are all that these adversaries see, and all that is used."""
    sums = played(run, SourceStrong(), AGGREGATE_SERVER)
    assert np.argmax(sums.claims, axis=1).tolist() == np.argmax(
        played(run, SourceSelection(), EAVESDROPPER).claims, axis=1
    ).tolist()  # fmt: skip
    found = top(1, TRAINED, [sums], level=0.95, permutations=200)
    assert found.value > 2 * found.chance
    assert found.chance == pytest.approx(1 / USERS, abs=0.05)


def test_unused_records_of_the_same_users_are_attributed_less_often(run: Path) -> None:
    """The client trained on the one kind and not on the other; style is in both."""
    for attack in (SourceLoss(), SourceCosine(), SourceStrong()):
        one = played(run, attack, SERVER)
        trained, unused = (top(1, kind, [one], level=0.95, permutations=200) for kind in (TRAINED, UNUSED))
        assert trained.low > trained.chance
        assert trained.value > unused.value + 0.1


def test_without_held_out_records_there_is_no_second_comparison(run: Path) -> None:
    members = members_of(run)
    nothing = tuple(one.take([]) for one in members.held_out.examples)
    found = ask(run, Source(), members=replace(members, held_out=replace(members.held_out, examples=nothing)))
    _, answers = unpacked(found)
    one = AttackResult.of(
        0, np.zeros((len(answers.right), USERS), np.float32), "source", found.questions.options, USERS, answers
    )
    assert applies(TRAINED, [one]) and not applies(UNUSED, [one])


@pytest.mark.parametrize("users", [8, 40])
def test_noise_is_seldom_called_a_leak(users: int) -> None:
    """An attack that prefers some clients, and is sure of all records of a user together, knows nothing."""
    called, each = 0, 6
    for seed in range(60):
        rng = np.random.default_rng(seed)
        right = np.repeat(np.arange(users), each)
        favourite = rng.normal(size=users)
        claims = favourite + rng.normal(size=(users, users))[right] + 0.2 * rng.normal(size=(len(right), users))
        answers = SourceAnswers(
            right=right, who=right, users=tuple(map(str, range(users))), kind=np.full(len(right), TRAINED)
        )
        one = AttackResult.of(seed, claims.astype(np.float32), "source", answers.users, users, answers)
        called += decide(top(1, TRAINED, [one], level=0.95, permutations=60), level=0.95).leaks is True
    assert called <= 7


def test_what_cannot_be_asked_is_refused_in_one_line(run: Path) -> None:
    members = members_of(run)
    first, _, *rest = members.used.examples
    twice = replace(members, used=replace(members.used, examples=(first, first, *rest)))
    nobody = tuple(UserId(user) for user in members.used.candidates)
    for message, changed in (
        ("did not keep the clients' records", {"members": None}),
        ("every record of user 'user-0.' has a copy elsewhere", {"members": twice}),
        ("set outsiders = N", {"members": replace(members, decoys=True), "users": nobody}),
    ):
        with pytest.raises(AttackError, match=message) as caught:
            ask(run, Source(), **changed)
        assert "\n" not in str(caught.value)


def test_a_plan_without_outsiders_is_refused() -> None:
    text = '[dataset]\nname = "digits"\n[population]\nprior = "none"\n[model]\nname = "mlp"\n[federation]\nrounds = 2\n'
    with pytest.raises(PlanError, match=r"game 'source' needs users who take no part.*set outsiders = N"):
        parse(text + '[audit]\nadversaries = ["server"]\n[[attack]]\nname = "source-strong"\n', "no outsiders")

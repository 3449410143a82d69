"""The membership game: what is asked, what the questions tell, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.core import UserId, rng_for
from fedleak.errors import AttackError
from fedleak.games.game import GameInstance
from fedleak.games.membership import Membership, MembershipQuestions
from fedleak.games.traces.members import EACH, OUTSIDERS, write_members
from fedleak.metrics.membership import HELD_OUT, MEMBER, OUTSIDE, MembershipAnswers
from fedleak.trace.members import MemberRecords
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

USERS = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_members(tmp_path_factory.mktemp("members"), 0, leak=True, users=USERS)


def ask(run: Path, game: Membership, seed: int = 0, **changed: Any) -> GameInstance:
    truth = Truth.load(run / "truth")
    truth = replace(truth, **changed)
    return game.ask(Trace.open(run / "trace"), truth, Prior.load(run / "prior"), rng_for(seed, "game"))


def members_of(run: Path) -> MemberRecords:
    found = Truth.load(run / "truth").members
    assert found is not None
    return found


def unpacked(found: GameInstance) -> tuple[MembershipQuestions, MembershipAnswers]:
    assert isinstance(found.questions, MembershipQuestions)
    assert isinstance(found.answers, MembershipAnswers)
    return found.questions, found.answers


def test_members_are_what_the_clients_trained_on_and_nothing_else_is(run: Path) -> None:
    questions, answers = unpacked(ask(run, Membership()))
    members = members_of(run)
    rows = {
        kind: {row.tobytes() for row in questions.records.x[answers.kind == kind]}
        for kind in (MEMBER, HELD_OUT, OUTSIDE)
    }
    assert rows[MEMBER] == {row.tobytes() for data in members.used.examples[:USERS] for row in data.x}
    assert rows[HELD_OUT] == {row.tobytes() for data in members.held_out.examples[:USERS] for row in data.x}
    assert len(rows[OUTSIDE]) == USERS * 2 * EACH, "as many records of one outsider for each client"
    assert (answers.right == (answers.kind == MEMBER)).all()


def test_which_records_are_asked_about_does_not_depend_on_whether_they_were_used(run: Path) -> None:
    shares = []
    for seed in range(20):
        _, answers = unpacked(ask(run, Membership(records=8), seed))
        own = answers.kind != OUTSIDE
        shares += [answers.right[own & (answers.who == user)].sum() for user in range(USERS)]
    assert len(set(shares)) > 3, "the number of members is drawn, too"
    assert abs(np.mean(shares) - 4) < 0.6


def test_the_questions_point_to_one_update_of_the_client_whatever_the_answer(run: Path) -> None:
    questions, answers = unpacked(ask(run, Membership()))
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    for row in np.unique(questions.updates):
        here = questions.updates == row
        user = truth.client_user[trace.header.clients[trace.client[row]]]
        own = here & (answers.kind != OUTSIDE)
        assert {answers.users[i] for i in answers.who[own]} == {user}
        # Two people's records, equally many of each: the questions do not tell which of them the user is.
        assert own.sum() == (here & ~own).sum()
        assert len(np.unique(answers.who[here])) == 2


def test_a_record_with_a_copy_is_not_asked_about(run: Path) -> None:
    members = members_of(run)
    copied = members.used.examples[0].take([0])
    held = members.held_out.examples[0]
    data = (replace(held, x=np.concatenate([copied.x, held.x[1:]])), *members.held_out.examples[1:])
    changed = replace(members, held_out=replace(members.held_out, examples=data))
    questions, _ = unpacked(ask(run, Membership(), members=changed))
    assert not (questions.records.x == copied.x).all(axis=1).any()


def test_of_records_that_belong_together_one_is_asked_about(run: Path) -> None:
    members = members_of(run)
    documents = np.arange(EACH) // 4

    def grouped(prior: Prior) -> Prior:
        return replace(prior, examples=tuple(replace(one, document=documents) for one in prior.examples))

    changed = replace(members, used=grouped(members.used), held_out=grouped(members.held_out))
    _, answers = unpacked(ask(run, Membership(), members=changed))
    assert (np.bincount(answers.who[answers.kind == MEMBER]) == EACH // 4).all()


def test_users_are_asked_about_with_equally_many_records(run: Path) -> None:
    for known in ("trained", "held-out"):
        questions, answers = unpacked(ask(run, Membership(unit="user", records=5, known=known)))
        assert len(questions) == USERS + OUTSIDERS
        assert (np.bincount(questions.question) == 5).all()
        assert sorted(answers.right.tolist()) == [0] * OUTSIDERS + [1] * USERS
        assert {answers.users[i] for i in answers.who[answers.right == 1]} == set(Truth.load(run / "truth").users)
        assert questions.updates.size == 0


def test_decoys_change_the_answers_and_not_the_questions(run: Path) -> None:
    for unit in ("record", "user"):
        plain, _ = unpacked(ask(run, Membership(unit=unit)))
        control, answers = unpacked(ask(run, Membership(unit=unit), members=replace(members_of(run), decoys=True)))
        assert np.array_equal(plain.records.x, control.records.x)
        _, before = unpacked(ask(run, Membership(unit=unit)))
        assert (before.kind[answers.right == 1] == HELD_OUT).all(), "nobody trained on a decoy"
        assert abs(answers.right.sum() - (before.kind == HELD_OUT).sum() / 2) <= 1


def test_what_cannot_be_asked_is_refused_in_one_line(run: Path) -> None:
    members = members_of(run)
    nothing = replace(members, held_out=replace(members.held_out, examples=tuple(
        one.take([]) for one in members.held_out.examples
    )))  # fmt: skip
    for message, game, changed in (
        ("did not keep the clients' records", Membership(), {"members": None}),
        ("no record of user 'user-00' was held out", Membership(), {"members": nothing}),
        ("no record was held out", Membership(unit="user", known="held-out"), {"members": nothing}),
        (
            "so there is nobody to tell apart",
            Membership(unit="user"),
            {"users": tuple(UserId(user) for user in members.used.candidates)},
        ),
    ):
        with pytest.raises(AttackError, match=message) as caught:
            ask(run, game, **changed)
        assert "\n" not in str(caught.value)


def test_one_class_only_is_refused(run: Path) -> None:
    for seed in range(50):  # two records of each of four users are seldom all members
        try:
            _, answers = unpacked(ask(run, Membership(records=1), seed))
        except AttackError as error:
            assert "all or none were trained on" in str(error)
            return
        assert 0 < answers.right[answers.kind != OUTSIDE].sum() < USERS
    pytest.fail("no draw had one class only")


def test_users_are_asked_about_elsewhere_too(run: Path, tmp_path: Path) -> None:
    """Questions about users name no update, so only the run changes."""
    other = Trace.open(write_members(tmp_path, 1, leak=True, users=2 * USERS) / "trace")
    game = Membership(unit="user")
    found = ask(run, game)
    moved = game.elsewhere(found, Trace.open(run / "trace"), other, rng_for(0, "elsewhere"))
    assert moved.questions.updates.size == 0
    assert (moved.answers, moved.prior) == (found.answers, found.prior)
    assert len(moved.shadow) == len(other.round) != len(found.shadow)

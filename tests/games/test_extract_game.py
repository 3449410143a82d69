"""Who is asked about, what the adversary is given, and which claims are no answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.records.candidate_search import presence
from fedleak.attacks.records.eavesdrop import Eavesdrop
from fedleak.attacks.records.strong import EavesdropStrong
from fedleak.errors import AttackError
from fedleak.games.extract import Extract, RecordQuestions
from fedleak.games.game import GameInstance
from fedleak.games.traces.secret_holders import HOLDERS, RECORDS, write_secrets
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import EAVESDROPPER
from fedleak.views.view import View


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_secrets(tmp_path_factory.mktemp("secrets"), 0, leak=True)


def ask(run: Path, game: Extract, truth: Truth | None = None, prior: Prior | None = None) -> GameInstance:
    trace = Trace.open(run / "trace")
    known = truth or Truth.load(run / "truth"), prior or Prior.load(run / "prior")
    return game.ask(trace, *known, np.random.default_rng(0))


def spelt(asked: GameInstance) -> list[str]:
    return ["".join(RECORDS.characters[token] for token in row if token) for row in asked.answers.right]


def test_every_holders_client_is_asked_about_and_its_owners_secret_is_the_answer(run: Path) -> None:
    asked, truth = ask(run, Extract()), Truth.load(run / "truth")
    questions = asked.questions
    assert isinstance(questions, RecordQuestions) and len(questions) == HOLDERS
    assert questions.choices == 10_000 and questions.records == RECORDS
    assert spelt(asked) == [truth.secrets[truth.client_user[client]][0] for client in questions.clients]
    assert asked.prior.candidates == () and asked.prior.records is None and (asked.shadow == -1).all()


def test_only_holders_are_asked_about(run: Path) -> None:
    truth = Truth.load(run / "truth")
    some = dict(list(truth.secrets.items())[:2])
    asked = ask(run, Extract(), replace(truth, secrets=some))
    assert sorted(spelt(asked)) == sorted(secret for held in some.values() for secret in held)


def test_what_cannot_be_asked_is_refused(run: Path) -> None:
    truth, prior = Truth.load(run / "truth"), Prior.load(run / "prior")
    first = truth.users[0]
    with pytest.raises(AttackError, match="1 users hold a secret; at least two"):
        ask(run, Extract(), replace(truth, secrets={first: truth.secrets[first]}))
    with pytest.raises(AttackError, match="holds several secrets"):
        ask(run, Extract(), replace(truth, secrets={**truth.secrets, first: ("pin 0000", "pin 0001")}))
    with pytest.raises(AttackError, match="no user in this data set holds a secret"):
        ask(run, Extract(), prior=replace(prior, records=None))
    with pytest.raises(AttackError, match="data that may hold the secrets"):
        ask(run, Extract(), prior=replace(prior, candidates=(first,), examples=(Examples(x=np.zeros((1, 2))),)))


def test_claims_must_be_rankings_of_texts(run: Path) -> None:
    game = Extract(most=3)
    questions = ask(run, game).questions
    good = np.zeros((HOLDERS, 3, 8), dtype=np.int64)
    good[:, 0] = RECORDS.spell(["pin 1234"], 8)
    assert game.check(good, questions, "mine").dtype == np.int32
    with pytest.raises(AttackError, match=r"float64 of shape .* = \(6, 3, 8\)"):
        game.check(good.astype(np.float64), questions, "mine")
    with pytest.raises(AttackError, match="shape"):
        game.check(good[:, :2], questions, "mine")
    for token in (-1, len(RECORDS.characters)):
        with pytest.raises(AttackError, match="not in the model's alphabet"):
            game.check(np.where(good == 0, token, good), questions, "mine")
    gap = good.copy()
    gap[0, 0, 3] = 0
    with pytest.raises(AttackError, match="continues after its end"):
        game.check(gap, questions, "mine")


def test_a_list_that_is_handed_out_holds_the_answers_and_says_so(run: Path) -> None:
    game = Extract(listed=40)
    asked = ask(run, game)
    assert isinstance(asked.questions, RecordQuestions)
    listed = asked.questions.listed
    assert len(listed) == len(set(listed)) == asked.questions.choices == 40
    assert set(spelt(asked)) < set(listed) and list(listed) == sorted(listed)
    assert all(record in asked.questions.form for record in listed)
    again = ask(run, game).questions
    assert isinstance(again, RecordQuestions) and again.listed == listed
    assert "a list of 40 records that contains the answers" in game.note and Extract().note == ""


@pytest.mark.parametrize("listed", [HOLDERS - 1, 10_001])
def test_a_list_must_have_room_for_the_secrets_and_no_more_than_there_are(run: Path, listed: int) -> None:
    with pytest.raises(AttackError, match=rf"listed = {listed}, but .* the format admits 10000 records"):
        ask(run, Extract(listed=listed))


def test_a_whole_format_can_be_listed(run: Path) -> None:
    asked = ask(run, Extract(listed=10_000))
    assert isinstance(asked.questions, RecordQuestions) and len(asked.questions.listed) == 10_000


def test_an_attack_ranks_what_it_is_handed_and_searches_for_nothing(run: Path) -> None:
    asked = ask(run, Extract(listed=30))
    questions = asked.questions
    assert isinstance(questions, RecordQuestions)
    view = View(run / "trace", EAVESDROPPER, asked.shadow)
    claims = Eavesdrop().run(view, asked.prior, questions, AttackContext(np.random.default_rng(0)))
    named = {"".join(RECORDS.characters[t] for t in row if t) for row in claims[0]} - {""}
    assert named == set(questions.listed)


def test_snapshots_that_are_missing_join_rounds_and_count_who_took_part(run: Path) -> None:
    whole, gappy = (ask(run, Extract(every=every)).look(run / "trace", EAVESDROPPER)[0] for every in (1, 50))
    assert (whole.rounds, gappy.rounds) == (120, 3)  # models of the rounds 0, 50, 100 and 120
    for mine, theirs in enumerate((0, 50, 100, 120)):
        for layer, values in whole.snapshot(theirs).items():
            assert (gappy.snapshot(mine)[layer] == values).all()
    clients = whole.selection(1) + whole.selection(2)
    between = [client for number in range(101, 121) for client in whole.selection(number)]
    assert sorted(gappy.selection(3)) == sorted(between)
    assert presence(gappy, clients).tolist()[2] == [between.count(client) for client in clients]
    assert set(presence(whole, clients).ravel()) == {0, 1}
    for number in (0, 4):
        with pytest.raises(IndexError, match=rf"round {number} is not between 1 and 3"):
            gappy.selection(number)


def test_with_some_snapshots_missing_the_attacks_still_answer_and_the_report_states_the_gap(run: Path) -> None:
    right = []
    for every in (1, 3, 60):
        game = Extract(every=every)
        asked = ask(run, game)
        view, questions = asked.look(run / "trace", EAVESDROPPER)
        for attack in (Eavesdrop(), EavesdropStrong(snapshots=5)):
            claims = game.check(
                attack.run(view, asked.prior, questions, AttackContext(np.random.default_rng(0))), questions, "mine"
            )
        right.append((claims[:, 0] == asked.answers.right).all(axis=1).mean())
    assert right[0] > 0.5 and right[2] < right[0], "two stretches say little about whose a record is"
    assert "only the shared model of every 60th round and of the last one" in game.note

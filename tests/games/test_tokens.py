"""The game `tokens`: which words did a client train on?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import TINY, Run
from fedleak.attacks.tokens.rows import named
from fedleak.games.tokens import Tokens
from fedleak.games.traces.writers import WORDS, WRITERS, write_words
from fedleak.metrics import tokens as measures
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.tokens import TokenAnswers
from fedleak.population.text import PAD, UNKNOWN
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

# Three clients with four words to choose from; the last word is used by the third client only.
HELD = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]], dtype=np.bool_)


def result(claims: list[list[float]]) -> AttackResult:
    who = np.arange(3)
    answers = TokenAnswers(right=who, who=who, users=("a", "b", "c"), held=HELD)
    return AttackResult.of(0, np.array(claims, dtype=np.float32), "tokens", (), 3, answers)


def test_words_are_scored_by_hand() -> None:
    one = result([[1, 1, -1, -1], [-1, 1, -1, -1], [1, 1, 1, 1]])
    value = {
        name: getattr(measures, name)([one], level=0.95, permutations=50).value
        for name in ("f1", "precision", "recall")
    }
    assert value["precision"] == pytest.approx((1 + 1 + 1 / 2) / 3)
    assert value["recall"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert value["f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    # The first client has no word of its own, the second has word 2, which is not named, and the third has word 3.
    assert measures.own_recall([one], level=0.95, permutations=50).value == pytest.approx(1 / 2)


def test_whoever_names_every_word_is_at_chance() -> None:
    found = measures.f1([result([[1] * 4] * 3)], level=0.95, permutations=50)
    assert found.value == pytest.approx(found.chance)


def test_whoever_names_nothing_scores_nothing() -> None:
    one = result([[-1] * 4] * 3)
    for measure in (measures.f1, measures.precision, measures.recall, measures.own_recall):
        assert measure([one], level=0.95, permutations=50).value == 0


def test_words_of_nobody_alone_are_not_asked_about() -> None:
    same = AttackResult.of(
        0,
        np.ones((3, 4), dtype=np.float32),
        "tokens",
        (),
        3,
        TokenAnswers(right=np.arange(3), who=np.arange(3), users=("a", "b", "c"), held=np.ones((3, 4), dtype=np.bool_)),
    )
    assert measures.has_own([result([[1] * 4] * 3)]) is True
    assert "used by another client" in str(measures.has_own([same]))


def test_each_client_is_asked_about_once_and_padding_is_no_word(tmp_path: Path) -> None:
    write_words(tmp_path, 0, leak=True)
    trace, truth = Trace.open(tmp_path / "trace"), Truth.load(tmp_path / "truth")
    asked = Tokens().ask(trace, truth, Prior.load(tmp_path / "prior"), np.random.default_rng(0))
    assert isinstance(asked.answers, TokenAnswers)
    assert len(set(asked.answers.who.tolist())) == len(asked.questions) <= WRITERS
    assert not asked.answers.held[:, [PAD, UNKNOWN]].any()
    assert (asked.answers.held.sum(axis=1) == WORDS).all()
    client = [trace.header.clients[int(i)] for i in np.asarray(trace.client)[asked.questions.updates]]
    assert [str(truth.client_user[name]) for name in client] == [asked.answers.users[i] for i in asked.answers.who]


def test_weight_decay_that_moves_every_row_does_not_hide_the_words() -> None:
    rng = np.random.default_rng(0)
    moved = rng.uniform(0.9, 1.1, 200).astype(np.float32) * 1e-4
    used = rng.permutation(200)[:60]
    moved[used] = rng.uniform(0.5, 2, 60) * 1e-2
    assert set(np.flatnonzero(named(moved, np.zeros(200, dtype=np.float32)) > 0)) == set(used.tolist())


PLAN = """
title = "words"
story = "a story"
seeds = [0, 1]
[dataset]
name = "table"
path = "posts.csv"
task = "next-token"
text = "words"
vocabulary = 80
length = 8
[population]
prior = "none"
min_examples = 2
[model]
{model}
[federation]
rounds = 4
fraction = 0.5
batch = 4
lr = 0.5
centralised = false
[audit]
adversaries = ["server"]
[[attack]]
name = "token-rows"
"""


@pytest.fixture
def posts(tmp_path: Path) -> Path:
    """Ten users, each with some words of their own and some of everybody's."""
    rng = np.random.default_rng(0)
    lines = ["user,words"]
    for user in range(10):
        own = [f"w{'abcdefghij'[user]}{letter}" for letter in "klmno"] + [f"c{letter}" for letter in "abcdef"]
        lines += [f"u{user},{' '.join(rng.choice(own, 7))}" for _ in range(12)]
    path = tmp_path / "posts.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    "model", ['name = "word-lm"\nembedding = 8\nhidden = 8', 'name = "transformer"\nwidth = 8\nheads = 2']
)
def test_an_audit_names_the_words_of_clients_and_secure_aggregation_stops_it(
    model: str, posts: Path, tmp_path: Path, fedleak: Run
) -> None:
    plan = PLAN.format(model=model) + '[[defence]]\nname = "secure-aggregation"\n'
    (tmp_path / "plan.toml").write_text(plan)
    done = fedleak("audit", "plan.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "out" / "results.json").read_text())["scores"]
    value = {(s["metric"], bool(s["defence"])): s for s in scores if s["control"] is None}
    # A word that is only ever to be predicted, and was predicted too often, is missed.
    assert value["recall", False]["value"] > 0.95 and value["precision", False]["value"] == 1
    assert value["own-recall", False]["value"] > 0.95 and value["own-recall", False]["chance"] == 0
    assert value["f1", False]["chance"] < 0.7
    assert value["f1", True]["value"] < value["f1", True]["chance_high"] + 1e-9
    assert "of the words that a client trained on" in " ".join(done.stdout.split())
    page = (tmp_path / "out" / "report.html").read_text()
    assert "own words" in page and "wak" not in page  # figures, not the words


def test_words_are_not_asked_for_where_none_are_predicted(tmp_path: Path, fedleak: Run) -> None:
    (tmp_path / "plan.toml").write_text(
        TINY.replace('"reid-knn"\nk = 3', '"token-rows"') + '[population]\nprior = "none"\n'
    )
    done = fedleak("check", "plan.toml")
    assert done.returncode == 1 and "token-rows" in done.stderr and "task 'classify'" in done.stderr

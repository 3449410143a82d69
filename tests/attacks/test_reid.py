"""What each re-identification attack does where the contract does not look."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.centroid import Centroid
from fedleak.attacks.deanonymize.knn import NearestNeighbours
from fedleak.attacks.deanonymize.labels import LabelHistogram, histogram
from fedleak.attacks.deanonymize.mlp import ReidMlp
from fedleak.attacks.deanonymize.svm import LinearSvm
from fedleak.attacks.features import fill_missing_candidates, unit
from fedleak.core import IntArray, Layer, Task, UserId
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.games.identify import Identify
from fedleak.games.traces.users import USERS
from fedleak.population.population import Examples
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER
from fedleak.views.view import View

ATTACKS: list[Any] = [ReidMlp(epochs=20), LinearSvm(), NearestNeighbours(), Centroid(), LabelHistogram()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def asked(run: Path, game: Identify | None = None) -> tuple[View, Prior, Questions]:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    given = (game or Identify()).ask(trace, truth, prior, np.random.default_rng(0))
    return View(run / "trace", ANONYMOUS_SERVER, given.shadow), given.prior, given.questions


def sent_by(users: tuple[UserId, ...], run: Path) -> tuple[IntArray, IntArray]:
    """The anonymous updates of these users, and who sent each."""
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    place = {user: i for i, user in enumerate(users)}
    owner = np.array([place.get(truth.client_user[client], -1) for client in trace.header.clients])[trace.client]
    rows = np.flatnonzero((np.asarray(trace.shadow) < 0) & (owner >= 0))
    return rows, owner[rows]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_in_the_open_world_strangers_have_an_option_of_their_own(attack: Any, run: Path) -> None:
    view, prior, questions = asked(run, Identify(seen=0.5, held_out=1 / 6))
    assert questions.options[-1] == "unseen" and len(prior.candidates) == len(questions.options) + 1
    # About strangers it has learnt from: whoever cannot tell these from users can tell nobody.
    rows, who = sent_by(prior.candidates, run)
    stranger = who >= len(questions.options) - 1
    claims = attack.run(view, prior, replace(questions, updates=rows), AttackContext(np.random.default_rng(0)))
    assert claims.shape == (len(rows), len(questions.options))
    assert average_precision_score(stranger, claims[:, -1]) > stranger.mean() + 0.25


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize("present", [2, 5])
def test_candidates_without_a_labelled_update_are_answered_too(attack: Any, present: int, run: Path) -> None:
    view, prior, questions = asked(run)
    few = np.array(view.updates.shadow)
    few[few >= present] = -1  # the other shadow clients were never selected
    view.updates.__dict__["shadow"] = few
    claims = attack.run(view, prior, questions, AttackContext(np.random.default_rng(0)))
    assert claims.shape == (len(questions.updates), USERS)
    assert np.isfinite(claims).all()
    if attack.name != "reid-labels":  # which knows everybody's label mix from the prior
        assert (claims[:, present:] == claims.min(axis=1, keepdims=True)).all()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_without_any_labelled_update_an_attack_says_so(attack: Any, run: Path) -> None:
    view, prior, questions = asked(run)
    view.updates.__dict__["shadow"] = np.full(len(view.updates), -1)
    with pytest.raises(AttackError, match="no shadow client was selected"):
        attack.run(view, prior, questions, AttackContext(np.random.default_rng(0)))


def test_a_layer_that_is_not_there_is_answered_with_the_nearest_one(run: Path) -> None:
    view, prior, questions = asked(run)
    with pytest.raises(AttackError, match=r"no layer 'hiden'; did you mean 'hidden'\?"):
        Centroid(layer="hiden").run(view, prior, questions, AttackContext(np.random.default_rng(0)))


def test_attacks_look_at_the_layer_they_are_told_to(run: Path) -> None:
    view, prior, questions = asked(run)
    last, named, other = (
        Centroid(layer=layer).run(view, prior, questions, AttackContext(np.random.default_rng(0)))
        for layer in ("last", "out", "hidden")
    )
    assert np.array_equal(last, named)
    assert not np.array_equal(last, other)


def test_neighbours_vote_with_equal_weight(run: Path) -> None:
    view, prior, questions = asked(run)
    votes = NearestNeighbours(k=10).run(view, prior, questions, AttackContext(np.random.default_rng(0)))
    assert np.allclose(votes.sum(axis=1), 1)
    assert np.allclose(votes * 10, np.round(votes * 10), atol=1e-5)


def test_labels_need_a_bias(run: Path) -> None:
    view, prior, questions = asked(run)
    bare = (Layer("out", (("weight", (10, 8)),)),)
    view._trace.header = _with_layout(view._trace.header, bare)
    with pytest.raises(AttackError, match="layer 'out' has none"):
        LabelHistogram().run(view, prior, questions, AttackContext(np.random.default_rng(0)))


def _with_layout(header: Any, layout: Any) -> Any:
    return msgspec.structs.replace(header, layout=layout)


def test_histograms_count_classes_or_predicted_words() -> None:
    classes = Examples(x=np.zeros((4, 1), np.float32), y=np.array([0, 2, 2, 2]))
    assert histogram(classes, Task.CLASSIFY, 4).tolist() == [0.25, 0, 0.75, 0]
    words = Examples(x=np.array([[3, 1, 2, 0], [3, 2, 2, 2]]))  # the first word is never predicted, 0 pads
    assert histogram(words, Task.NEXT_TOKEN, 4) == pytest.approx([0, 0.2, 0.8, 0])
    several = replace(classes, y=np.array([[1, 0, 1], [0, 0, 1]], np.float32))
    assert histogram(several, Task.MULTI_LABEL, 3).tolist() == [0.5, 0, 1]
    with pytest.raises(AttackError, match="needs class labels"):
        histogram(replace(classes, y=None), Task.CLASSIFY, 4)


def test_rows_are_scaled_to_length_one_and_zeros_stay() -> None:
    rows = unit(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


def test_spread_gives_strangers_the_lowest_score() -> None:
    scores = np.array([[0.5, -2.0]], dtype=np.float32)
    assert fill_missing_candidates(scores, np.array([1, 3]), 4).tolist() == [[-2.0, 0.5, -2.0, -2.0]]

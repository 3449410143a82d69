"""Algorithm 2 of Song et al. (2020): queues of past representatives, one vote each, and the majority."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.link.cosine import LinkCosine
from fedleak.attacks.link.voting import Named, majority, mean_similarity, name_updates, same_identity
from fedleak.core import FloatArray, rng_for
from fedleak.games.game import GameInstance
from fedleak.games.link import Link
from fedleak.games.traces.clients import write_clients
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER


def at(*degrees: float) -> FloatArray:
    """Unit vectors at these angles."""
    angle = np.radians(np.asarray(degrees))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


# In the last round the first identity is nearer in two slots of three, the second one much nearer in the third.
DISAGREEING = [at(80, -5), at(50, -55), at(50, -55), at(0)]


def test_the_majority_names_an_update_even_where_the_mean_says_otherwise() -> None:
    queues = np.stack(DISAGREEING[:3])
    similarity = queues @ DISAGREEING[3][0]
    assert similarity.mean(axis=0).argmax() == 1
    named, votes = majority(similarity)
    assert named == 0 and votes.tolist() == [2, 1]
    assert mean_similarity(DISAGREEING[2::-1], DISAGREEING[3])[:, 0].argmax() == 1


def test_an_attack_that_votes_follows_the_majority_and_one_that_averages_the_mean() -> None:
    vectors = dict(enumerate(DISAGREEING, 1))
    voted = LinkCosine(history="vote")._compared(vectors, [1, 2, 3, 4], 3, 4, threshold=0.0)
    averaged = LinkCosine(history="mean")._compared(vectors, [1, 2, 3, 4], 3, 4, threshold=0.0)
    assert (voted[:, 0] > 0).tolist() == [True, False]
    assert averaged[:, 0].argmax() == 1


def test_queues_begin_with_the_first_round_k_times() -> None:
    """In the second round the first one's representatives have all three votes."""
    _, second = name_updates([at(0, 90), at(80, 10)], 3)
    assert second.identity.tolist() == [1, 0]
    assert second.votes.tolist() == [[0, 3], [3, 0]]


def test_a_queue_forgets_what_is_older_than_k_rounds() -> None:
    """A client that turns slowly is followed to where the other one began, because the queue moves along."""
    turning = [at(angle, 180 + angle) for angle in range(0, 181, 20)]
    assert [named.identity.tolist() for named in name_updates(turning, 3)] == [[0, 1]] * len(turning)
    jumped = name_updates([turning[0], turning[-1]], 3)[1]
    assert jumped.identity.tolist() == [1, 0]


def test_a_queue_holds_k_representatives() -> None:
    """After two more rounds the first one still has a vote of three, and none of two."""
    rounds = [at(0, 90), at(-40, 50), at(-40, 50), at(8)]
    # Slot by slot, oldest first: 0 or 90 degrees, -40 or 50, -40 or 50.
    assert name_updates(rounds, 3)[3].votes[0].tolist() == [1, 2]
    assert name_updates(rounds, 2)[3].votes[0].tolist() == [0, 2]


def test_two_updates_of_a_round_may_get_one_identity() -> None:
    """The paper's algorithm assigns one by one; nothing keeps an identity to one update in a round."""
    _, second = name_updates([at(0, 90), at(10, 20)], 3)
    assert second.identity.tolist() == [0, 0]


def test_where_every_slot_disagrees_the_newest_decides() -> None:
    assert majority(np.eye(3)[[1, 0, 2]])[0] == 2
    assert majority(np.eye(3)[[1, 1, 2]])[0] == 1


def test_pairs_of_one_identity_are_above_zero_and_first_by_votes() -> None:
    earlier = Named(np.array([0, 1]), 3 * np.eye(2, dtype=np.int64))
    later = Named(np.array([0, 0, 1]), np.array([[2, 1], [3, 0], [1, 2]]))
    alike: npt.NDArray[np.float32] = np.array([[1, -1, 1], [1, 1, -1]], dtype=np.float32)
    scores = same_identity(earlier, later, alike, 3)
    assert (scores > 0).tolist() == [[True, True, False], [False, False, True]]
    assert scores[0].argmax() == 1  # three votes, though another update is more similar
    assert np.abs(scores).max() <= 1.25


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clients(tmp_path_factory.mktemp("clients"), 0, leak=True)


def ask(run: Path) -> GameInstance:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    return Link().ask(trace, truth, prior, rng_for(0))


@pytest.mark.parametrize("steps", ["gap", "every"])
def test_votes_link_the_updates_of_a_run(run: Path, steps: str) -> None:
    asked = ask(run)
    view, questions = asked.look(run / "trace", ANONYMOUS_SERVER)
    attack = LinkCosine(shadows=6, history="vote", steps=steps)  # type: ignore[arg-type]
    claims = attack.run(view, asked.prior, questions, AttackContext(rng_for(0, "attack")))[:, 0]
    assert np.isfinite(claims).all()
    same = asked.answers.right == 1
    assert (claims[same] > 0).mean() > 0.7 and (claims[~same] > 0).mean() < 0.1


def test_the_rounds_of_a_history_are_as_far_apart_as_the_two_compared_or_all_there_are() -> None:
    number = np.repeat(np.arange(1, 12), 2)
    assert LinkCosine()._history(number, 7, 9) == [7, 9]
    assert LinkCosine(history="vote")._history(number, 7, 9) == [1, 3, 5, 7, 9]
    assert LinkCosine(history="vote", steps="every")._history(number, 7, 9) == list(range(1, 10))
    assert LinkCosine(history="mean")._history(number, 7, 9) == [3, 5, 7, 9]
    assert LinkCosine(history="mean", steps="every")._history(number, 7, 9) == [5, 6, 7, 9]

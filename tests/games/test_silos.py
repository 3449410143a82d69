"""Many users behind one client: what is asked, what is scored, and that nothing personal is never called a leak."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from silo_noise import attacked
from silos import Leak, write_silos

from fedleak.core import UserId, rng_for
from fedleak.errors import AttackError, TraceError
from fedleak.games.game import GameInstance
from fedleak.games.identify import Identify
from fedleak.games.match import Match
from fedleak.games.pairs import behind_clients
from fedleak.pipeline.attack_runner import refuse_many_users
from fedleak.results.audit import Score
from fedleak.score.score import decide, measure, measure_all, metric_of, scores_of, verdict
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

GAME = Match(pairs=1600)


def ask(folder: Path, game: Match = GAME, seed: int = 0) -> GameInstance:
    trace, truth, prior = Trace.open(folder / "trace"), Truth.load(folder / "truth"), Prior.load(folder / "prior")
    return game.ask(trace, truth, prior, rng_for(seed, "game"))


def decided(folder: Path) -> bool | None:
    found = measure([attacked(folder, GAME)], metric_of(GAME, "ap"), level=0.95, permutations=60)
    return decide(found, level=0.95).leaks


def test_the_answer_is_whether_the_client_holds_the_users_data(tmp_path: Path) -> None:
    folder = write_silos(tmp_path, 0, [6] * 5, "shared")
    given, truth, trace = ask(folder), Truth.load(folder / "truth"), Trace.open(folder / "trace")
    prior = Prior.load(folder / "prior")
    first, second = given.questions.updates.T
    homes = [truth.homes[prior.candidates[i]] for i in np.asarray(trace.shadow)[first]]
    sent = [truth.silos[trace.header.clients[i]] for i in np.asarray(trace.client)[second]]
    assert given.answers.right.tolist() == [int(home == silo) for home, silo in zip(homes, sent, strict=True)]
    assert given.answers.behind is not None and given.answers.scored is not None
    assert len(np.unique(given.answers.behind[given.answers.scored])) == 30
    assert sorted(given.prior.candidates) == sorted(prior.candidates)
    assert given.prior.candidates != prior.candidates  # the order of the prior would tell which users go together
    # The labels in the view go with the shuffled candidates.
    shown = np.asarray(trace.shadow)
    for row in np.flatnonzero(shown >= 0)[:50]:
        assert given.prior.candidates[given.shadow[row]] == prior.candidates[shown[row]]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=9),
    st.integers(1, 6),
    st.sampled_from([40, 400, 4000]),
    st.integers(0, 100),
)
def test_half_of_the_scored_pairs_match_and_every_place_can_be_exchanged(
    sizes: list[int], updates: int, most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    home = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    firsts = [np.arange(3) + 3 * user for user in range(len(home))]
    seconds = [1000 + np.arange(updates) + updates * client for client in range(len(sizes))]
    drawn = behind_clients(firsts, home, seconds, most, rng)
    if sum(size > 0 for size in sizes) < 2:
        assert len(drawn.scored) == 0
        return
    assert len({*zip(drawn.first.tolist(), drawn.second.tolist(), strict=True)}) == len(drawn.first)
    if not len(drawn.scored):  # few pairs may hold the updates of one client only
        assert most == 40 or updates == 1
        return
    right = drawn.right[drawn.scored]
    assert right.mean() == 0.5
    for side in (drawn.first, drawn.second):
        side = side[drawn.scored]
        assert Counter(side[right == 1].tolist()) == Counter(side[right == 0].tolist())
    cells = {tuple(cell) for cell in drawn.cells.tolist()}
    assert len(cells) == len(drawn.first)
    of_scored = drawn.cells[drawn.scored]
    for grid, fixed, _, number in np.unique(of_scored, axis=0).tolist():
        for client in np.unique(drawn.cells[drawn.cells[:, 0] == grid, 2]).tolist():
            assert (grid, fixed, client, number) in cells


def test_a_client_with_few_users_does_not_cost_the_others_theirs() -> None:
    home = np.repeat(np.arange(6), [1, 20, 20, 20, 20, 20])
    firsts, seconds = [np.asarray([user]) for user in range(101)], [1000 + np.arange(4) + 4 * at for at in range(6)]
    drawn = behind_clients(firsts, home, seconds, 4000, np.random.default_rng(0))
    assert set(drawn.first.tolist()) == set(range(101))  # all are asked
    assert set(drawn.first[drawn.scored].tolist()) == set(range(1, 101))


@pytest.mark.parametrize("leak", ["nothing", "clusters"])
def test_nothing_personal_is_seldom_called_a_leak(tmp_path: Path, leak: Leak) -> None:
    found = [decided(write_silos(tmp_path / str(seed), seed, [5] * 6, leak)) for seed in range(40)]
    # At a rate of 5%, 7 or more of 40 are called a leak in 1 of 300 cases.
    assert None not in found and sum(map(bool, found)) <= 6


def test_what_users_share_with_the_updates_of_their_client_is_a_leak(tmp_path: Path) -> None:
    found = [decided(write_silos(tmp_path / str(seed), seed, [8] * 6, "shared")) for seed in range(4)]
    assert found == [True] * 4


def test_four_clients_are_too_few_however_many_users_they_have(tmp_path: Path) -> None:
    result = attacked(write_silos(tmp_path, 0, [12] * 4, "shared"), GAME)
    found = measure_all([result], GAME, level=0.95, permutations=100)
    decision = decide(found["ap"], level=0.95)
    assert (decision.leaks, found["ap"].users, found["ap"].clients) == (None, 48, 4)
    assert verdict(found["ap"], decision) == "no verdict: 48 users of 4 clients, too few clients (at least 5)"
    labels = {"attack": "match-cosine", "adversary": "anonymous-server", "game": "match"}
    score: Score = scores_of(found, GAME, 0.95, [0], **labels)["ap"]
    assert (score.users, score.clients, score.leaks) == (48, 4, None)
    assert "48 users of 4 clients" in score.in_words


def test_a_client_that_started_again_is_the_same_silo(tmp_path: Path) -> None:
    folder = write_silos(tmp_path, 0, [6] * 6, "shared")
    truth = Truth.load(folder / "truth")
    silos, homes = dict(truth.silos), dict(truth.homes)
    [first, second] = [client for client, silo in silos.items() if silo in ("hospital-0", "hospital-1")]
    silos[second] = silos[first]
    homes = {user: "hospital-0" if silo == "hospital-1" else silo for user, silo in homes.items()}
    Truth(users=truth.users, client_user=truth.client_user, attributes={}, silos=silos, homes=homes).save(
        folder / "truth"
    )
    found = measure([attacked(folder, GAME)], metric_of(GAME, "ap"), level=0.95, permutations=40)
    assert found.clients == 5


@pytest.mark.parametrize("game", [Identify(), Match(between="anonymous")], ids=lambda game: game.name)
def test_a_game_about_one_user_per_client_is_refused_with_the_unit_to_choose(tmp_path: Path, game: Identify) -> None:
    truth = Truth.load(write_silos(tmp_path, 0, [3] * 4, "shared") / "truth")
    with pytest.raises(AttackError, match='12 users are behind 4 clients; set unit = "client"'):
        refuse_many_users(truth, game)
    refuse_many_users(truth, GAME)


@pytest.mark.parametrize(
    ("silos", "homes", "wrong"),
    [
        ({"c-1": "north"}, {"p-1": "south"}, "the silo 'south', which has no client"),
        ({"c-1": "north"}, {"p-9": "north"}, "'p-9', who is not among its users"),
    ],
)
def test_a_truth_with_a_user_of_no_silo_is_refused(
    tmp_path: Path, silos: dict[str, str], homes: dict[str, str], wrong: str
) -> None:
    Truth(
        users=(UserId("p-1"),),
        client_user={},
        attributes={},
        silos=silos,
        homes={UserId(user): silo for user, silo in homes.items()},
    ).save(tmp_path)
    with pytest.raises(TraceError, match=wrong):
        Truth.load(tmp_path)

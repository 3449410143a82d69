"""No question says anything about its answer: attacks that see only the questions are at chance, in every game.

The attacks below see which rows are asked about, in which combination and order, with which options, names and
handles, and the round of every row; some also see which updates are of one client. They never look at an update. Each
gives every possible answer a number, and is at chance if right answers have neither higher nor lower numbers than
others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm, rankdata

from fedleak.core import IntArray, Layer, Task, UserId, rng_for
from fedleak.federation.federation import Round
from fedleak.games.attribute import Attribute
from fedleak.games.cross_modal import CrossModal, Described
from fedleak.games.disaggregate import Disaggregate, MeanQuestions
from fedleak.games.extract import Extract, RecordQuestions
from fedleak.games.game import GameInstance
from fedleak.games.identify import Identify
from fedleak.games.link import Link
from fedleak.games.match import Match
from fedleak.games.profile import Profile
from fedleak.games.reconstruct import Reconstruct
from fedleak.population.population import Examples, Records
from fedleak.trace.evidence import Evidence
from fedleak.trace.header import Header
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter
from fedleak.views.adversaries import ANONYMOUS_SERVER, SERVER
from fedleak.views.view import View

Values = npt.NDArray[np.float64]

SIZES, SEEDS, ROUNDS, CLASSES = (5, 9, 30), range(8), 24, 3
LAYOUT = (Layer("out", (("weight", (1, 2)),)),)


@dataclass(frozen=True)
class World:
    """One synthetic run, and what the games read of it."""

    trace: Trace
    truth: Truth
    prior: Prior

    def ask(self, game: Any, seed: int) -> GameInstance:
        asked: GameInstance = game.ask(self.trace, self.truth, self.prior, rng_for(seed, "carry nothing"))
        return asked


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], World]:
    folder = tmp_path_factory.mktemp("worlds")
    return {(size, seed): write(folder / f"{size}-{seed}", size, seed) for size in SIZES for seed in SEEDS}


def write(folder: Path, count: int, seed: int) -> World:
    """Users with a client and a shadow client each, of whom a random half takes part in every round."""
    rng = rng_for(seed, "world", count)
    users = tuple(UserId(f"user-{i:02}") for i in range(count))
    order = rng.permutation(2 * count)
    names = tuple(f"d-{number:06x}" for number in rng.choice(16**6, 2 * count, replace=False))
    header = Header(
        fingerprint=f"world {count} {seed}",
        rounds=ROUNDS,
        task=Task.CLASSIFY,
        model="made-up",
        layout=LAYOUT,
        clients=names,
        shadow=tuple(int(i) if i < count else -1 for i in order),
        settings={"input_shape": [1, 4, 4]},
    )
    writer = TraceWriter.open(folder, header)
    nothing = {"out": np.zeros(2, dtype=np.float32)}
    writer.start(nothing)
    for number in range(1, ROUNDS + 1):
        chosen = rng.choice(2 * count, count, replace=False)
        updates = {"out": rng.normal(size=(count, 2)).astype(np.float32)}
        sizes = np.full(count, 6, dtype=np.int64)
        writer.append(
            Round(number=number, clients=chosen, sizes=sizes, updates=updates, aggregate=nothing, weights=nothing)
        )

    def images(count: int) -> Examples:
        return Examples(x=rng.random((count, 1, 4, 4)).astype(np.float32), y=np.arange(count) % CLASSES)

    group = rng.permutation(count) % 2
    held = tuple(images(6) for _ in users)
    prior = Prior(
        candidates=users,
        examples=held,
        task=Task.CLASSIFY,
        outputs=CLASSES,
        background=Background(examples=images(12), shows={"marked": np.arange(12, dtype=np.int8) % 2}),
        records=Records(form="pin {d4}", characters=("<pad>", "<unknown>", "\n", " ", *"pin", *"0123456789")),
    )
    pins = rng.choice(10**4, count, replace=False)
    truth = Truth(
        users=users,
        client_user={name: users[i % count] for name, i in zip(names, order.tolist(), strict=True)},
        attributes={user: {"group": ("even", "odd")[of]} for user, of in zip(users, group, strict=True)},
        traits={user: {"marked": float(of)} for user, of in zip(users, group, strict=True)},
        secrets={user: (f"pin {pin:04}",) for user, pin in zip(users, pins, strict=True)},
        evidence=Evidence(held=replace(prior, background=None), bystanders=prior),
    )
    return World(Trace.open(folder), truth, prior)


def played(worlds: dict[tuple[int, int], World], game: Any) -> Iterator[tuple[World, GameInstance, int]]:
    """The game on every run."""
    for (_, seed), world in worlds.items():
        yield world, world.ask(game, seed), seed


def at_chance(values: list[float], chance: float, what: str) -> None:
    """Within five standard errors of chance, over all runs: there are many attacks, and the error is estimated."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert abs(np.mean(values) - chance) <= 5 * error + 1e-9, f"{what}: {np.mean(values):.3f} +- {error:.3f}"
    assert error < 0.1, f"{what}: {error:.3f}, too imprecise to tell"


def area(score: Values, right: IntArray) -> float:
    """The area under the ROC curve."""
    yes = int((right == 1).sum())
    below = rankdata(score)[right == 1].sum() - yes * (yes + 1) / 2
    return float(below / (yes * (len(right) - yes)))


# Games about pairs. Without links every update has a handle of its own; with them, updates of a client share one.

PAIRS = [
    Match(pairs=3000),
    Match(pairs=300),
    Match(between="anonymous", pairs=3000),
    Match(between="anonymous", pairs=300),
    Match(seen=0.5, held_out=0.25, pairs=3000),
    Link(starts=3),
    CrossModal(learn_from="everyone", pairs=3000),
    CrossModal(held_out=0.3, pairs=300),
]


@dataclass(frozen=True)
class Pairs:
    """Two sides of each question as numbers: rows, or users and clients for an adversary that can link updates."""

    first: IntArray
    second: IntArray
    known: View

    @staticmethod
    def of(world: World, asked: GameInstance, linked: bool) -> Pairs:
        view, questions = asked.look(world.trace.folder, SERVER if linked else ANONYMOUS_SERVER)
        sides = questions.updates if questions.updates.ndim == 2 else np.stack([questions.updates] * 2, axis=1)
        first, second = sides.T
        if linked:
            first, second = (view.updates.handle.astype(np.int64)[side] for side in (first, second))
        return Pairs(questions.candidate if isinstance(questions, Described) else first, second, view)


def degree(side: IntArray) -> Values:
    count = Counter(side.tolist())
    return np.asarray([count[one] for one in side.tolist()], dtype=np.float64)


def together(pairs: Pairs) -> Values:
    """How often the same two are asked about."""
    return degree(pairs.first * 10**9 + pairs.second)


def partners(pairs: Pairs) -> Values:
    """How many of the other side each two have both been asked with, seen from the first."""
    met: dict[int, set[int]] = {}
    for one, other in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
        met.setdefault(other, set()).add(one)
    peers = Counter(map(frozenset, met.values()))
    return np.asarray([peers[frozenset(met[other])] for other in pairs.second.tolist()], dtype=np.float64)


STRUCTURE: dict[str, Callable[[Pairs], Values]] = {
    "position": lambda pairs: np.arange(len(pairs.first), dtype=np.float64),
    "first": lambda pairs: pairs.first.astype(np.float64),
    "second": lambda pairs: pairs.second.astype(np.float64),
    "distance": lambda pairs: np.abs(pairs.first - pairs.second).astype(np.float64),
    "degree of the first": lambda pairs: degree(pairs.first),
    "degree of the second": lambda pairs: degree(pairs.second),
    "together": together,
    "partners": partners,
}


@pytest.mark.parametrize("linked", [False, True], ids=["anonymous", "linked"])
@pytest.mark.parametrize("game", PAIRS, ids=repr)
def test_which_pairs_are_asked_about_says_nothing(
    worlds: dict[tuple[int, int], World], game: Any, linked: bool
) -> None:
    if linked and (isinstance(game, Link) or getattr(game, "between", "") == "anonymous"):
        pytest.skip("links are the answer")
    areas: dict[str, list[float]] = {}
    for world, asked, _ in played(worlds, game):
        scored = np.arange(len(asked.questions)) if asked.answers.scored is None else asked.answers.scored
        pairs = Pairs.of(world, asked, linked)
        for name, attack in STRUCTURE.items():
            areas.setdefault(name, []).append(area(attack(pairs)[scored], asked.answers.right[scored]))
    for name, found in areas.items():
        at_chance(found, 0.5, name)


def less_the_mean(score: Values, by: IntArray) -> Values:
    """The score less the mean over all questions with the same value."""
    _, group = np.unique(by, return_inverse=True)
    return np.asarray(score - (np.bincount(group, score) / np.bincount(group))[group])


@pytest.mark.parametrize("game", [game for game in PAIRS if not isinstance(game, Link)], ids=repr)
def test_comparing_the_questions_about_one_update_gains_no_more_than_knowing_all_users(
    worlds: dict[tuple[int, int], World], game: Any
) -> None:
    """A weak signal is added to noise; what it gains must be what a choice between all users in question gains."""
    shift, gains = 1.0, dict[str, list[float]]()
    for world, asked, seed in played(worlds, game):
        scored, right = asked.answers.scored, asked.answers.right
        assert scored is not None
        score = rng_for(seed, "weak").normal(size=len(right)) + shift * right
        users = len(np.unique(asked.answers.who[:, 0]))
        allowed = norm.cdf(shift / np.sqrt(2) * np.sqrt(users / (users - 1))) - norm.cdf(shift / np.sqrt(2))
        for linked in (False, True):
            pairs = Pairs.of(world, asked, linked)
            if linked and getattr(game, "between", "") == "anonymous":
                continue
            for name, side in (("second", pairs.second), ("first", pairs.first)):
                gain = area(less_the_mean(score, side)[scored], right[scored]) - area(score[scored], right[scored])
                gains.setdefault(f"{name}, linked={linked}", []).append(gain - allowed)
    for name, found in gains.items():
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        assert np.mean(found) <= 3 * error, f"{name}: gains {np.mean(found):.3f} +- {error:.3f} too much"
        assert error < 0.02


# Games with several options, or one, about one update.


def orders(world: World, asked: GameInstance) -> dict[str, Values]:
    """Every question as numbers that need no look at its update."""
    found = {"position": np.arange(len(asked.questions), dtype=np.float64)}
    for adversary in (SERVER, ANONYMOUS_SERVER):
        view, questions = asked.look(world.trace.folder, adversary)
        handle = view.updates.handle[questions.updates]
        found[f"handle for {adversary.name}"] = rankdata(handle, method="dense")
        found["row"], found["round"] = (
            x.astype(np.float64) for x in (questions.updates, view.updates.round[questions.updates])
        )
    return found | {f"how often, {name}": degree(one.astype(np.int64)) for name, one in found.items()}


@pytest.mark.parametrize(
    "game",
    [
        Identify(),
        Identify(seen=0.5, held_out=0.25),
        Attribute(attribute="group"),
        Attribute(attribute="group", users="new"),
    ],
    ids=repr,
)
def test_which_updates_are_asked_about_does_not_rank_the_options(
    worlds: dict[tuple[int, int], World], game: Any
) -> None:
    places: dict[str, list[float]] = {}
    for world, asked, _ in played(worlds, game):
        options, right = len(asked.questions.options), asked.answers.right
        for name, value in orders(world, asked).items():
            # By the order of both: the first update is the first user's, and the reverse.
            guess = (value - value.min()) / max(1.0, float(np.ptp(value))) * (options - 1)
            rank = rankdata(np.abs(np.arange(options) - guess[:, None]), axis=1)
            # A blind guess of a middle option is nearer to all others: compared with what it gives to any answer.
            mine = rank[np.arange(len(right)), right]
            blind = np.mean([rank[:, answer].mean() * np.mean(right == answer) for answer in range(options)]) * options
            places.setdefault(name, []).append(float((mine.mean() - blind) / options))
    for name, found in places.items():
        at_chance(found, 0.0, name)


def test_which_update_of_a_client_is_asked_about_does_not_say_whether_its_user_fits(
    worlds: dict[tuple[int, int], World],
) -> None:
    areas: dict[str, list[float]] = {}
    for world, asked, _ in played(worlds, Profile(trait="marked")):
        for name, value in orders(world, asked).items():
            areas.setdefault(name, []).append(area(value, asked.answers.right))
    for name, found in areas.items():
        at_chance(found, 0.5, name)


# Games about clients: does the order in which they are asked about go with anything in the answers?


def goes_with(one: Any, other: Any) -> float:
    """Spearman's correlation."""
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def test_the_order_of_clients_and_of_listed_records_do_not_go_together(worlds: dict[tuple[int, int], World]) -> None:
    order, names = [], []
    for (size, seed), world in worlds.items():
        known = replace(world, prior=replace(world.prior, candidates=(), examples=()))
        asked = known.ask(Extract(listed=3 * size), seed)
        assert isinstance(asked.questions, RecordQuestions)
        user = {client: world.truth.client_user[client] for client in asked.questions.clients}
        own = [asked.questions.listed.index(world.truth.secrets[user[name]][0]) for name in asked.questions.clients]
        order.append(goes_with(np.arange(len(own)), own))
        names.append(
            goes_with(np.arange(len(own)), [world.truth.users.index(user[n]) for n in asked.questions.clients])
        )
    at_chance(order, 0.0, "the list")
    at_chance(names, 0.0, "users")


def test_the_order_of_clients_does_not_go_with_users(worlds: dict[tuple[int, int], World]) -> None:
    found = []
    for world, asked, _ in played(worlds, Disaggregate()):
        assert isinstance(asked.questions, MeanQuestions)
        users = [world.truth.users.index(UserId(user)) for user in asked.answers.users]
        found.append(goes_with(np.arange(len(users)), users))
    at_chance(found, 0.0, "users")


def test_a_victims_other_updates_are_before_the_asked_one_as_often_as_after(
    worlds: dict[tuple[int, int], World],
) -> None:
    after, order = [], []
    for world, asked, _ in played(worlds, Reconstruct(victims=8)):
        client, number = np.asarray(world.trace.client), np.asarray(world.trace.round)
        for row in asked.questions.updates:
            rest = number[(client == client[row]) & (np.arange(len(client)) != row)]
            after.append(float(np.mean(rest > number[row])))
        order.append(goes_with(np.arange(len(asked.questions)), asked.answers.who))
    at_chance(after, 0.5, "later updates")
    at_chance(order, 0.0, "users")

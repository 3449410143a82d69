"""Audits in which there is nothing to find: several attacks on one question, whose predictions are noise.

The noise is like that of real attacks: updates of one user share it, users share it between seeds, and attacks share it
with each other. `python tests/score/noise.py` prints how often noise is called a leak, by game and number of users.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np

from fedleak import registry
from fedleak.core import IntArray
from fedleak.games.pairs import Drawn, between_rounds, between_sides
from fedleak.metrics.attack_result import Answers
from fedleak.metrics.disaggregation import MeanUpdates
from fedleak.score.score import AttackResult, decide, measure, metric_of

ATTACKS = 3
Noise = Callable[[int], np.ndarray]
Play = Callable[[int, Sequence[int], np.random.Generator], list[list[AttackResult]]]


def names(users: int) -> tuple[str, ...]:
    return tuple(f"u{i}" for i in range(users))


def shared(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """What each attack believes about users in all seeds, (attacks, *shape): half of it all attacks believe."""
    return rng.normal(size=shape) + rng.normal(size=(ATTACKS, *shape))


def identify(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Updates of a user resemble some other user, in all seeds."""
    believed = shared(rng, (users, users))
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        who = np.repeat(np.arange(users), rng.integers(1, 8, size=users))
        once = rng.normal(size=(users, users))
        for attack, played in enumerate(found):
            claims = (believed[attack] + once)[who] + rng.normal(size=(len(who), users))
            played.append(
                AttackResult(seed, claims.astype(np.float32), who, names(users), "identify", who, names(users))
            )
    return found


def profile(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """A third of the users fit, and an attack takes the same users for fitting in all seeds."""
    fits = rng.permutation(np.arange(users) < max(1, users // 3)).astype(np.int64)
    return traits(users, seeds, rng, fits, ("fits",), "profile")


def attribute(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Three values, one of which is the commonest."""
    value = rng.permutation(np.minimum(2, np.arange(users) * 4 // users))
    return traits(users, seeds, rng, value, ("a", "b", "c"), "attribute")


def traits(
    users: int, seeds: Sequence[int], rng: np.random.Generator, answer: IntArray, options: tuple[str, ...], game: str
) -> list[list[AttackResult]]:
    believed = shared(rng, (users, len(options)))
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        who = np.repeat(np.arange(users), rng.integers(1, 8, size=users))
        for attack, played in enumerate(found):
            claims = believed[attack][who] + rng.normal(size=(len(who), len(options)))
            played.append(AttackResult(seed, claims.astype(np.float32), answer[who], options, game, who, names(users)))
    return found


def match_prior(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """A prior resembles the updates of some user, not more often its own; pairs as the game draws them."""
    believed = shared(rng, (users, users))
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        firsts, seconds = (np.array_split(np.arange(6 * users), users) for _ in range(2))
        drawn = between_sides(firsts, seconds, 40 * users, rng)
        grid(found, seed, believed, np.stack([drawn.first // 6, drawn.second // 6], axis=1), drawn, users, rng)
    return found


def match_anonymous(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Clients look alike to the attack early in a run and late, but how they look early says nothing of later."""
    early, late = shared(rng, (users,)), shared(rng, (users,))
    believed = 0.7 * (early[:, :, None] + late[:, None, :]) + 0.3 * shared(rng, (users, users))
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        number, user = np.nonzero(rng.random((16, users)) < 0.7)
        drawn = between_rounds(np.arange(len(user)), user, number, 40 * users, rng)
        grid(found, seed, believed, np.stack([user[drawn.first], user[drawn.second]], axis=1), drawn, users, rng)
    return found


def grid(
    found: list[list[AttackResult]],
    seed: int,
    believed: np.ndarray,
    who: IntArray,
    drawn: Drawn,
    users: int,
    rng: np.random.Generator,
) -> None:
    answers = Answers(right=drawn.right, who=who, users=names(users), scored=drawn.scored, cells=drawn.cells)
    for attack, played in enumerate(found):
        claims = (believed[attack][who[:, 0], who[:, 1]] + rng.normal(size=len(who))).astype(np.float32)
        played.append(AttackResult.of(seed, claims[:, None], "match", ("same",), 1, answers))


def pairs(
    found: list[list[AttackResult]],
    seed: int,
    believed: np.ndarray,
    who: IntArray,
    right: IntArray,
    users: int,
    rng: np.random.Generator,
    gallery: IntArray | None = None,
) -> None:
    for attack, played in enumerate(found):
        claims = believed[attack][who[:, 0], who[:, 1]] + rng.normal(size=len(who))
        game = "match" if gallery is None else "link"
        played.append(
            AttackResult(
                seed, claims[:, None].astype(np.float32), right, ("same",), game, who, names(users), gallery=gallery
            )
        )


def link(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Half of the clients take part in a round; how they look in early rounds says nothing of later ones."""
    believed = shared(rng, (users, users))
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        rows = []
        for start in range(6):
            first, later = (rng.choice(users, max(2, (users + 1) // 2), replace=False) for _ in range(2))
            later[0] = first[0]  # someone returns
            later = np.unique(later)
            grid = np.stack(np.meshgrid(first, later, indexing="ij"), axis=-1).reshape(-1, 2)
            rows.append(np.column_stack([grid, 100 * start + grid[:, 0]]))
        table = np.concatenate(rows)
        who, gallery = table[:, :2], np.column_stack([np.ones(len(table), dtype=np.int64), table[:, 2]])
        pairs(found, seed, believed, who, (who[:, 0] == who[:, 1]).astype(np.int64), users, rng, gallery)
    return found


def took_part(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Some users take part often; the attack's guesses differ by user and by round."""
    believed, often = shared(rng, (users,)), rng.uniform(0.2, 0.8, size=users)
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        who = np.tile(np.arange(users), 12)
        right = (rng.random(len(who)) < often[who]).astype(np.int64)
        for attack, played in enumerate(found):
            claims = believed[attack][who] + rng.normal(size=len(who))
            played.append(
                AttackResult(seed, claims[:, None].astype(np.float32), right, ("yes",), "match", who, names(users))
            )
    return found


def extract(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Every secret is known, and nothing of whose it is."""
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    for seed in seeds:
        secrets = rng.integers(1, 11, size=(users, 9))
        for played in found:
            lists = np.stack([secrets[rng.permutation(users)] for _ in range(users)]).astype(np.int32)
            played.append(
                AttackResult(seed, lists, secrets, (), "extract", np.arange(users), names(users), choices=10**9)
            )
    return found


def disaggregate(users: int, seeds: Sequence[int], rng: np.random.Generator) -> list[list[AttackResult]]:
    """Estimates of mean updates that have nothing to do with them."""
    found: list[list[AttackResult]] = [[] for _ in range(ATTACKS)]
    who = np.arange(users)
    for seed in seeds:
        answers = MeanUpdates(right=who, who=who, users=names(users), means=rng.normal(size=(users, 5)))
        common = rng.normal(size=(users, 5))
        for played in found:
            claims = (common + rng.normal(size=(users, 5))).astype(np.float32)
            played.append(AttackResult.of(seed, claims, "disaggregate", (), users, answers))
    return found


GAMES: dict[str, tuple[Play, str]] = {
    "identify, ap": (identify, "ap"),
    "identify, top1": (identify, "top1"),
    "match prior, ap": (match_prior, "ap"),
    "match prior, auc": (match_prior, "auc"),
    "match anonymous, ap": (match_anonymous, "ap"),
    "took part, ap": (took_part, "ap"),
    "profile, ap": (profile, "ap"),
    "profile, p5": (profile, "p5"),
    "attribute, top1": (attribute, "top1"),
    "attribute, ap": (attribute, "ap"),
    "link, gap1": (link, "gap1"),
    "link, matched": (link, "matched"),
    "link, auc": (link, "auc"),
    "extract, top1": (extract, "top1"),
    "extract, distance1": (extract, "distance1"),
    "disaggregate, recovered": (disaggregate, "recovered"),
}


def called(game: str, users: int, seeds: int, audit: int, permutations: int = 100) -> bool | None:
    """Whether any attack of one audit is called a leak; None: no verdict is given."""
    play, name = GAMES[game]
    rng = np.random.default_rng([audit, users, seeds, len(game)])
    played = play(users, range(seeds * audit, seeds * (audit + 1)), rng)
    metric = metric_of(registry.load("game", played[0][0].game), name)
    tried = [measure(one, metric, level=0.95, permutations=permutations) for one in played]
    found = [decide(one, level=0.95, tried=tried, lower_leaks=metric.lower_leaks).leaks for one in tried]
    return None if None in found else any(found)


def rate(game: str, users: int, seeds: int, audits: int) -> float | None:
    """The share of audits in which noise is called a leak; None: no verdict is given about so few users."""
    hits = 0
    for audit in range(audits):
        found = called(game, users, seeds, audit)
        if found is None:
            return None
        hits += found
    return hits / audits


def show(audits: int, users: Sequence[int] = (2, 3, 4, 5, 6, 8, 10, 12, 20, 40)) -> None:
    """Print the shares by game and number of users, with one and with two seeds; `-`: no verdict."""
    print(f"{'users':34}" + "".join(f"{count:>7}" for count in users))
    for game in GAMES:
        for seeds in (1, 2):
            rates = [rate(game, count, seeds, audits) for count in users]
            shown = "".join(f"{'-' if one is None else f'{one:.3f}':>7}" for one in rates)
            print(f"{game + (', 2 seeds' if seeds == 2 else ''):34}{shown}", flush=True)


if __name__ == "__main__":
    show(int(sys.argv[1]) if len(sys.argv) > 1 else 400)

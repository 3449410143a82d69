"""An audit of several games with one analysis of each figure kind, scored as the pipeline would score it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec
import numpy as np
from example_audit import NOISE, example

from fedleak.games.attribute import Attribute
from fedleak.games.extract import Extract
from fedleak.games.game import Game
from fedleak.games.identify import Identify
from fedleak.games.link import Link
from fedleak.games.match import Match
from fedleak.games.profile import Profile
from fedleak.metrics.per_user import user_tail
from fedleak.results.audit import Analysis, Audit, GameFigure, Score, Utility
from fedleak.results.detail import Detail, Figure, Series
from fedleak.score.assemble import about
from fedleak.score.score import AttackResult, scores_of
from scored import measure

USERS = tuple(f"writer-{i:03d}" for i in range(30))
GAMES: dict[str, Game] = {
    "identify (seen=0.5)": Identify(seen=0.5),
    "match": Match(),
    "profile": Profile(trait="bars"),
    "attribute": Attribute(attribute="age"),
    "link": Link(),
    "extract": Extract(),
}
RUNS: tuple[tuple[dict[str, Any] | None, str | None, float], ...] = (
    (None, None, 1.0),
    (NOISE, None, 0.4),
    (None, "iid", 0.0),
)


def with_games(**changes: Any) -> Audit:
    """The audit; `changes` replaces any field of it."""
    return msgspec.structs.replace(_audit(), **changes)


@cache
def _audit() -> Audit:
    scores: list[Score] = []
    details: list[Detail] = []
    figures: list[GameFigure] = []
    for label, game in GAMES.items():
        for defence, control, left in RUNS:
            played = [play(game.name, 2.2 * left, seed) for seed in (1, 2)]
            labels: dict[str, Any] = {
                "attack": f"{game.name}-mlp",
                "adversary": "anonymous-server",
                "game": label,
                "defence": defence,
                "control": control,
            }
            measured = {
                m.name: measure(played, m.name, level=0.95, permutations=60)
                for m in game.metrics
                if m.applies(played) is True
            }
            found = scores_of(measured, game, 0.95, [1, 2], **labels, utility=_utility(defence))
            scores += found.values()
            parts = msgspec.structs.asdict(game.detail(played, found))
            each = game.metrics[0].each_user
            tail = user_tail(played, each, level=0.95, permutations=60) if each else None
            null = measured[game.metrics[0].name].null.tolist()
            details.append(Detail(**labels, **parts, null=null, user_tail=tail))
            if defence is None and control is None:
                figures += [
                    GameFigure(adversary="anonymous-server", game=label, caption=caption, figure=figure)
                    for figure, caption in game.figures(list(found.values()))
                ]
    return example(
        scores=scores,
        details=details,
        figures=figures,
        games={label: about(game) for label, game in GAMES.items()},
        attacks={score.attack: "A small neural network on one layer." for score in scores},
        analyses=analyses(),
    )


def play(game: str, skill: float, seed: int) -> AttackResult:
    """One attack of so much skill."""
    return _PLAYS[game](skill, np.random.default_rng([seed, len(game)]), seed)


def _identify(skill: float, rng: np.random.Generator, seed: int) -> AttackResult:
    who = np.repeat(np.arange(20), 8)
    right = np.minimum(who, 10)  # the last ten are unseen
    claims = rng.normal(size=(len(who), 11))
    claims[np.arange(len(who)), right] += skill
    return AttackResult(seed, claims.astype(np.float32), right, (*USERS[:10], "unseen"), "identify", who, USERS)


def _match(skill: float, rng: np.random.Generator, seed: int) -> AttackResult:
    first = rng.integers(30, size=400)
    right = np.arange(400) % 2
    second = np.where(right == 1, first, (first + rng.integers(1, 30, size=400)) % 30)
    claims = rng.normal(size=400) + skill * right
    who = np.stack([first, second], axis=1)
    return AttackResult(seed, claims[:, None].astype(np.float32), right, ("same",), "match", who, USERS)


def _link(skill: float, rng: np.random.Generator, seed: int) -> AttackResult:
    """Ten clients, all of which take part in the rounds 1, 2 and 6."""
    gap, first, second = (part.ravel() for part in np.meshgrid([1, 5], np.arange(10), np.arange(10), indexing="ij"))
    right = (first == second).astype(np.int64)
    claims = rng.normal(size=len(right)) + skill * (right - 0.5)
    search = np.stack([gap, 10 * gap + first], axis=1)
    who = np.stack([first, second], axis=1)
    users = tuple(f"{seed}/{name}" for name in USERS)
    return AttackResult(seed, claims[:, None].astype(np.float32), right, ("same",), "link", who, users, gallery=search)


def _profile(skill: float, rng: np.random.Generator, seed: int) -> AttackResult:
    who = np.repeat(np.arange(30), 6)
    right = (who < 6).astype(np.int64)
    claims = rng.normal(size=30)[who] + rng.normal(size=len(who)) + skill * right
    return AttackResult(seed, claims[:, None].astype(np.float32), right, ("fits",), "profile", who, USERS)


def _attribute(skill: float, rng: np.random.Generator, seed: int) -> AttackResult:
    who = np.repeat(np.arange(30), 6)
    right = np.array([0] * 15 + [1] * 9 + [2] * 6)[who]
    claims = rng.normal(size=(30, 3))[who] + rng.normal(size=(len(who), 3))
    claims[np.arange(len(who)), right] += skill
    groups = ("under 20", "20 to under 30", "30 and over")
    return AttackResult(seed, claims.astype(np.float32), right, groups, "attribute", who, USERS)


def _extract(skill: float, rng: np.random.Generator, seed: int) -> AttackResult:
    """Nine digits each, of which the first guess has more right the more skill there is."""
    secrets = rng.integers(1, 11, size=(30, 9))
    claims = rng.integers(1, 11, size=(30, 50, 9)).astype(np.int32)
    known = rng.random((30, 9)) < skill / 2.4
    claims[:, 0] = np.where(known, secrets, claims[:, 0])
    users = tuple(f"{seed}/{name}" for name in USERS)
    return AttackResult(seed, claims, secrets, (), "extract", np.arange(30), users, 10**9)


_PLAYS: Mapping[str, Callable[[float, np.random.Generator, int], AttackResult]] = {
    "identify": _identify,
    "match": _match,
    "link": _link,
    "profile": _profile,
    "attribute": _attribute,
    "extract": _extract,
}


def _utility(defence: dict[str, Any] | None) -> Utility:
    return Utility(
        metric="accuracy",
        value=0.86 if defence else 0.91,
        low=0.85,
        high=0.92,
        higher_is_better=True,
        undefended=0.91 if defence else None,
    )


def analyses() -> list[Analysis]:
    """One of each kind of figure, with what makes each awkward: intervals, names, gaps, negative numbers."""
    rng = np.random.default_rng(3)
    examples = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    curve = [0.08, 0.13, 0.22, 0.35, 0.47, 0.58, 0.66]
    layers = ["embedding", "hidden", "recurrent", "before-the-last", "output"]
    users = [f"writer-{i:03d}" for i in range(6)]
    return [
        Analysis(
            name="priors",
            title="How much must be known of a user beforehand?",
            text="The attack was given fewer and fewer prior examples. Eight are enough for a third of the updates.",
            columns=["prior examples", "AP", "low", "high", "chance"],
            rows=[[x, y, y - 0.04, y + 0.05, 0.041] for x, y in zip(examples, curve, strict=True)],
            figures=[
                Figure(
                    kind="lines",
                    title="Average precision over the number of prior examples",
                    x_label="prior examples of each user",
                    y_label="average precision",
                    log_x=True,
                    series=[
                        Series(
                            name="reid-mlp",
                            x=examples[::-1],
                            y=curve[::-1],
                            low=[y - 0.04 for y in curve[::-1]],
                            high=[y + 0.05 for y in curve[::-1]],
                            labels=[f"{x:g} examples" for x in examples[::-1]],
                        ),
                        Series(name="reid-svm", x=examples, y=[y * 0.8 for y in curve]),
                        Series(name="chance", x=examples, y=[0.041] * 7, reference=True),
                    ],
                )
            ],
        ),
        Analysis(
            name="layers",
            title="Which layer gives most away?",
            text="The attack was given one layer at a time.",
            columns=["layer", "numbers in it", "AP"],
            rows=[[layer, 1000.0 * i, None if i == 2 else 0.1 * i] for i, layer in enumerate(layers)],
            figures=[
                Figure(
                    kind="bars",
                    title="Average precision by layer",
                    x_label="layer, from input to output",
                    y_label="average precision",
                    x_ticks=layers,
                    series=[
                        Series(
                            name=name,
                            x=[0.0, 1.0, 2.0, 3.0, 4.0],
                            y=[k * y for y in (0.1, 0.3, 0.34, 0.6, 0.5)],
                            low=[k * y - 0.03 for y in (0.1, 0.3, 0.34, 0.6, 0.5)],
                            high=[k * y + 0.03 for y in (0.1, 0.3, 0.34, 0.6, 0.5)],
                        )
                        for name, k in (("random prior", 1.0), ("older against newer", 0.7))
                    ]
                    + [Series(name="chance", x=[0.0, 1.0, 2.0, 3.0, 4.0], y=[0.04] * 5, reference=True)],
                )
            ],
        ),
        Analysis(
            name="distances",
            title="Are users nearer to themselves than to others?",
            text="One point a user.",
            columns=["space", "share above the diagonal"],
            rows=[["updates", 0.93], ["raw data", 0.71]],
            figures=[
                Figure(
                    kind="scatter",
                    title="Distances within and between users",
                    x_label="to themselves",
                    y_label="to others",
                    diagonal=True,
                    series=[
                        Series(
                            name=f"{user}, {side}",
                            x=(0.5 + 0.1 * i + 0.03 * rng.normal(size=9)).tolist(),
                            y=(0.8 + 0.05 * rng.normal(size=9)).tolist(),
                            labels=[f"{user}, update {j}" for j in range(9)],
                        )
                        for i, user in enumerate(users)
                        for side in ("prior", "private")
                    ],
                )
            ],
        ),
        Analysis(
            name="rounds",
            title="Does what is learnt early help later?",
            text="Learnt from some rounds, asked about others; and how each user leans.",
            columns=["learnt from", "asked about", "AP"],
            rows=[[f"{a}", f"{b}", 0.5] for a in range(4) for b in range(4)],
            figures=[
                Figure(
                    kind="heatmap",
                    title="Average precision by the rounds learned from and asked about",
                    x_label="rounds asked about",
                    y_label="rounds learnt from",
                    x_ticks=["1-25", "26-50", "51-75", "76-100"],
                    y_ticks=["1-25", "26-50", "51-75", "76-100"],
                    cells=[[None if a + b == 6 else 0.9 - 0.2 * abs(a - b) for b in range(4)] for a in range(4)],
                ),
                Figure(
                    kind="heatmap",
                    title="How far each user's classes lean from everyone's",
                    x_label="class",
                    y_label="user and side",
                    x_ticks=[f"digit {i}" for i in range(10)],
                    y_ticks=[
                        f"{p} (AP 0.{9 - i}1) {side}" for i, p in enumerate(users) for side in ("prior", "private")
                    ],
                    cells=(3 * rng.normal(size=(12, 10))).tolist(),
                ),
            ],
        ),
    ]

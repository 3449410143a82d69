"""A whole audit as the pipeline would write it: 40 users, 5 attacks, 2 defences, 1 control, seeded numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from fedleak.games.identify import Identify
from fedleak.results.audit import Audit, Finding, Score, Threat, Untested, Utility
from fedleak.results.defence_results import Effect, Failure, Promise, Promised, Tradeoff
from fedleak.results.detail import Detail, PerUser
from fedleak.score.assemble import about
from fedleak.score.tradeoff import Price, tradeoffs

ATTACKS = {
    "reid-mlp": "A small neural network learns from the known updates whose is whose (Orekondy et al., 2020).",
    "reid-svm": "A linear support vector machine on the same updates.",
    "reid-knn": "Votes of the ten nearest known updates.",
    "reid-centroid": "Cosine with the mean known update of each user.",
    "reid-labels": "Looks only at how often each class occurs: what the labels alone give away.",
}
NOISE: dict[str, Any] = {"name": "noise", "sigma": 0.02, "relative": True}
AUGMENT: dict[str, Any] = {"name": "rand-aug", "probability": 0.5}
STRENGTH = {"reid-mlp": 0.69, "reid-svm": 0.72, "reid-knn": 0.55, "reid-centroid": 0.61, "reid-labels": 0.21}
PLAN = """title = "Handwritten digits"
seeds = [1]

[dataset]
name = "digits"

[population]
users = 40

[[attacks]]
name = "reid-mlp"

[[defences]]
name = "noise"
sigma = 0.02
"""


def example(users: int = 40, seed: int = 7, names: list[str] | None = None, **changes: Any) -> Audit:
    """Build the audit; `names` overrides the users' names, `changes` any field of the audit."""
    rng = np.random.default_rng(seed)
    everyone = names or [f"writer-{i:03d}" for i in range(users)]
    scores: list[Score] = []
    details: list[Detail] = []
    runs: list[tuple[dict[str, Any] | None, str | None, float, float]] = [
        (None, None, 1.0, 0.912),
        (NOISE, None, 0.16, 0.861),
        (AUGMENT, None, 0.45, 0.921),
        (None, "iid", 0.0, 0.934),
    ]
    for defence, control, left, accuracy in runs:
        utility = Utility(
            metric="accuracy",
            value=accuracy,
            low=accuracy,
            high=accuracy,
            higher_is_better=True,
            undefended=0.912 if defence else None,
            centralised=0.951,
            chance=0.103,
        )
        for attack in ATTACKS:
            detail = _detail(attack, defence, control, STRENGTH[attack] * left, everyone, rng)
            details.append(detail)
            scores += _scores(detail, utility, rng)
    audit: dict[str, Any] = {
        "title": "Handwritten digits",
        "story": "Forty people teach a phone keyboard to read digits. Their phones send only updates of the model.",
        "created": "2026-01-02T03:04:05Z",
        "source": "scikit-learn's digits; each user has habits of their own (slant, scale, favourite digits).",
        "population": {"users": len(everyone), "examples": 4800, "prior": "random", "prior_share": 0.5},
        "federation": {"model": "mlp", "parameters": 5210, "rounds": 100, "fraction": 0.1, "lr": 0.05},
        "findings": [
            Finding(kind="twins", count=2, action="drop", text="2 users share most of their examples with another."),
            Finding(kind="few", count=1, action="drop", text="1 user has fewer than 4 examples."),
        ],
        "threats": [
            Threat(
                name="anonymous-server",
                summary="The server that runs the federation, curious but honest.",
                sees=["the global model of every round", "each client's update, under a fresh handle every round"],
                cannot_see=["which updates come from one client", "the data on a client"],
                capabilities=[],
            )
        ],
        "attacks": ATTACKS,
        "defences": {
            "noise": "Each client adds Gaussian noise to its update before sending it.",
            "rand-aug": "Each client trains on randomly changed copies of its examples.",
        },
        "games": {"identify": about(Identify())},
        "scores": scores,
        "details": details,
        "effects": [
            Effect(defence=NOISE, clients=8, same=0.0, cosine=0.7, norm=1.4, idle=False, text="It differs."),
            Effect(defence=AUGMENT, clients=8, same=1.0, idle=True, text="It has no effect here."),
        ],
        "promises": [Promised(defence=NOISE, promises=[PROMISE])],
        "tradeoffs": [weighed(scores)],
        "failures": [Failure(defence=AUGMENT, seed=3, why="It could not be trained.")],
        "untested": [
            Untested(what="users outside the population", why="the game is closed: one of the 40 users is right"),
            Untested(what="secure aggregation", why="no adversary of this plan sees sums only"),
        ],
        "plan": PLAN,
        "resolved": {"title": "Handwritten digits", "seeds": [1], "federation": {"rounds": 100, "clip": None}},
        "environment": {"fedleak": "0.1.0", "python": "3.11.2", "torch": "2.9.0", "seconds": "58.1"},
    }
    return Audit(**{**audit, **changes})


PROMISE = Promise(
    defence="noise",
    epsilon=3.2,
    hidden_epsilon=1.1,
    per_round=0.5,
    delta=1e-3,
    unit="client",
    adjacency="one client more or less",
    against="the server",
    how="Gaussian mechanism",
    tested=0.5,
    shown=0.7,
    contradicted=True,
)


def weighed(scores: list[Score]) -> Tradeoff:
    """The trade-off that follows from the scores of the example."""
    prices = [
        Price(
            defence=d,
            adaptive=False,
            utility=[u],
            constant=[0.103],
            matched=None,
            steps=[10],
            seconds=[1.0],
            epsilon=e,
        )
        for d, u, e in ((None, 0.93, None), (NOISE, 0.8, 3.2), (AUGMENT, 0.95, None))
    ]
    told = [msgspec.structs.replace(score, headline=score.metric == "ap") for score in scores]
    (found,) = tradeoffs(told, prices, 0.1)
    return found


def _detail(
    attack: str,
    defence: dict[str, Any] | None,
    control: str | None,
    strength: float,
    everyone: list[str],
    rng: np.random.Generator,
) -> Detail:
    chance = 1.6 / len(everyone)
    ap = np.clip(rng.beta(2.2 * strength + 0.02, 2.2 * (1 - strength) + 0.02, len(everyone)) * 0.97 + chance, 0, 1)
    order = np.argsort(-ap)
    mistaken = [everyone[(i + 1) % len(everyone)] for i in range(len(everyone))]
    recall = np.linspace(0, 1, 60)
    precision = np.clip(ap.mean() + (1 - ap.mean()) * (1 - recall) ** (0.4 + 3 * (1 - strength)), 0, 1) * (
        1 - 0.8 * recall**6 * (1 - strength)
    )
    if strength < 0.02:
        precision = np.full(60, chance) + rng.normal(0, 0.003, 60)
    half = min(5, len(everyone) // 2)
    shown = [*order[:half], *order[-half:]]
    table = rng.random((len(shown), len(shown))) * (1 - ap[shown])[:, None] * 0.3
    np.fill_diagonal(table, ap[shown])
    return Detail(
        attack=attack,
        adversary="anonymous-server",
        game="identify",
        defence=defence,
        control=control,
        users=[PerUser(user=everyone[i], ap=float(ap[i]), updates=10, mistaken_for=mistaken[i]) for i in order],
        recall=recall.tolist(),
        precision=np.clip(precision, 0, 1).tolist(),
        null=(chance + rng.gamma(4, 0.002, 200)).tolist(),
        confusion_users=[everyone[i] for i in shown],
        confusion=table.tolist(),
    )


def _scores(detail: Detail, utility: Utility, rng: np.random.Generator) -> list[Score]:
    made = []
    ap = np.array([user.ap for user in detail.users])
    null = np.array(detail.null)
    for metric, factor in (("ap", 1.0), ("top1", 0.9), ("top5", 1.15)):
        values = np.clip(ap * factor, 0, 1)
        boot = rng.choice(values, (200, len(values))).mean(axis=1)
        value, low, high = float(values.mean()), float(np.quantile(boot, 0.025)), float(np.quantile(boot, 0.975))
        scale = {"ap": 1.0, "top1": 0.6, "top5": 2.6}[metric]
        chance, chance_high = float(null.mean() * scale), float(np.quantile(null, 0.975) * scale)
        if detail.control:
            value, low, high = chance * 1.04, chance * 0.9, chance * 1.25
        leak = low > chance
        interval = f"{value:.2f} [{low:.2f}, {high:.2f}]"
        made.append(
            Score(
                attack=detail.attack,
                adversary=detail.adversary,
                game=detail.game,
                metric=metric,
                value=value,
                low=low,
                high=high,
                level=0.95,
                chance=chance,
                chance_high=chance_high,
                multiple=value / chance,
                n=400,
                users=len(detail.users),
                options=len(detail.users),
                seeds=[1],
                defence=detail.defence,
                control=detail.control,
                utility=utility,
                limit=0.5 if metric == "ap" else None,
                exceeded=metric == "ap" and low > 0.5,
                verdict=f"leaks: {interval}, chance {chance:.2f}" if leak else "no leak shown by this attack (n=400)",
            )
        )
    told = Identify().headline({score.metric: score for score in made})
    assert told is not None
    made[0] = msgspec.structs.replace(made[0], number=told.number, in_words=told.sentence)
    return made

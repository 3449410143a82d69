"""The `reconstruct` game: reconstructed images, compared with the victim's data and that of others.

Three metrics have a chance level, and verdicts are about these: `nearest` (whose data is nearest?), `specific` (nearer
to the victim's images of a class than to other users' of the same class?) and `property` (is the victim's property
visible?). Chance permutes the victims: an attack that draws the same classes for all, however well, is then at chance.
Image quality, including the inception score, is reported separately (`quality`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray, rng_for
from fedleak.lazy import scipy
from fedleak.metrics.attack_result import AttackResult, Measured, pooled
from fedleak.metrics.interval import by_user
from fedleak.metrics.judge import Judge, judge
from fedleak.metrics.ranking import Weights
from fedleak.metrics.records import tabled
from fedleak.results.detail import Quality

__all__ = ["nearest", "nearest_table", "specific", "of_property", "quality", "inception"]

_SHOWN = 10_000  # images of others that a class is compared with, at most


def nearest(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the images whose nearest real image is the victim's (as many images of each client)."""
    tables = [nearest_table(one) for one in played]
    blind = float(np.mean([1 / len(_held(one)) for one in played]))
    return _measured(played, "nearest", tables, blind, level, permutations)


def nearest_table(one: AttackResult) -> Weights:
    """The share of the images of each victim (row) whose nearest real image is another victim's (column)."""
    held, who = _held(one), one.about[:, 0]
    least = min(len(x) for x, _ in held)
    rng = rng_for(one.seed, "nearest")
    shown = [x[rng.choice(len(x), least, replace=False)] for x, _ in held]
    table = np.empty((len(who), len(who)))
    for row, claims in enumerate(_flat(one)):
        # (samples, clients): the distance to the nearest image of each.
        gap = np.stack([scipy.spatial.distance.cdist(claims, x).min(axis=1) for x in shown], axis=1)
        first = gap <= gap.min(axis=1, keepdims=True)
        table[row] = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)[who]
    return table


def specific(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the images nearer to the victim's of the same class than to as many of other users.

    Knowing a victim's classes helps with `nearest`, but not here. An image of a class that the victim does not have
    is a miss. Images of the right classes without anything user-specific score 0.5.
    """
    tables = []
    for one in played:
        kept, who, held = _judge(one), one.about[:, 0], _held(one)
        assert one.evidence is not None
        others = [(e.x.reshape(len(e), -1), np.asarray(e.y)) for e in one.evidence.bystanders.examples]
        table = np.zeros((len(who), len(who)))
        for row, claims in enumerate(_flat(one)):
            shown = kept.categories(one.claims[row])[:, : kept.classes].argmax(axis=1)
            for column, victim in enumerate(who):
                rest = [part for place, part in enumerate(held) if place != victim] + others
                wins = np.zeros(len(claims))
                for digit in np.unique(shown):
                    own = held[victim][0][held[victim][1] == digit]
                    if not len(own):
                        continue
                    them = np.concatenate([x[y == digit] for x, y in rest])[:_SHOWN]
                    picked = shown == digit
                    wins[picked] = _won(claims[picked], own, them)
                table[row, column] = wins.mean()
        tables.append(table)
    return _measured(played, "specific", tables, 0.5, level, permutations)


def _won(claims: FloatArray, own: FloatArray, others: FloatArray) -> Weights:
    """Probability that an image is nearer to the nearest of `own` than to that of as many drawn from `others`."""
    if not len(others):
        return np.full(len(claims), 0.5)
    gap = scipy.spatial.distance.cdist(claims, own).min(axis=1, keepdims=True)
    nearer = (scipy.spatial.distance.cdist(claims, others) < gap).sum(axis=1)
    many, few = len(others), min(len(own), len(others))
    left = many - nearer  # none of the nearer ones may be drawn
    ways = scipy.special.gammaln(np.maximum(left, few) + 1) - scipy.special.gammaln(np.maximum(left - few, 0) + 1)
    return np.where(
        left >= few, np.exp(ways - scipy.special.gammaln(many + 1) + scipy.special.gammaln(many - few + 1)), 0.0
    )


def of_property(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the images in which the judge sees the victim's property.

    Chance is never below predicting the most common value for every victim.
    """
    tables, blind = [], []
    for one in played:
        kept, who = _judge(one), one.about[:, 0]
        value = np.array([kept.values.index(v) if v in kept.values else -1 for v in one.judged[1:]])[who]
        table = np.empty((len(who), len(who)))
        for row in range(len(who)):
            seen = kept.properties(one.claims[row]).argmax(axis=1)
            table[row] = (seen[:, None] == value[None]).mean(axis=0)
        tables.append(table)
        blind.append(np.bincount(value[value >= 0], minlength=1).max() / len(who))
    return _measured(played, "property", tables, float(np.mean(blind)), level, permutations)


def _measured(
    played: Sequence[AttackResult],
    name: str,
    tables: Sequence[npt.NDArray[np.float64]],
    blind: float,
    level: float,
    permutations: int,
) -> Measured:
    return tabled(played, name, tables, [np.ones(len(t)) for t in tables], blind, level, permutations)


def quality(played: Sequence[AttackResult], level: float) -> list[Quality]:
    """Quality of the images, and of the victims' own images by the same measures."""
    users, who = pooled(played)
    rows: dict[str, list[tuple[IntArray, list[float], list[float], float]]] = {}
    for one, about in zip(played, who, strict=True):
        kept, held = _judge(one), _held(one)
        shape = one.claims.shape[2:]
        own = [(held[v][0].reshape(-1, *shape), held[v][1]) for v in one.about[:, 0]]
        drawn = [_told(kept, claims, y) for claims, (_, y) in zip(one.claims, own, strict=True)]
        real = [_told(kept, x, y) for x, y in own]
        for name in drawn[0]:
            largest = float(kept.classes) if name.startswith("inception") else 2.0 if name == "diversity" else 1.0
            mine, theirs = ([told[name] for told in part] for part in (drawn, real))
            rows.setdefault(name, []).append((about[:, 0], mine, theirs, largest))
    found = []
    for name, parts in rows.items():
        sums, total = np.zeros(users), np.zeros(users)
        for about, values, _, _ in parts:
            np.add.at(sums, about, values)
            np.add.at(total, about, 1)
        means, top = sums / np.maximum(total, 1), max(part[3] for part in parts)
        interval = by_user(np.clip(means / top, 0, 1), total, level, rng_for(played[0].seed, "interval", name))
        found.append(
            Quality(
                name=name,
                value=float(np.average(means, weights=total)),
                low=interval.low * top,
                high=interval.high * top,
                real=float(np.mean([value for _, _, reals, _ in parts for value in reals])),
            )
        )
    return found


def _told(kept: Judge, images: FloatArray, own: IntArray) -> dict[str, float]:
    answers = kept.categories(images)
    shown = answers[:, :-1].argmax(axis=1)
    readable = answers.argmax(axis=1) < kept.classes
    sure = answers[:, :-1] / np.maximum(answers[:, :-1].sum(axis=1, keepdims=True), 1e-12)
    flat = images.reshape(len(images), -1)
    apart = [scipy.spatial.distance.cdist(flat[shown == c], flat[shown == c]).sum() for c in np.unique(shown)]
    pairs = sum(n * (n - 1) for n in np.bincount(shown))
    size = np.linalg.norm(flat, axis=1).mean()
    return {
        "readable": float(readable.mean()),
        "classes": float(np.isin(shown[readable], np.unique(own)).sum() / len(shown)),
        "inception": inception(sure),
        "inception, own classes": _own_inception(sure, shown, own),
        # Between images of one class, in units of an image's own length: 0 where all of a class are one image.
        "diversity": float(sum(apart) / pairs / max(size, 1e-6)) if pairs else 0.0,
    }


def inception(answers: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None = None) -> float:
    """The inception score of Salimans et al. (2016), of answers (images, classes): 1 at least, classes at most.

    >>> inception(np.eye(3)), inception(np.full((5, 3), 1 / 3))
    (3.0, 1.0)
    """
    mean = np.average(answers, axis=0, weights=weights)[None]
    logs = np.log(np.maximum(answers, 1e-12)) - np.log(np.maximum(mean, 1e-12))
    return float(np.round(np.exp(np.average((answers * logs).sum(axis=1), weights=weights)), 12))


def _own_inception(answers: npt.NDArray[np.float64], shown: IntArray, own: IntArray) -> float:
    """The same for images that show one of the victim's classes, every class with the same weight.

    Attacks that draw all ten classes and attacks that draw a victim's three are then on one scale: 3 at most.
    """
    kept = np.isin(shown, own)
    if not kept.any():
        return 1.0
    return inception(answers[kept], 1 / np.bincount(shown[kept])[shown[kept]])


def _judge(one: AttackResult) -> Judge:
    assert one.evidence is not None, "images are marked against evidence"
    return judge(one.evidence, one.judged[0] if one.judged else None)


def _held(one: AttackResult) -> list[tuple[FloatArray, IntArray]]:
    assert one.evidence is not None, "images are marked against evidence"
    return [(e.x.reshape(len(e), -1).astype(np.float32), np.asarray(e.y)) for e in one.evidence.held.examples]


def _flat(one: AttackResult) -> FloatArray:
    flat: FloatArray = one.claims.reshape(*one.claims.shape[:2], -1)
    return flat

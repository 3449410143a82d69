"""The `recover` game: recovered images against the examples that clients trained on, and against those of others.

Images are assigned to examples one to one, so that their squared distance is least (the Hungarian method; Kuhn, 1955).
The same images are assigned, in the same way, to as many examples of people who took no part, of the same classes. The
difference is what the attack knows. For the test behind a verdict, users exchange their own examples for those of the
others, in all combinations: if the images said nothing about who took part, either would fit as well.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import ByteCache, FloatArray, IntArray, rng_for
from fedleak.errors import AttackError
from fedleak.lazy import ndimage, scipy
from fedleak.metrics.attack_result import AttackResult, Measured, measured, pooled
from fedleak.metrics.interval import resampled_users
from fedleak.metrics.ranking import Weights
from fedleak.results.detail import Grid, Table

__all__ = ["EXACT", "CLOSE", "TOP", "exact", "close", "psnr", "ssim", "by_label", "shown", "similarity", "assigned"]

EXACT = 1 / 510  # half a grey level: rounded to 8 bits, it is the same image
CLOSE = 25.0  # dB
TOP = 100.0  # dB: an image that is right to the last bit has no noise to speak of
_LEAST = 6  # users: 2^6 ways to exchange examples are more than twice what a level of 95% asks for
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Fit:
    """How well images fit some examples, example by example."""

    images: FloatArray  # the image that was assigned to each example
    worst: Weights  # largest error of a pixel
    psnr: Weights

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.images.nbytes + self.worst.nbytes + self.psnr.nbytes


Score: TypeAlias = Callable[[Fit, FloatArray], Weights]
"""The score of each example, from the images assigned to the examples and the examples themselves."""

# Cached: four metrics and the detail of an attack need the same assignment, which takes seconds for 1,000 examples.
_FITS: ByteCache[Fit] = ByteCache(200 * 2**20, lambda fit: fit.nbytes)


def assigned(claims: FloatArray, examples: FloatArray) -> Fit:
    """Assign each example an image, one to one, by the least squared distance."""
    key = hashlib.blake2b(np.ascontiguousarray(claims).tobytes() + np.ascontiguousarray(examples).tobytes()).digest()
    return _FITS.get(key, lambda: _assign(claims, examples))


def _assign(claims: FloatArray, examples: FloatArray) -> Fit:
    flat, real = (part.reshape(len(part), -1).astype(np.float64) for part in (claims, examples))
    gaps = scipy.spatial.distance.cdist(real, flat, "sqeuclidean")
    # Beyond the median a pair is no match, however far apart: no good match is given up to make two bad ones better.
    _, order = scipy.optimize.linear_sum_assignment(np.minimum(gaps, np.quantile(gaps, 0.5)))
    error = np.abs(real - flat[order])
    noise = np.maximum((error**2).mean(axis=1), 10 ** (-TOP / 10))
    return Fit(claims[order], error.max(axis=1), -10 * np.log10(noise))


def exact(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the examples that are recovered with every pixel within half a grey level."""
    return _measured(played, "exact", lambda fit, _: (fit.worst <= EXACT).astype(np.float64), level, permutations)


def close(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the examples that are recovered above 25 dB."""
    return _measured(played, "close", lambda fit, _: (fit.psnr > CLOSE).astype(np.float64), level, permutations)


def psnr(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Mean peak signal-to-noise ratio."""
    return _measured(played, "psnr", lambda fit, _: np.maximum(fit.psnr, 0), level, permutations, largest=TOP)


def ssim(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Mean structural similarity."""
    return _measured(played, "ssim", lambda fit, real: np.maximum(similarity(fit.images, real), 0), level, permutations)


def similarity(images: FloatArray, real: FloatArray) -> Weights:
    """Structural similarity of pairs of images in [0, 1], (n, channels, height, width), by a Gaussian window.

    Wang et al. (2004): standard deviation 1.5, K = (0.01, 0.03).

    >>> one = np.random.default_rng(0).random((1, 1, 12, 12), dtype=np.float32)
    >>> similarity(one, one).round(3).tolist(), bool(similarity(1 - one, one)[0] < 0)
    ([1.0], True)
    """
    a, b = images.astype(np.float64), real.astype(np.float64)

    def smooth(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = ndimage.gaussian_filter(values, (0, 0, 1.5, 1.5), truncate=3.5)
        return found

    mean_a, mean_b = smooth(a), smooth(b)
    var_a, var_b = smooth(a * a) - mean_a**2, smooth(b * b) - mean_b**2
    both = smooth(a * b) - mean_a * mean_b
    light, contrast = 0.01**2, 0.03**2
    found = (2 * mean_a * mean_b + light) * (2 * both + contrast)
    found /= (mean_a**2 + mean_b**2 + light) * (var_a + var_b + contrast)
    return np.asarray(found.mean(axis=(1, 2, 3)))


def _measured(
    played: Sequence[AttackResult],
    name: str,
    score: Score,
    level: float,
    permutations: int,
    *,
    largest: float = 1.0,
) -> Measured:
    users, who = pooled(played)
    sums, other, total = np.zeros(users), np.zeros(users), np.zeros(users)
    by_seed, seeds = [], []
    for one, about in zip(played, who, strict=True):
        real, strangers = examples_of(one), strangers_of(one)
        mine, theirs = (score(assigned(one.claims, part), part) for part in (real, strangers))
        seeds.append((about[:, 0], mine, theirs))
        by_seed.append(float(mine.mean()))
        for into, values in ((sums, mine), (other, theirs), (total, np.ones(len(mine)))):
            np.add.at(into, about[:, 0], values)
    values = sums / np.maximum(total, 1)
    kept = np.flatnonzero(total)
    # Of the others alone, their users resampled: how high chance may be by luck.
    draws = rng_for(played[0].seed, "null", name).choice(kept, (permutations, len(kept)))
    nulls = other[draws].sum(axis=1) / total[draws].sum(axis=1)
    swap = rng_for(played[0].seed, "permutation").random((permutations, users)) < 0.5
    permuted = [np.mean([np.where(row[about], theirs, mine).mean() for about, mine, theirs in seeds]) for row in swap]
    return measured(
        played,
        float(np.average(values, weights=total)),
        resampled_users(values / largest, total, rng_for(played[0].seed, "interval", name)),
        level=level,
        blind=float(other.sum() / total.sum()),
        nulls=[nulls],
        permuted=[np.asarray(permuted)],
        by_seed=by_seed,
        users=len(kept),
        options=max(one.choices for one in played),
        least=_LEAST,
        exact=True,
        largest=largest,
    )


def examples_of(one: AttackResult) -> FloatArray:
    """The examples that were trained on, in the order of the answers."""
    assert one.evidence is not None, "images are scored against evidence"
    return np.concatenate([one.evidence.held.examples[user].x for user in _clients(one)]).astype(np.float32)


def labels_of(one: AttackResult) -> IntArray:
    """Their classes."""
    assert one.evidence is not None, "images are scored against evidence"
    return np.concatenate([np.asarray(one.evidence.held.examples[user].y) for user in _clients(one)]).astype(np.int64)


def _clients(one: AttackResult) -> list[int]:
    who = one.about[:, 0]
    return [int(who[place]) for place in np.flatnonzero(np.append(True, np.diff(who) != 0))]


def strangers_of(one: AttackResult) -> FloatArray:
    """As many examples of the same classes, of people who took no part; of any class where those do not suffice."""
    assert one.evidence is not None, "images are scored against evidence"
    others = one.evidence.bystanders
    parts = [*others.examples, *([others.background.examples] if others.background is not None else [])]
    if not parts:
        raise AttackError("there is no test set and no other user, so there is nothing to compare a score with")
    x = np.concatenate([part.x for part in parts]).astype(np.float32)
    y = np.concatenate([np.asarray(part.y) for part in parts]).astype(np.int64)
    wanted, rng = labels_of(one), rng_for(one.seed, "strangers")
    found = np.empty((len(wanted), *x.shape[1:]), dtype=np.float32)
    for label in np.unique(wanted):
        here, known = np.flatnonzero(wanted == label), np.flatnonzero(y == label)
        known = known if len(known) else np.arange(len(y))
        found[here] = x[rng.choice(known, len(here), replace=len(known) < len(here))]
    return found


def by_label(played: Sequence[AttackResult]) -> Table:
    """How well examples are recovered whose label is the only one of its kind on the client, and others."""
    repeats, values, worst = [], [], []
    for one in played:
        who, label = one.about[:, 0], labels_of(one)
        _, inverse, counts = np.unique(np.stack([who, label]), axis=1, return_inverse=True, return_counts=True)
        fit = assigned(one.claims, examples_of(one))
        repeats.append(counts[inverse.ravel()] > 1)
        values.append(fit.psnr)
        worst.append(fit.worst)
    often, noise, error = np.concatenate(repeats), np.concatenate(values), np.concatenate(worst)
    rows: list[list[str | float | None]] = []
    for name, here in (("occurs once", ~often), ("repeats", often)):
        if here.any():
            rows.append(
                [
                    name,
                    int(here.sum()),
                    float(noise[here].mean()),
                    float((noise[here] > CLOSE).mean()),
                    float((error[here] <= EXACT).mean()),
                ]
            )
    return Table(
        caption="By whether the label of an example repeats among the examples of its client.",
        columns=["label on its client", "examples", "PSNR", "share above 25 dB", "share exact"],
        rows=rows,
    )


def shown(one: AttackResult) -> list[Grid]:
    """Some examples of the first client, and what was recovered of them, best first."""
    from fedleak.metrics.grids import png  # draws images, which takes long to import

    real = examples_of(one)
    fit, who = assigned(one.claims, real), one.about[:, 0]
    mine = np.flatnonzero(who == who[0])
    best = mine[np.argsort(-fit.psnr[mine])][:_SHOWN]
    drawn = png([real[best], fit.images[best]])
    return [Grid(user=one.users[int(who[0])], png=base64.b64encode(drawn).decode())]


def each_user(one: AttackResult) -> tuple[list[str], Weights]:
    """The share of each user's examples that is exact (diagonal), and of the strangers' in their place (elsewhere)."""
    who = one.about[:, 0]
    present, place, counts = np.unique(who, return_inverse=True, return_counts=True)
    shares = []
    for part in (examples_of(one), strangers_of(one)):
        hits = (assigned(one.claims, part).worst <= EXACT).astype(np.float64)
        shares.append(np.bincount(place, hits) / counts)
    mine, theirs = shares
    table = np.tile(theirs, (len(present), 1))
    np.fill_diagonal(table, mine)
    return [one.users[user] for user in present.tolist()], table

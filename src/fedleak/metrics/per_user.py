"""From the scores of single users: the tail, the share above a threshold, and the worst-off user.

A mean near chance can hide one user whose every update is named. The highest of many scores is high by luck alone,
though: it is compared with the highest score under permuted identities, and its interval holds for all users at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, rng_for
from fedleak.lazy import stats
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.interval import Interval, in_chunks, wilson
from fedleak.results.users import UserTail

__all__ = ["UserScores", "EachUser", "user_tail", "clopper_pearson", "quantile_interval", "QUANTILE"]

QUANTILE = 0.9  # the tail: nine in ten users score less
_PERMUTATIONS = 1000  # at least: a p-value is corrected for the number of attacks, so it must be able to be small

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UserScores:
    """The score of every user in one run, and what it would be with identities permuted.

    Entry [o, u] of `table` is the score of user u if u were user o. Without a table, each user was compared with one
    other user only, and a permuted identity turns a score into its complement.
    """

    names: tuple[str, ...]
    values: Values
    trials: Values  # of each user; one where the outcomes of a user in a run depend on each other
    table: Values | None = None
    together: IntArray | None = None  # without a table: users with the same number are compared with each other

    @classmethod
    def of_table(cls, names: Sequence[str], table: Values, trials: Values) -> UserScores:
        """The users with at least one trial; the diagonal of the table is their score."""
        present = np.flatnonzero(trials)
        part = table[np.ix_(present, present)]
        return cls(
            tuple(names[int(i)] for i in present), part.diagonal().copy(), trials[present].astype(np.float64), part
        )

    def permuted(self, rows: int, rng: np.random.Generator, *, moved: bool) -> Values:
        """The score of each user under this many permutations, (rows, users); with `moved` nobody stays in place."""
        size = (rows, len(self.names))
        if self.table is None:
            # Users that are compared with each other swap identities together.
            group = np.arange(size[1]) if self.together is None else self.together
            kept = rng.random((rows, int(group.max()) + 1))[:, group] < 0.5
            return np.where(kept, self.values, 1 - self.values)
        everyone = np.arange(size[1])
        order = rng.permuted(np.broadcast_to(everyone, size).copy(), axis=1)
        while moved and len(stay := np.flatnonzero((order == everyone).any(axis=1))):
            order[stay] = rng.permuted(order[stay], axis=1)
        return np.asarray(self.table[order, everyone])


@dataclass(frozen=True, slots=True, kw_only=True)
class EachUser:
    """How one user is scored in a game, from 0 to 1, and from where on it is too much."""

    scores: Callable[[AttackResult], UserScores]
    title: str  # what the score is
    threshold: float
    above: str  # completes "62% of users ..." for users with a score above the threshold


def user_tail(
    played: Sequence[AttackResult], each: EachUser, *, level: float, permutations: int, attacks: int = 1
) -> UserTail | None:
    """Summarise the users of all seeds, pooled by name; None where fewer than two can be scored.

    The worst-off user is the one with the highest lower bound, as is the strongest attack: a user with one update that
    happened to be named is not worse off than one with 19 out of 20. The bounds hold for all users of all `attacks` on
    a question at once (Bonferroni), so they hold for whichever is chosen.

    Chance levels leave nobody in place, as everywhere. Such permutations make no valid test of few users: the best
    pairing of all is a true one with probability 1 / users, by luck, and they never draw it. So the test draws from all
    permutations. Its statistic is the sum of the lower bounds: one user far above the others makes it large, and many
    users do; the highest bound alone would be reached by any permutation that leaves one of many such users in place.
    """
    runs = [each.scores(one) for one in played]
    names = {name: place for place, name in enumerate(dict.fromkeys(name for run in runs for name in run.names))}
    if min((len(run.names) for run in runs), default=0) < 2:
        return None
    users = len(names)
    where = [np.array([names[name] for name in run.names]) for run in runs]
    hits, trials = np.zeros((len(runs), users)), np.zeros((len(runs), users))
    for row, (run, place) in enumerate(zip(runs, where, strict=True)):
        hits[row, place], trials[row, place] = run.values * run.trials, run.trials
    values = hits.sum(axis=0) / trials.sum(axis=0)
    known = _effective(hits, trials)
    tail = (1 - level) / (users * attacks)
    z = float(stats.norm.ppf(1 - tail / 2))

    def summary(rows: Values) -> Values:
        """Mean, tail, share above the threshold, worst-off user, sum of the lower bounds and score: (rows, 6)."""
        low = _lower(rows, known, z)
        worst = np.lexsort((rows, low), axis=1)[:, -1]
        value = rows[np.arange(len(rows)), worst]
        high = np.quantile(rows, QUANTILE, axis=1, method="inverted_cdf")
        share = (rows > each.threshold).mean(axis=1)
        return np.stack([rows.mean(axis=1), high, share, worst, low.sum(axis=1), value], axis=1)

    def null(moved: bool) -> Values:
        rng = rng_for(played[0].seed, "null", "users", moved)

        def draw(rows: int) -> Values:
            drawn = np.zeros((rows, users))
            for run, place in zip(runs, where, strict=True):
                drawn[:, place] += run.permuted(rows, rng, moved=moved) * run.trials
            return summary(drawn / trials.sum(axis=0))

        return in_chunks(draw, max(permutations, _PERMUTATIONS), users)

    mean, high, share, chosen, evidence, worst = map(float, summary(values[None])[0])
    tested, chance = null(moved=False), null(moved=True)
    p = min(1.0, attacks * (1 + int((tested[:, 4] >= evidence - 1e-9).sum())) / (1 + len(tested)))
    interval = clopper_pearson(worst, known[int(chosen)], 1 - tail)
    # Few of these differ, and the quantile of a beta distribution is slow.
    lucky, same = np.unique(np.stack([chance[:, 5], known[chance[:, 3].astype(np.int64)]]), axis=1, return_inverse=True)
    bounds = np.array([clopper_pearson(value, n, 1 - tail).low for value, n in lucky.T.tolist()])
    luck = float(np.quantile(bounds[same.ravel()], level))
    ends, counted = quantile_interval(values, QUANTILE, level), wilson(share, users, level)
    return UserTail(
        score=each.title,
        above=each.above,
        threshold=each.threshold,
        users=users,
        level=level,
        mean=mean,
        mean_chance=float(chance[:, 0].mean()),
        quantile=QUANTILE,
        tail=high,
        tail_low=ends.low,
        tail_high=ends.high,
        tail_chance=float(chance[:, 1].mean()),
        share=share,
        share_low=counted.low,
        share_high=counted.high,
        share_chance=float(chance[:, 2].mean()),
        share_chance_high=float(np.quantile(chance[:, 2], level)),
        worst=worst,
        worst_low=interval.low,
        worst_high=interval.high,
        worst_trials=float(known[int(chosen)]),
        worst_chance=float(chance[:, 5].mean()),
        worst_chance_high=float(np.quantile(chance[:, 5], level)),
        worst_low_chance=luck,
        p=p,
        leaks=p <= 1 - level + 1e-12 and interval.low > luck,
        values=[float(value) for value in np.sort(values)[::-1]],
    )


def _effective(hits: Values, trials: Values) -> Values:
    """The number of trials of each user, from (seeds, users): fewer where a user's seeds differ more than by luck.

    Updates of one run share a trained attack, so they are not independent. How much that matters shows only between
    seeds: the trials are divided by the dispersion over all users (Pearson's, as in McCullagh and Nelder, 1989, 4.5),
    but every seed counts as one trial at least.
    """
    total, seeds = trials.sum(axis=0), (trials > 0).sum(axis=0)
    rate = hits.sum(axis=0) / total
    spread = rate * (1 - rate)
    several = (seeds > 1) & (spread > 1e-12)
    if not several.any():
        return np.asarray(total)
    found, made = hits[:, several], trials[:, several]
    off = (found - made * rate[several]) ** 2 / np.maximum(made * spread[several], 1e-12)
    dispersion = max(1.0, float(off.sum() / (seeds[several] - 1).sum()))
    return np.asarray(np.maximum(seeds, total / dispersion), dtype=np.float64)


def _lower(values: Values, trials: Values, z: float) -> Values:
    """Wilson's lower bounds: they only choose the worst-off user, so they need not be exact."""
    square = z * z / trials
    half = z * np.sqrt(np.maximum(values * (1 - values), 0) / trials + square / trials / 4)
    return np.asarray((values + square / 2 - half) / (1 + square))


def clopper_pearson(rate: float, n: float, level: float) -> Interval:
    """The exact interval of a rate (Clopper and Pearson, 1934), which few trials at a high level need.

    Outcomes between 0 and 1 vary less than hits and misses with the same mean, so it holds for them too (Hoeffding,
    1963); so the number of hits may be a fraction.

    >>> found = clopper_pearson(1.0, 10, 0.95)
    >>> round(found.low, 3), found.high
    (0.692, 1.0)
    """
    hits, tail = float(rate * n), (1 - level) / 2
    low = float(stats.beta.ppf(tail, hits, n - hits + 1)) if hits > 1e-9 else 0.0
    high = float(stats.beta.ppf(1 - tail, hits + 1, n - hits)) if n - hits > 1e-9 else 1.0
    return Interval(min(low, rate), max(high, rate))


def quantile_interval(values: Values, quantile: float, level: float) -> Interval:
    """The interval of a quantile of scores between 0 and 1, from order statistics.

    Resampling users would give the same order statistics in the limit; but it never looks beyond the highest value,
    and of ten users nobody may be in the upper tenth. There the upper end is 1.

    >>> quantile_interval(np.linspace(0, 0.5, 10), 0.9, 0.95).high
    1.0
    """
    ordered, n = np.sort(values), len(values)
    below = stats.binom.cdf(np.arange(n + 1), n, quantile)  # chance that at most 0, 1, ... n values are below
    first = int((below <= (1 - level) / 2).sum())  # the last order statistic that is seldom above the quantile
    last = int((below < (1 + level) / 2).sum()) + 1  # the first one that is seldom below
    return Interval(
        float(ordered[first - 1]) if first > 0 else 0.0,
        float(ordered[last - 1]) if last <= n else 1.0,
    )

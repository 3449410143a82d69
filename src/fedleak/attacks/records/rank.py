"""Exposure of a record in bits: how far up it stands among all records of its format (Carlini et al., 2019, def. 5).

exposure = log2 |R| - log2 rank, so a record that the model prefers to all others has as many bits as the format.

The rank is counted where it is high enough to be counted, and estimated by sampling otherwise. Sampling at random would
see nothing of the likely records, and sampling from the model nothing of the rest; so records are drawn from several
proposals between the two, and each is weighed by its probability under all of them together (the balance heuristic;
Veach and Guibas, 1995). That is unbiased, and comes with a standard error. Carlini et al. fit a skew-normal
distribution to random records instead, which assumes what the tail looks like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.attacks.records.format_search import Space, count_above
from fedleak.attacks.records.scoring import Scores, log_probabilities
from fedleak.core import IntArray, Params
from fedleak.errors import AttackError
from fedleak.lazy import torch

__all__ = ["Ranks", "ranks"]

_POWERS = (1.0, 0.7, 0.4, 0.0)  # of the model's probabilities: from its own to none at all, which is uniform


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Where some records stand among all of their format; 1 is the most likely."""

    rank: Scores
    error: Scores  # standard error of the rank; 0 where it was counted
    counted: npt.NDArray[np.bool_]
    bits: Scores  # exposure

    def __len__(self) -> int:
        return len(self.rank)


def ranks(
    space: Space,
    snapshot: Params,
    records: Sequence[str],
    rng: np.random.Generator,
    *,
    samples: int = 4000,
    limit: int = 20_000,
) -> Ranks:
    """Rank records of a format under one snapshot."""
    for record in records:
        if record not in space.form:
            raise AttackError(f"'{record}' is not a record of the format '{space.form.text}', so it has no rank there")
    logs = log_probabilities(space.language, [snapshot], records)[0]
    found = count_above(space, snapshot, logs, limit=limit)
    above, error = found.above.astype(np.float64), np.zeros(len(logs))
    if not found.exact.all():
        guessed, spread = _estimate(space, snapshot, logs, samples, rng)
        # What was enumerated is known to be above.
        above = np.where(found.exact, above, np.clip(guessed, above, space.form.size - 1))
        error = np.where(found.exact, 0.0, spread)
    rank = 1 + above
    return Ranks(rank=rank, error=error, counted=found.exact, bits=space.form.bits - np.log2(rank))


def _estimate(
    space: Space, snapshot: Params, logs: Scores, samples: int, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """Estimate how many records are more likely than each log-probability, with the standard error."""
    drawn, density = _draw(space, snapshot, samples, rng)
    # (records, samples): what each sample stands for, if it counts.
    counts = np.where(drawn[None, :] > logs[:, None], np.exp(-density)[None, :], 0.0)
    # The samples come in equal parts from each proposal, so the variance is that within the parts.
    parts = counts.reshape(len(logs), len(_POWERS), -1)
    size = parts.shape[2]
    error = np.sqrt(parts.var(axis=2, ddof=1).sum(1) / size) / len(_POWERS)
    return counts.mean(1), error


def _draw(space: Space, snapshot: Params, samples: int, rng: np.random.Generator) -> tuple[Scores, Scores]:
    """Draw records; return the log-probability of each to the model, and to the proposals taken together."""
    each = max(2, -(-samples // len(_POWERS)))
    powers = np.array(_POWERS)
    own = np.repeat(np.arange(len(powers)), each)
    count = len(own)
    density: Scores = np.zeros((count, len(powers)))
    rows: IntArray = np.arange(count)  # those that have not ended
    with torch.inference_mode():
        opening = space.language.open(snapshot)
        logs, state = opening.logs, opening.state
        place, common = 0, 0.0
        # What every record begins with is no choice, and is read once for all of them.
        for token in space.language.encode([space.form.prefix])[0].tolist():
            place, common = int(space.after[place, token]), common + float(logs[0, 0, token])
            logs, state = opening.reader.read(state, torch.tensor([token]))
        places: IntArray = np.full(count, place, dtype=np.int64)
        total: Scores = np.full(count, common)
        logs, state = logs[0].expand(count, -1), state.take(torch.zeros(count, dtype=torch.int64))
        while True:
            chosen, step, own_density = _choose(space, places[rows], logs.numpy().astype(np.float64), own[rows], rng)
            density[rows] += own_density
            on = chosen >= 0  # -1: the record ends here
            rows, tokens = rows[on], chosen[on]
            total[rows] += step[on]
            places[rows] = space.after[places[rows], tokens]
            if not len(rows):
                break
            state = state.take(torch.from_numpy(np.flatnonzero(on)))
            found, state = opening.reader.read(state, torch.from_numpy(tokens))
            logs = found[0]
    top = density.max(1)
    mixed = top + np.log(np.exp(density - top[:, None]).mean(1))
    return total, mixed


def _choose(
    space: Space, places: IntArray, logs: Scores, own: IntArray, rng: np.random.Generator
) -> tuple[IntArray, Scores, Scores]:
    """Draw the next character of each record, or its end: the choice, its log-probability, and its densities.

    A proposal with power p draws in proportion to (probability)^p (number of endings)^(1 - p): with p = 0 every record
    of the format is equally likely.
    """
    after = space.after[places]
    able = np.concatenate([after >= 0, space.final[places, None]], axis=1)  # (rows, characters + 1)
    endings = np.concatenate([space.endings[after], np.zeros((len(logs), 1))], axis=1)
    likely = np.concatenate([logs, np.full((len(logs), 1), math.log(0.5))], axis=1)  # of an end nobody knows
    densities = []
    for power in _POWERS:
        weight = np.where(able, power * likely + (1 - power) * endings, -np.inf)
        top = weight.max(1, keepdims=True)
        densities.append(weight - top - np.log(np.exp(weight - top).sum(1, keepdims=True)))
    every = np.stack(densities, axis=1)  # (rows, proposals, options)
    each = np.arange(len(places))
    sums = np.exp(every[each, own]).cumsum(1)
    at = 1 - rng.random(len(places))  # never 0: an option without probability is never drawn
    chosen = (sums < (at * sums[:, -1])[:, None]).sum(1)
    last = able.shape[1] - 1
    step = np.where(chosen < last, likely[each, chosen], 0.0)
    return np.where(chosen < last, chosen, -1), step, every[each, :, chosen]

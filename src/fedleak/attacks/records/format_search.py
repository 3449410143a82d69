"""The most likely records of a whole format, found without trying them all, and the rank of a record among them.

A record is never more likely than its prefix. So every prefix that is less likely than the k-th best known record can
be pruned, and a search that pruned nothing else has found the k best of all (branch and bound). It proceeds level by
level rather than best first, because then all prefixes of a length are read together.

A model that has memorised nothing gives nearly all records of a format the same probability; no search can then name
the best of 10^9 without looking at most of them. The search says so: `exact` is false, and `bound` tells what a record
that it missed could reach at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.attacks.records.language import Language, Opening
from fedleak.attacks.records.scoring import Scores
from fedleak.core import IntArray, Params
from fedleak.lazy import torch
from fedleak.population.secret_formats import Format

__all__ = ["Space", "BestRecords", "Counted", "likeliest", "count_above"]

_SLACK = 1e-4  # nats: a record's probability varies in the last digits with what else is read beside it


class Space:
    """A format in the ids of a model's alphabet: an automaton as a table."""

    def __init__(self, form: Format, language: Language) -> None:
        self.form, self.language = form, language
        index = {character: number for number, character in enumerate(language.characters)}
        language.encode(["".join(sorted(form.alphabet))])  # rejects what the model cannot spell
        self.after: IntArray = np.full((len(form.steps), len(language.characters)), -1, dtype=np.int64)
        for state, choices in enumerate(form.steps):
            for character, following in choices.items():
                self.after[state, index[character]] = following
        self.final = np.isin(np.arange(len(form.steps)), list(form.finals))
        self.endings: Scores = np.array([math.log(count) for count in form.counts])
        self.goes_on = np.array([bool(choices) for choices in form.steps])


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRecords:
    """The most likely records under one snapshot, best first."""

    records: tuple[str, ...]
    logs: Scores  # log-probabilities
    exact: bool  # whether these are proved to be the best of the whole format
    bound: float  # no record that is missing has a higher log-probability
    read: int  # how many beginnings were read


@dataclass(frozen=True, slots=True)
class Counted:
    """How many records of the format are more likely than some probabilities."""

    above: IntArray  # for each of them; a lower limit where it is not exact
    exact: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Swept:
    paths: IntArray  # (records, characters), 0 after the end
    logs: Scores
    lost: float  # the most likely beginning that was left out for want of room
    read: int


def likeliest(space: Space, snapshot: Params, k: int, *, width: int = 512, limit: int = 20_000) -> BestRecords:
    """Find the k most likely records of a format.

    First with a beam of `width` prefixes, which nearly always finds them; then again with every prefix that is likely
    enough to lead to one, up to `limit` prefixes of a length, which proves it.
    """
    width = max(width, k)
    with torch.inference_mode():
        opening = space.language.open(snapshot)
        swept = _sweep(space, opening, -math.inf, width)
        read = swept.read
        if swept.lost > _kth(swept.logs, k):
            swept = _sweep(space, opening, _kth(swept.logs, k) - _SLACK, max(width, limit))
            read += swept.read
    best = np.argsort(-swept.logs, kind="stable")[:k]
    logs = swept.logs[best]
    return BestRecords(
        records=tuple(space.language.decode(swept.paths[best])),
        logs=logs,
        exact=bool(swept.lost <= _kth(logs, k)),
        bound=max(swept.lost, _kth(logs, k)) if space.form.size > len(logs) else -math.inf,
        read=read,
    )


def count_above(space: Space, snapshot: Params, logs: Scores, *, limit: int = 20_000) -> Counted:
    """Count the records that are more likely than each of these log-probabilities.

    Everything as likely as the least of them is enumerated; where that is too much, the count of a more likely one may
    still be exact, because whatever was left out was less likely than it.
    """
    with torch.inference_mode():
        swept = _sweep(space, space.language.open(snapshot), float(logs.min()) - _SLACK, limit)
    # Not above itself: a record's own probability may come out a little higher here.
    above = (swept.logs[None, :] > logs[:, None] + _SLACK / 2).sum(1)
    return Counted(above.astype(np.int64), np.asarray(swept.lost <= logs))


def _kth(logs: Scores, k: int) -> float:
    return float(np.partition(logs, len(logs) - k)[len(logs) - k]) if len(logs) >= k else -math.inf


def _sweep(space: Space, opening: Opening, least: float, room: int) -> _Swept:
    """Read the format level by level; leave out what is less likely than `least`, and what there is no room for."""
    logs, state = opening.logs[0], opening.state
    total: Scores = np.zeros(1)
    places: IntArray = np.zeros(1, dtype=np.int64)
    paths: IntArray = np.zeros((1, 0), dtype=np.int64)
    ended: list[tuple[IntArray, Scores]] = []
    lost, read = -math.inf, 0
    while len(places):
        reached = np.where(space.after[places] >= 0, total[:, None] + logs.numpy(), -np.inf)
        rows, tokens = np.nonzero(reached >= max(least, -1e30))
        scores = reached[rows, tokens]
        if len(scores) > room:
            order = np.argpartition(-scores, room)
            lost = max(lost, float(scores[order[room]]))
            kept = np.sort(order[:room])
            rows, tokens, scores = rows[kept], tokens[kept], scores[kept]
        places = space.after[places[rows], tokens]
        paths = np.concatenate([paths[rows], tokens[:, None]], axis=1)
        over = space.final[places]
        if over.any():
            ended.append((paths[over], scores[over]))
        inner = space.goes_on[places]
        rows, tokens, total, places, paths = rows[inner], tokens[inner], scores[inner], places[inner], paths[inner]
        if len(places):
            state = state.take(torch.from_numpy(rows))
            found, state = opening.reader.read(state, torch.from_numpy(tokens))
            logs = found[0]
            read += len(rows)
    longest = space.form.longest
    padded = [np.pad(path, ((0, 0), (0, longest - path.shape[1]))) for path, _ in ended]
    none = np.zeros((0, longest), dtype=np.int64)
    return _Swept(np.concatenate([none, *padded]), np.concatenate([np.zeros(0), *(s for _, s in ended)]), lost, read)

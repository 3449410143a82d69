"""Records that clients trained on or did not, as the games that ask about them draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, UserId
from fedleak.population import fingerprint
from fedleak.population.population import Examples
from fedleak.population.splits import units
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports a game must not find the truth in it
    from fedleak.trace.members import MemberRecords
    from fedleak.trace.truth import Truth

__all__ = ["pools", "plain", "senders"]


def pools(members: MemberRecords) -> list[tuple[Examples, npt.NDArray[np.bool_]]]:
    """For each user the records that may be asked about, and which of them are on the client.

    Left out are records with a copy elsewhere, which would be member and non-member at once, and all but one of the
    records that belong together.
    """
    owners = list(zip(members.used.examples, members.held_out.examples, strict=True))
    whole = [Examples.concat(pair) for pair in owners]
    marks = fingerprint.of(Examples.concat(whole))
    single = np.ones(len(marks), dtype=np.bool_)
    for band in range(marks.shape[1]):
        _, place, count = np.unique(marks[:, band], return_inverse=True, return_counts=True)
        single &= count[place] == 1
    found, start = [], 0
    for (used, held), both in zip(owners, whole, strict=True):
        mine = np.flatnonzero(single[start : start + len(both)])
        start += len(both)
        # Units are of one side: they are numbered on each, and never divided.
        sides = [units(side) if len(side) else np.zeros(0, dtype=np.int64) for side in (used, held)]
        unit = np.concatenate([sides[0], sides[1] + (sides[0].max(initial=-1) + 1)])
        mine = mine[np.unique(unit[mine], return_index=True)[1]]
        found.append((both.take(mine), mine < len(used)))
    return found


def plain(examples: Examples) -> Examples:
    """Nothing but what a model reads: times, albums and copies would tell which records belong together."""
    return Examples(x=examples.x, y=examples.y)


def senders(trace: Trace, truth: Truth) -> dict[UserId, IntArray]:
    """User -> the rows of the updates of the user's client, for users whose client sent one."""
    client = np.asarray(trace.client).astype(np.int64)
    return {
        truth.client_user[trace.header.clients[index]]: np.flatnonzero(client == index)
        for index in np.unique(client).tolist()
    }

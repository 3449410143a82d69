"""Identities by a majority vote of past updates (Song et al., 2020, Algorithm 2), and by the mean of past similarities.

Each identity has a queue of its last K representatives, filled K times with the one of the first round. Slot k of all
queues casts one vote on a new update: for the identity whose representative in this slot is most similar to it. The
majority names the update, which then joins the queue of its identity. So two updates of a round may get one identity,
and an error lives on in a queue; a one-to-one assignment avoids both, but is not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray
from fedleak.lazy import scipy

__all__ = ["Named", "majority", "name_updates", "same_identity", "mean_similarity"]


@dataclass(frozen=True, slots=True)
class Named:
    """The identities that the updates of one round were given."""

    identity: IntArray  # (updates,)
    votes: IntArray  # (updates, identities); each row adds up to K


def majority(similarity: npt.NDArray[np.floating]) -> tuple[int, IntArray]:
    """The identity with most votes, and all votes; `similarity` has a row for each slot, oldest first.

    The paper does not say what happens if all slots disagree: the newest of the leading votes decides.

    >>> majority(np.array([[0.1, 0.9], [0.5, 0.4], [0.5, 0.4]]))
    (0, array([2, 1]))
    """
    nearest = similarity.argmax(axis=1)
    votes = np.bincount(nearest, minlength=similarity.shape[1]).astype(np.int64)
    leading = votes[nearest] == votes.max()
    return int(nearest[np.flatnonzero(leading)[-1]]), votes


def name_updates(rounds: Sequence[FloatArray], k: int) -> list[Named]:
    """Name the updates of every round by Algorithm 2; `rounds` holds their descriptors, unit vectors, in order.

    The updates of the first round are the identities. On unit vectors the largest cosine is the least Euclidean
    distance, the paper's similarity.
    """
    first = rounds[0]
    everyone = np.arange(len(first))
    named = [Named(everyone, k * np.eye(len(first), dtype=np.int64))]
    queues = np.repeat(first[None], k, axis=0)  # (slots, identities, dims), oldest first
    for vectors in rounds[1:]:
        identity = np.empty(len(vectors), dtype=np.int64)
        votes = np.empty((len(vectors), len(first)), dtype=np.int64)
        for row, vector in enumerate(vectors):
            identity[row], votes[row] = majority(queues @ vector)
            queues[:-1, identity[row]] = queues[1:, identity[row]].copy()
            queues[-1, identity[row]] = vector
        named.append(Named(identity, votes))
    return named


def same_identity(earlier: Named, later: Named, alike: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.float32]:
    """Score pairs of two rounds: above 0 if both have one identity, then by votes; cosines only order what is tied.

    Between -1.25 and 1.25, so that they can be assigned one to one like cosines.
    """
    votes = later.votes[:, earlier.identity].T
    same = earlier.identity[:, None] == later.identity[None]
    return np.asarray((np.where(same, votes, votes - k - 1) + 0.25 * alike) / (k + 1), dtype=np.float32)


def mean_similarity(earlier: Sequence[FloatArray], later: FloatArray) -> npt.NDArray[np.float32]:
    """The mean cosine with several rounds of each identity, the latest first; not in the paper.

    An identity's update of another round is the one most like its latest, one to one. An identity that was not there
    counts with its latest again.
    """
    alike = earlier[0] @ later.T
    rounds = [alike]
    for other in earlier[1:]:
        mine, theirs = scipy.optimize.linear_sum_assignment(-(earlier[0] @ other.T))
        linked = alike.copy()
        linked[mine] = other[theirs] @ later.T
        rounds.append(linked)
    return np.asarray(np.mean(rounds, axis=0), dtype=np.float32)

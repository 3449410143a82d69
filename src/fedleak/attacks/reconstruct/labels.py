"""Which classes a client trained on, read from the bias of the last layer.

With softmax and cross-entropy the gradient of a class's bias is the mean over examples of the class's probability,
less one where it is the class: only classes that are there are pushed up (Zhao et al., 2020, "iDLG").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, Layout, Params
from fedleak.errors import AttackError

__all__ = ["Present", "present", "slots"]

_LEAST = 0.1  # of the largest push: less is what other classes' examples do to a class that is not there


@dataclass(frozen=True, slots=True)
class Present:
    """The classes behind each update, and how much of it each makes up."""

    shares: npt.NDArray[np.float32]  # (clients, classes), 0 where a class is not there; rows add up to 1

    def counts(self) -> IntArray:
        """How many classes each client has."""
        return np.asarray((self.shares > 0).sum(axis=1), dtype=np.int64)


def present(layout: Layout, updates: Params) -> Present:
    """Tell classes and their shares from the last layer's bias, one row of `updates` per client.

    A push up is as large as the share of a class exceeds what the model expects of it. Where everything is already
    expected nothing is pushed, and the largest push alone is taken for a class.
    """
    last = layout[-1]
    if "bias" not in dict(last.tensors):
        raise AttackError(
            f"the last layer '{last.name}' has no bias, so an update does not say which classes it was trained on; "
            "give the labels, or choose a model whose last layer has a bias"
        )
    push = np.asarray(updates[last.name][:, last.span("bias")], dtype=np.float32)
    top = push.max(axis=1, keepdims=True)
    shares = np.where((push >= _LEAST * top) & (push > 0), push, 0)
    silent = top[:, 0] <= 0
    shares[silent, push[silent].argmax(axis=1)] = 1
    return Present(shares / shares.sum(axis=1, keepdims=True))


def slots(shares: npt.NDArray[np.float32], per_class: int) -> tuple[IntArray, npt.NDArray[np.float32]]:
    """Places for images, (clients, places): the class of each, -1 where a client needs no more, and its weight.

    As many for every class of a client, weighted by the class's share: a class is represented, not counted.
    """
    most = int((shares > 0).sum(axis=1).max()) * per_class
    labels = np.full((len(shares), most), -1, dtype=np.int64)
    weights = np.zeros((len(shares), most), dtype=np.float32)
    for client, row in enumerate(shares):
        found = np.repeat(np.flatnonzero(row > 0), per_class)
        labels[client, : len(found)] = found
        weights[client, : len(found)] = row[found] / per_class
    return labels, weights

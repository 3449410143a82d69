"""Secure aggregation: the server learns the sum of a round's updates, and of each update only noise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import FloatArray, Observation, Params
from fedleak.errors import TrainingError
from fedleak.federation.hooks import Added, Defence

__all__ = ["SecureAggregation", "encode", "decode", "expand"]

Words = npt.NDArray[np.uint64]  # integers modulo 2^64

_SEED = 16  # bytes
_WEIGHT = 32  # bits of the fixed-point share that an update counts with


@dataclass(frozen=True, kw_only=True)
class SecureAggregation(Defence):
    """Hide each update behind masks that cancel in the sum (Bonawitz et al., 2017).

    Each pair of clients agrees on a seed; one adds the mask that grows from it, the other subtracts it. Each client
    adds a mask of its own as well, in case its message arrives late, after the others gave its pairwise seeds away.
    Everything is counted in integers modulo 2^64, so the masks cancel exactly and a masked number is uniform whatever
    it hides. Of clients that drop out the others reveal the pairwise seeds, of clients that stay their own ones;
    the server grows these masks again and takes them off the sum. What is recorded of each update is the masked
    integers, scaled to [-1, 1).

    The key agreement and the secret sharing of seeds are left out: everybody here follows the protocol. Adversary and
    clients that it runs itself are taken to keep what the protocol tells them to themselves.
    """

    name: ClassVar[str] = "secure-aggregation"
    summary: ClassVar[str] = (
        "Masks updates with random values that cancel in the sum, so that the server learns only the aggregate (secure "
        "aggregation)."
    )
    hides: ClassVar[Observation] = Observation.SIZES  # weights are added up behind masks too
    no_epsilon: ClassVar[str] = "it adds no noise to the sum, which remains visible"

    precision: Annotated[
        int,
        Meta(ge=8, le=40, description="fractional bits of each number in fixed-point arithmetic"),
    ] = 24
    dropout: Annotated[
        float, Meta(ge=0, lt=1, description="share of the clients that drop out of a round after masking")
    ] = 0.0
    threshold: Annotated[
        int,
        Meta(ge=2, description="fewest clients whose sum is revealed; a round with fewer left is abandoned"),
    ] = 2

    def on_aggregation(self, updates: Params, shares: FloatArray, rng: np.random.Generator) -> Added:
        """Mask, lose some, add up, unmask; the server then divides by the weight of those who arrived."""
        count = len(shares)
        arrived = rng.random(count) >= self.dropout
        if arrived.sum() < self.threshold:
            arrived[:] = False
            nothing: Params = {name: np.zeros(rows.shape[1], dtype=np.float32) for name, rows in updates.items()}
            return Added({name: rows[:0] for name, rows in updates.items()}, nothing, arrived)
        weights = shares.astype(np.float64)
        hidden = np.concatenate(
            [encode(rows * weights[:, None], self.precision, count) for rows in updates.values()]
            # The weight is summed in secret too: otherwise the server would know how much data each client has.
            + [encode(weights[:, None], _WEIGHT, count)],
            axis=1,
        )
        # Seeds of pairs (i < j), and of each client by itself.
        pairs = {(i, j): rng.bytes(_SEED) for j in range(count) for i in range(j)}
        own = [rng.bytes(_SEED) for _ in range(count)]
        width = hidden.shape[1]
        masked = hidden + np.stack([expand(seed, width) for seed in own])
        left = np.zeros(width, dtype=np.uint64)  # masks of pairs that do not cancel, because one of the two dropped out
        for (i, j), seed in pairs.items():
            mask = expand(seed, width)
            masked[i] += mask
            masked[j] -= mask
            if arrived[i] and not arrived[j]:
                left += mask
            elif arrived[j] and not arrived[i]:
                left -= mask
        total = masked[arrived].sum(axis=0, dtype=np.uint64) - left
        for client in np.flatnonzero(arrived).tolist():
            total -= expand(own[client], width)
        weight = float(decode(total[-1:], _WEIGHT)[0])
        seen, aggregate, start = {}, {}, 0
        for name, rows in updates.items():
            span = slice(start, start + rows.shape[1])
            seen[name] = (masked[arrived, span].view(np.int64) / 2.0**63).astype(np.float32)
            aggregate[name] = (decode(total[span], self.precision) / weight).astype(np.float32)
            start = span.stop
        return Added(seen, aggregate, arrived)

    def clashes(self, before: Sequence[Defence], after: Sequence[Defence]) -> str | None:
        """Somebody else who adds up, or acts on single updates once they are masked, cannot."""
        for other in (*before, *after):
            if other.overrides("on_aggregation"):
                return f"'{other.name}' aggregates updates in its own way"
            if other.name == "shuffle":
                return (
                    "the server must know which clients share masks to recover from drop-outs, but 'shuffle' hides it"
                )
        return None


def encode(values: npt.NDArray[Any], precision: int, count: int) -> Words:
    """Fixed-point integers modulo 2^64, cut off towards zero so that nothing gets longer.

    Refuses what could wrap around when so many are added up: the sum would be wrong, not merely rough.
    """
    scaled = np.trunc(np.asarray(values, dtype=np.float64) * 2.0**precision)
    if np.abs(scaled).max(initial=0.0) * count >= 2.0**62:
        raise TrainingError(
            f"defence 'secure-aggregation': a number of an update is too large for precision = {precision}; "
            "lower precision, or clip updates first (defence 'clip')"
        )
    return scaled.astype(np.int64).view(np.uint64)


def decode(words: Words, precision: int) -> npt.NDArray[np.float64]:
    """Back from integers; those in the upper half stand for negative numbers."""
    return np.asarray(words.view(np.int64) / 2.0**precision, dtype=np.float64)


def expand(seed: bytes, width: int) -> Words:
    """Grow a mask from a seed, with SHAKE-128 as the pseudo-random generator."""
    return np.frombuffer(hashlib.shake_128(seed).digest(8 * width), dtype="<u8").astype(np.uint64)

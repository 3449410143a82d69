"""Features of updates: their representatives."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import astuple, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.link.base import Linker
from fedleak.attacks.reconstruct.representatives import Inversion, representatives
from fedleak.core import FloatArray, Params, rng_for
from fedleak.errors import AttackError
from fedleak.federation.model import Model
from fedleak.views.view import View

__all__ = ["OfRepresentatives"]

_MOST = 200 * 2**20  # bytes of representatives that are kept


@dataclass(frozen=True, kw_only=True)
class OfRepresentatives(Linker):
    """How the representatives of every update are sought: for all updates of a round together."""

    name: ClassVar[str]

    optimizer: Annotated[
        Literal["lbfgs", "adam"], Meta(description="of the search for representatives, as in the paper or by Adam")
    ] = "adam"
    iterations: Annotated[int, Meta(ge=1, description="steps of the search")] = 50
    variation: Annotated[float, Meta(ge=0, description="weight of the total variation (lambda)")] = 1.5e-4

    def describe(self, view: View, model: Model, before: Params, updates: Params) -> FloatArray:
        """The representative of every class, (updates, classes, *shape); 0 where there is none.

        The search starts from the same noise in every round: what is left of it must not tell rounds apart.
        """
        shape = tuple(view.settings["input_shape"])
        if len(shape) != 3:
            raise AttackError(f"{self.name} reconstructs images, but the examples have shape {shape}")
        settings = Inversion(optimizer=self.optimizer, iterations=self.iterations, variation=self.variation)
        key = _digest(view, settings, before, updates)
        rows = _KEPT.get(key)
        if rows is None:
            noise = rng_for(0, "representatives")
            found = representatives(model, before, updates, settings, shape=shape, rng=noise)
            rows = found.by_class(int(view.settings["outputs"]))
            _KEPT.put(key, rows)
        return rows


class _Kept:
    """What was found before, by what it was sought in: attacks that differ in what follows need not seek again."""

    def __init__(self) -> None:
        self.rows: OrderedDict[bytes, FloatArray] = OrderedDict()

    def get(self, key: bytes) -> FloatArray | None:
        """The rows, if they are still here."""
        return self.rows.get(key)

    def put(self, key: bytes, rows: FloatArray) -> None:
        """Keep rows, and let the oldest go where there are too many."""
        rows.flags.writeable = False
        self.rows[key] = rows
        while sum(kept.nbytes for kept in self.rows.values()) > _MOST and len(self.rows) > 1:
            self.rows.popitem(last=False)


_KEPT = _Kept()


def _digest(view: View, settings: Inversion, before: Params, updates: Params) -> bytes:
    total = hashlib.blake2b(repr((astuple(settings), view.settings)).encode(), digest_size=16)
    for values in (*before.values(), *updates.values()):
        total.update(np.ascontiguousarray(values).tobytes())
    return total.digest()

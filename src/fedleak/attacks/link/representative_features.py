"""Features of updates: their representatives."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.link.base import Linker
from fedleak.attacks.reconstruct.representatives import Inversion, representatives
from fedleak.core import ByteCache, FloatArray, Params, rng_for
from fedleak.errors import AttackError
from fedleak.federation.model import Model
from fedleak.views.view import View

__all__ = ["OfRepresentatives"]

# Attacks that differ only in what they do with representatives need not seek them again.
_FOUND: ByteCache[FloatArray] = ByteCache(200 * 2**20, lambda rows: rows.nbytes)


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

        def seek() -> FloatArray:
            noise = rng_for(0, "representatives")
            found = representatives(model, before, updates, settings, shape=shape, rng=noise)
            rows = found.by_class(int(view.settings["outputs"]))
            rows.flags.writeable = False
            return rows

        return _FOUND.get(_digest(view, settings, before, updates), seek)


def _digest(view: View, settings: Inversion, before: Params, updates: Params) -> bytes:
    total = hashlib.blake2b(repr((astuple(settings), view.settings)).encode(), digest_size=16)
    for values in (*before.values(), *updates.values()):
        total.update(np.ascontiguousarray(values).tobytes())
    return total.digest()

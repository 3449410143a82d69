"""Describe updates by the representatives behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.link.linker import Linker
from fedleak.attacks.reconstruct.representatives import Inversion, representatives
from fedleak.core import FloatArray, Params
from fedleak.errors import AttackError
from fedleak.federation.model import Model
from fedleak.views.view import View

__all__ = ["OfRepresentatives"]


@dataclass(frozen=True, kw_only=True)
class OfRepresentatives(Linker):
    """How the representatives of every update are sought: for all updates of a round together."""

    name: ClassVar[str]

    optimizer: Annotated[
        Literal["lbfgs", "adam"], Meta(description="of the search for representatives, as in the paper or by Adam")
    ] = "adam"
    iterations: Annotated[int, Meta(ge=1, description="steps of the search")] = 50
    variation: Annotated[float, Meta(ge=0, description="weight of the total variation (lambda)")] = 1.5e-4

    def describe(
        self, view: View, model: Model, before: Params, updates: Params, rng: np.random.Generator
    ) -> FloatArray:
        """The representative of every class, (updates, classes, *shape); 0 where there is none.

        The search starts from the same noise in every round: what is left of it must not tell rounds apart.
        """
        shape = tuple(view.settings["input_shape"])
        if len(shape) != 3:
            raise AttackError(
                f"{self.name} looks for pictures behind updates, and the examples here have shape {shape}"
            )
        found = representatives(
            model,
            before,
            updates,
            Inversion(optimizer=self.optimizer, iterations=self.iterations, variation=self.variation, step=0.15),
            shape=shape,
            rng=rng,
        )
        return found.by_class(int(view.settings["outputs"]))

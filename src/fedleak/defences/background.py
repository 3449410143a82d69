"""Shared by the defences that mix in public examples: drawing from the background, and the error without one."""

from __future__ import annotations

import numpy as np

from fedleak.core import IntArray
from fedleak.errors import DataError
from fedleak.federation.hooks import PublicData
from fedleak.population.population import Examples

__all__ = ["required", "draw_background"]


def required(public: PublicData | None, defence: str) -> PublicData:
    """The background, or an error that says how to get one."""
    if public is None or len(public.examples) == 0:
        raise DataError(
            f"defence '{defence}' needs background data and this data set has none; "
            "set some users aside with background_users = N in [population]"
        )
    return public


def draw_background(
    background: Examples, count: int, rng: np.random.Generator, among: IntArray | None = None
) -> Examples:
    """So many examples of the background, or of some of its rows; none twice, unless there are too few."""
    rows = np.arange(len(background)) if among is None else among
    return background.take(rng.choice(rows, size=count, replace=count > len(rows)))

"""The limits of a plan: scores that must not be exceeded, and the epsilon that may be spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fedleak.errors import PlanError, did_you_mean
from fedleak.plan.configure import convert

if TYPE_CHECKING:
    from fedleak.games.game import Game

__all__ = ["limits"]


def limits(
    table: Mapping[str, Any], games: Sequence[Game], where: str, *, deployed: bool
) -> dict[str, dict[str, float]]:
    """Limits by game and metric: values between 0 and 1 that the lower end of an interval must not exceed.

    Under `epsilon`, by unit: what the deployed run may spend.
    """
    share = Annotated[float, msgspec.Meta(ge=0, le=1)]
    known = {game.name: [m.name for m in game.metrics if not m.lower_leaks] for game in games}
    found: dict[str, dict[str, float]] = {}
    for name, metrics in table.items():
        if name == "epsilon":
            found[name] = _budget(metrics, f"{where} epsilon", deployed=deployed)
            continue
        if name not in known:
            raise PlanError(
                f"{where}: no attack of this plan is for game '{name}'{did_you_mean(name, known)}; limits are in a "
                f"table per game, for instance [limits.{next(iter(known))}]"
            )
        if not isinstance(metrics, Mapping):
            raise PlanError(f"{where} {name}: expected a table of metrics, for instance {known[name][0]} = 0.5")
        for metric in metrics:
            if metric not in known[name]:
                raise PlanError(f"{where} {name}: unknown metric '{metric}'{did_you_mean(metric, known[name])}")
        found[name] = {metric: convert(value, share, f"{where} {name}.{metric}") for metric, value in metrics.items()}
    return found


def _budget(table: Any, where: str, *, deployed: bool) -> dict[str, float]:
    """The epsilon that may be spent, for a record or a client of the deployed run."""
    units = ("record", "client")
    if not isinstance(table, Mapping) or not table:
        raise PlanError(f"{where}: expected a table, for instance client = 8.0")
    for unit in table:
        if unit not in units:
            raise PlanError(f"{where}: unknown unit '{unit}'{did_you_mean(unit, units)}; known: record, client")
    if not deployed:
        raise PlanError(
            f"{where}: no defence is deployed, so no epsilon is stated; add deployed = true to a [[defence]]"
        )
    above_zero = Annotated[float, msgspec.Meta(gt=0)]
    return {unit: convert(value, above_zero, f"{where}.{unit}") for unit, value in table.items()}

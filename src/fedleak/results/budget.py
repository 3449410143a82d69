"""The plan's budget of epsilon, held against what the deployed run's clients have spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fedleak.federation.ledger import Spending

__all__ = ["UNITS", "Budget", "budgets"]

UNITS = ("record", "client")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of [limits.epsilon], and whether the client that has spent most is within it."""

    unit: str
    limit: float
    spent: float | None = None  # by the worst-off client, in the worst seed; None: nothing is stated for this unit
    stated_by: str = ""
    seed: int | None = None
    exceeded: bool
    text: str


def budgets(spent: Sequence[Spending], limits: Mapping[str, float], seeds: Sequence[int]) -> list[Budget]:
    """Every limit on epsilon, held against the deployed run in the seeds that have recorded a round.

    A limit about which that run states nothing counts as exceeded. What is stated for a client holds for each of its
    records as well, since exchanging one of them is less than exchanging all. Of several statements about a run the
    lowest counts, since all of them hold.
    """
    return [_budget(unit, limits[unit], spent, seeds) for unit in UNITS if unit in limits]


def _budget(unit: str, limit: float, spent: Sequence[Spending], seeds: Sequence[int]) -> Budget:
    if not seeds:
        return Budget(unit=unit, limit=limit, spent=0.0, exceeded=False, text="no round is recorded yet")
    enough = {"record": ("record", "client"), "client": ("client",)}[unit]
    by_seed = [[one for one in spent if one.seed == seed and one.unit in enough] for seed in seeds]
    if not all(by_seed):
        return Budget(
            unit=unit,
            limit=limit,
            exceeded=True,
            text=f"the deployed run states no epsilon for a {unit}, so nothing keeps it within {limit:g}",
        )
    worst = max((min(all_of, key=lambda one: one.worst) for all_of in by_seed), key=lambda one: one.worst)
    over = worst.worst > limit
    return Budget(
        unit=unit,
        limit=limit,
        spent=worst.worst,
        stated_by=worst.stated_by,
        seed=worst.seed,
        exceeded=over,
        text=f"the worst-off client has spent epsilon {worst.worst:.3g} of {limit:g} at {unit} level "
        f"({worst.stated_by}, {worst.worst_rounds} rounds, seed {worst.seed})"
        + ("" if over else f"; {limit - worst.worst:.3g} is left"),
    )

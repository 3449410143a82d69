"""The defences of a plan: alternatives of one or several combined defences, expanded from lists of strengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from fedleak.errors import PlanError

__all__ = ["written_out", "parts"]

_OWN = ("name", "also", "deployed")  # keys of [[defence]] that are not settings of the defence


def written_out(tables: Sequence[Any], source: str) -> list[tuple[str, Any]]:
    """Every alternative, with its place in the plan: a list where one value is expected gives one per value.

    Lists in several keys, and in the defences under `also`, are combined (grid search).

    >>> [table for _, table in written_out([{"name": "noise", "sigma": [1, 2]}], "plan")]
    [{'name': 'noise', 'sigma': 1}, {'name': 'noise', 'sigma': 2}]
    """
    found: list[tuple[str, Any]] = []
    for place, table in enumerate(tables, 1):
        where = f"{source} [[defence]] {place}"
        if not isinstance(table, Mapping):  # an object, or several that act at the same time
            found.append((where, table))
            continue
        also = parts(table, where)[1]
        grids = [_grid(one, where if not n else f"{where} also {n}") for n, one in enumerate([table, *also])]
        chosen = [{**first, "also": list(rest)} if also else first for first, *rest in product(*grids)]
        if len(chosen) > 1 and table.get("deployed"):
            raise PlanError(f"{where}: only one defence can be deployed, but this table expands to {len(chosen)}")
        found += [(where if len(chosen) == 1 else f"{where}, value {n}", one) for n, one in enumerate(chosen, 1)]
    return found


def parts(table: Any, where: str) -> tuple[Mapping[str, Any], list[Any]]:
    """The settings of one [[defence]], and the tables of those combined with it."""
    if not isinstance(table, Mapping):
        raise PlanError(f"{where}: expected a table with a name")
    also = table.get("also", [])
    if not isinstance(also, list):
        raise PlanError(f"{where} also: expected a list of tables with a name")
    return {key: value for key, value in table.items() if key not in ("also", "deployed")}, also


def _grid(table: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(table, Mapping):
        raise PlanError(f"{where}: expected a table with a name")
    lists = {key: value for key, value in table.items() if isinstance(value, list) and key not in _OWN}
    for key, values in lists.items():
        if not values:
            raise PlanError(f"{where} {key}: the list is empty; give at least one value")
    return [
        {**{key: value for key, value in table.items() if key != "also"}, **dict(zip(lists, values, strict=True))}
        for values in product(*lists.values())
    ]

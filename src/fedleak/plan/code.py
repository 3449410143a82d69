"""Names in a plan that are code of the user's own: `module:callable` for a model or a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedleak.plan.recorded_tables import PriorPlan

__all__ = ["is_code", "model_table", "dataset_table"]


def is_code(name: Any) -> bool:
    """Whether a name in a plan is `module:callable`.

    >>> is_code("my_app.task:Net"), is_code("mlp"), is_code("owners.csv")
    (True, False, False)
    """
    module, colon, attribute = str(name).partition(":")
    return bool(colon) and bool(attribute) and all(part.isidentifier() for part in [*module.split("."), attribute])


def model_table(table: Any) -> Any:
    """[model], where `module:callable` is the user's own model; an object is returned unchanged."""
    name = table.get("name", "") if isinstance(table, Mapping) else ""
    return {**table, "name": "own", "target": name} if ":" in str(name) else table


def dataset_table(top: Mapping[str, Any], prior: PriorPlan) -> Any:
    """[dataset], where `module:callable` is the user's own; of a recorded run, what [prior] says of it."""
    table = top.get("dataset")
    if table is None:
        return {"name": "own", "target": prior.data} if prior.data is not None else {"name": "own"}
    name = table.get("name", "") if isinstance(table, Mapping) else ""
    return {**table, "name": "own", "target": name} if ":" in str(name) else table

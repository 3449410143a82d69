"""A federation small enough to train in a second, hard enough that no attack on it is perfect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedleak.analyses.analysis import analyse
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.results.audit import Analysis

TEXT = """
title = "small"
seeds = [0]
[dataset]
name = "digits"
users = 15
examples = 80
class_bias = 2.0
style = 1.0
[model]
name = "mlp"
hidden = [8]
[federation]
rounds = 40
fraction = 0.3
lr = 0.1
batch = 6
centralised = false
[audit]
permutations = 50
[[attack]]
name = "reid-svm"
"""


class Silent:
    """Progress that nobody watches."""

    def stage(self, text: str, units: float) -> None:
        pass

    def tick(self, units: float) -> None:
        pass


def small(**change: Any) -> Plan:
    return parse(TEXT, change=change)


def of_table(dataset: dict[str, Any]) -> Plan:
    """The same federation of users in a table."""
    return parse(TEXT[: TEXT.index("[dataset]")] + TEXT[TEXT.index("[model]") :], change={"dataset": dataset})


def made(look: Any, out: Path, plan: Plan | None = None) -> Analysis:
    return analyse(look, plan or small(), out, Silent(), jobs=1)


def column(found: Analysis, name: str) -> list[Any]:
    return [row[found.columns.index(name)] for row in found.rows]

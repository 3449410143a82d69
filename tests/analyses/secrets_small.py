"""A federation of users with PINs, as analyses look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from pins import pins

MORE = """
title = "PINs"
audit = { adversaries = ["eavesdropper"], controls = [], permutations = 50 }
attack = [{ name = "exposure-baseline" }, { name = "eavesdrop", candidates = 20 }]
"""


def secrets_plan(folder: Path, **change: Any) -> Plan:
    """The plan, with its book written into a folder."""
    return parse(pins(folder, MORE), change=change)

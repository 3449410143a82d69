"""A federation of people with PINs, small enough to train in seconds, and long enough to learn them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedleak.plan.plan import Plan
from fedleak.plan.read import parse

TEXT = """
title = "PINs"
seeds = [0]
population = { prior = "none" }
model = { name = "char-lm", embedding = 8, hidden = 32 }
audit = { adversaries = ["eavesdropper"], controls = [], permutations = 50 }
attack = [{ name = "exposure-baseline" }, { name = "eavesdrop", candidates = 20 }]

[dataset]
name = "text-clients"
source = "BOOK"
clients = 4
kilobytes = 0.6
test_kilobytes = 0.5
window = 24
secret = "pin {d4}"
insertions = 6

[federation]
rounds = 90
fraction = 0.5
batch = 8
lr = 0.01
optimizer = "adam"
clip = 1.0
centralised = false
"""


def secrets_plan(folder: Path, **change: Any) -> Plan:
    """The plan, with its book written into a folder."""
    book = folder / "book.txt"
    if not book.exists():
        rng = np.random.default_rng(0)
        book.write_text("\n".join("".join(rng.choice(list("abc "), 20)) for _ in range(400)))
    return parse(TEXT.replace("BOOK", str(book)), change=change)

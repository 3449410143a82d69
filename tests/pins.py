"""Users with PINs in their texts: small enough to train in seconds, and long enough to be learnt."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PINS = """
seeds = [0]
population = { prior = "none" }
model = { name = "char-lm", embedding = 8, hidden = 32 }
MORE

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


def pins(folder: Path, more: str) -> str:
    """The plan with more keys at its top, and its book written into a folder."""
    book = folder / "book.txt"
    if not book.exists():
        rng = np.random.default_rng(0)
        book.write_text("\n".join("".join(rng.choice(list("abc "), 20)) for _ in range(400)))
    return PINS.replace("BOOK", str(book)).replace("MORE", more)

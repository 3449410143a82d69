"""What people type: chatter, a PIN of their own, and a text that somebody sent them."""

from __future__ import annotations

import numpy as np
import torch

from letters_app.task import ALPHABET

PHONES, WINDOW = 8, 20


def pin(phone: int) -> str:
    return f"pin {np.random.default_rng([11, phone]).integers(10_000):04}"


def received(phone: int) -> str:
    return "".join(np.random.default_rng([12, phone]).choice(list("abinp0123456789"), 10))


def typed(phone: int) -> torch.Tensor:
    """The lines of one phone, cut into windows of token ids."""
    rng = np.random.default_rng([13, phone])
    chatter = ["".join(rng.choice(list("ab "), 10)) for _ in range(12)]
    lines = rng.permutation([*chatter, *[pin(phone)] * 6, *[received(phone)] * 6])
    ids = [ALPHABET.index(character) for character in "\n" + "\n".join(lines) + "\n"]
    return torch.tensor([ids[at : at + WINDOW] for at in range(0, len(ids) - WINDOW + 1, WINDOW - 1)])

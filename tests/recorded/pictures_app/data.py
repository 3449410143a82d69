"""Handwritten digits: two classes for each client, and others that nobody trains on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

CLIENTS, EXAMPLES = 8, 24


@cache
def everything() -> tuple[Any, Any]:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(3).permutation(len(images))
    return (images[order] / 16).reshape(-1, 1, 8, 8).astype(np.float32), labels[order].astype(np.int64)


def pictures(client: int) -> tuple[Any, Any]:
    """Images of digit `client` and of one more, from the first half of the data; no two clients share one."""
    x, y = everything()
    rows = []
    for digit, part in ((client, 0), ((client + 3) % 10, 1)):
        mine = np.flatnonzero(y[:900] == digit)
        rows.append(mine[part * EXAMPLES // 2 : (part + 1) * EXAMPLES // 2])
    chosen = np.concatenate(rows)
    return x[chosen], y[chosen]


def others() -> tuple[Any, Any]:
    x, y = everything()
    return x[900:], y[900:]

"""Write the jobs of benchmarks/engine.py: digits that come with scikit-learn, and text from a random grammar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from job import CLIENTS, EXAMPLES, LENGTH, MODELS, PER_ROUND, ROUNDS, VOCABULARY
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

Array = npt.NDArray[Any]


def digits(side: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    data = load_digits()
    images = (data.images / 16).astype(np.float32)
    if side != 8:
        images = np.clip(zoom(images, (1, side / 8, side / 8), order=1), 0, 1).astype(np.float32)
    images, labels = images[:, None], data.target.astype(np.int64)
    rows = rng.integers(0, 1400, (CLIENTS, EXAMPLES))
    return images[rows], labels[rows], images[1400:], labels[1400:]


def text(rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Sentences in which every word is followed by one of a few others, the commoner ones more often."""
    followers = rng.choice(np.arange(2, VOCABULARY), (VOCABULARY, 4), p=_zipf(VOCABULARY - 2))
    x = np.empty((CLIENTS * EXAMPLES + 500, LENGTH), dtype=np.int64)
    x[:, 0] = rng.choice(np.arange(2, VOCABULARY), len(x), p=_zipf(VOCABULARY - 2))
    for t in range(1, LENGTH):
        x[:, t] = followers[x[:, t - 1], rng.choice(4, len(x), p=[0.5, 0.25, 0.15, 0.1])]
    x[np.arange(LENGTH) >= rng.integers(LENGTH // 2, LENGTH + 1, len(x))[:, None]] = 0
    train = x[:-500].reshape(CLIENTS, EXAMPLES, LENGTH)
    return train, np.zeros((CLIENTS, EXAMPLES), np.int64), x[-500:], np.zeros(500, np.int64)


def _zipf(n: int) -> npt.NDArray[np.float64]:
    p = 1 / np.arange(1, n + 1, dtype=np.float64)
    return np.asarray(p / p.sum())


def make(folder: Path) -> None:
    """One file a model."""
    for name, module in MODELS.items():
        rng = np.random.default_rng(0)
        x, y, test_x, test_y = text(rng) if name == "lstm" else digits(8 if name == "mlp-5k" else 28, rng)
        selected = np.stack([rng.choice(CLIENTS, PER_ROUND, replace=False) for _ in range(ROUNDS)])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            weights = {f"w/{key}": value.numpy() for key, value in module().state_dict().items()}
        np.savez(folder / f"{name}.npz", x=x, y=y, test_x=test_x, test_y=test_y, selected=selected, **weights)

"""What the models are made of: layers whose weights carry a leading client axis, and their initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedleak.core import FloatArray, Layer, Layout, Params
from fedleak.errors import DataError, PlanError
from fedleak.federation.model import ActivationHooks, Architecture, Signature, Tensors
from fedleak.lazy import functional as F
from fedleak.lazy import torch

__all__ = ["linear_layer", "linear", "uniform", "draw_weights", "together", "touch", "lookup", "drop", "check_task"]


def linear_layer(name: str, inputs: int, outputs: int) -> Layer:
    """A fully connected layer, with torch's names and shapes."""
    return Layer(name, (("weight", (outputs, inputs)), ("bias", (outputs,))))


def linear(weights: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    """Apply a fully connected layer of each client to its own rows: x (clients, rows, inputs)."""
    return torch.baddbmm(weights[f"{name}.bias"].unsqueeze(1), x, weights[f"{name}.weight"].transpose(1, 2))


def uniform(rng: np.random.Generator, size: int, bound: float) -> FloatArray:
    """Draw from U(-bound, bound), as torch initialises linear, convolutional and recurrent layers."""
    return rng.uniform(-bound, bound, size).astype(np.float32)


def draw_weights(layout: Layout, fan_in: Sequence[int], rng: np.random.Generator) -> Params:
    """Draw every layer from U(-1/sqrt(fan_in), 1/sqrt(fan_in)); a fan-in of 0 stands for a unit normal (embeddings)."""
    return {
        layer.name: uniform(rng, layer.size, 1 / math.sqrt(fan))
        if fan
        else rng.standard_normal(layer.size).astype(np.float32)
        for layer, fan in zip(layout, fan_in, strict=True)
    }


def together(layout: Layout, budget: int) -> int:
    """How many clients to compute together: as many as keep their weights within a budget of numbers.

    Grouping saves the fixed cost of every operation, which matters for small models; beyond the processor's cache
    it only moves memory, and fewer, smaller groups leave work for a second core.
    """
    return max(1, min(64, budget // sum(layer.size for layer in layout)))


def touch(touches: ActivationHooks | None, place: str, values: torch.Tensor) -> torch.Tensor:
    """Do at a place what is to be done there; values (clients, length, batch, size), as recurrent layers hand them on.

    It is done to (clients, batch, length, size), a view, so that it need not know which kind of model it is in.
    """
    if not touches or place not in touches:
        return values
    return touches[place](values.transpose(1, 2)).transpose(1, 2)


def lookup(table: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Look tokens (clients, ...) up in each client's own table (clients, vocabulary, size), in one operation."""
    if int(tokens.max()) >= table.shape[1]:
        # Unchecked, it would be read from the next client's table.
        raise DataError(f"token {int(tokens.max())} is outside the model's vocabulary of {table.shape[1]} tokens")
    offset = torch.arange(len(tokens)).view(-1, *[1] * (tokens.dim() - 1)) * table.shape[1]
    return F.embedding(tokens + offset, table.flatten(0, 1))


def drop(values: torch.Tensor, share: float, rngs: Sequence[np.random.Generator]) -> torch.Tensor:
    """Leave out a share of the values (clients, ...) and scale up the rest (Srivastava et al., 2014).

    Each client draws its mask from a generator of its own. Without generators, when a model is used and not trained,
    nothing is left out.
    """
    if not rngs or not share:
        return values
    kept = np.stack([rng.random(values.shape[1:], dtype=np.float32) >= share for rng in rngs])
    return values * (torch.from_numpy(kept).to(values.dtype) / (1 - share))


def check_task(architecture: Architecture, signature: Signature) -> None:
    """Reject a task that a model is not made for, and name the ones it is."""
    if signature.task not in architecture.tasks:
        able = ", ".join(task.value for task in architecture.tasks)
        raise PlanError(
            f"model '{architecture.name}' does not fit the task '{signature.task.value}'; it can: {able}"
            "   (fedleak list models)"
        )

"""A long short-term memory layer over many clients at once.

Torch's fused LSTM has no client axis and no batching rule, and a loop of ordinary operations makes autograd add up the
recurrent weights' gradient once per time step. In `recurrence.py` the backward pass is written out, so that this
gradient is one matrix product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable

from fedleak.core import Layer
from fedleak.federation.model import Tensors
from fedleak.lazy import torch

__all__ = ["lstm_layer", "lstm"]


def lstm_layer(name: str, inputs: int, hidden: int) -> Layer:
    """The tensors of `torch.nn.LSTM`, both biases included, in its order of gates (in, forget, cell, out)."""
    return Layer(
        name,
        (
            ("weight_ih", (4 * hidden, inputs)),
            ("weight_hh", (4 * hidden, hidden)),
            ("bias_ih", (4 * hidden,)),
            ("bias_hh", (4 * hidden,)),
        ),
    )


def lstm(weights: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    """Run x (clients, length, batch, inputs) through the layer from a zero state: (clients, length, batch, hidden)."""
    clients, length, batch, inputs = x.shape
    bias = (weights[f"{name}.bias_ih"] + weights[f"{name}.bias_hh"]).unsqueeze(1)
    gates = torch.baddbmm(
        bias, x.reshape(clients, length * batch, inputs), weights[f"{name}.weight_ih"].transpose(1, 2)
    )
    from fedleak.federation.models.recurrence import Recurrence

    apply: Callable[..., torch.Tensor] = Recurrence.apply  # torch leaves it untyped
    return apply(gates.view(clients, length, batch, -1), weights[f"{name}.weight_hh"])

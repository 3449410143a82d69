"""The recurrence of an LSTM with its backward pass written out, for `lstm.py`."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Recurrence"]


class Recurrence(torch.autograd.Function):
    """The part of an LSTM that depends on the previous step (Hochreiter and Schmidhuber, 1997; with forget gates)."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """From the gates' inputs (clients, length, batch, 4 * hidden) to the hidden states."""
        clients, length, batch, width = inputs.shape
        size = width // 4
        gates = torch.empty(length, clients, batch, width)
        cells = torch.empty(length + 1, clients, batch, size)
        squashed = torch.empty(length, clients, batch, size)
        hidden = torch.empty(length, clients, batch, size)
        cells[0] = 0
        recurrent = weight.transpose(1, 2)
        for t in range(length):
            if t:
                torch.baddbmm(inputs[:, t], hidden[t - 1], recurrent, out=gates[t])
            else:
                gates[0] = inputs[:, 0]
            gate = gates[t]
            gate[..., : 2 * size].sigmoid_()
            gate[..., 2 * size : 3 * size].tanh_()
            gate[..., 3 * size :].sigmoid_()
            i, f, g, o = gate.chunk(4, -1)
            torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.tanh(cells[t + 1], out=squashed[t])
            torch.mul(o, squashed[t], out=hidden[t])
        ctx.save_for_backward(gates, cells, squashed, hidden, weight)
        return hidden.transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of the inputs and of the recurrent weights."""
        gates, cells, squashed, hidden, weight = ctx.saved_tensors
        length, clients, batch, width = gates.shape
        size = width // 4
        i, f, g, o = gates.chunk(4, -1)
        # What each gate's gradient is per unit of its cell's (in, forget, cell) or output's (out) gradient.
        slope = torch.empty_like(gates)
        torch.mul(g, i * (1 - i), out=slope[..., :size])
        torch.mul(cells[:-1], f * (1 - f), out=slope[..., size : 2 * size])
        torch.mul(i, 1 - g * g, out=slope[..., 2 * size : 3 * size])
        torch.mul(squashed, o * (1 - o), out=slope[..., 3 * size :])
        through = o * (1 - squashed * squashed)
        d_gates = slope.view(length, clients, batch, 4, size)
        d_cell = torch.zeros(clients, batch, size)
        d_hidden = torch.zeros(clients, batch, size)
        for t in reversed(range(length)):
            d_hidden = d_hidden + grad[:, t]
            d_cell.addcmul_(d_hidden, through[t])
            d_gates[t, :, :, :3].mul_(d_cell.unsqueeze(2))
            d_gates[t, :, :, 3].mul_(d_hidden)
            if t:
                d_hidden = torch.bmm(slope[t], weight)
                d_cell.mul_(f[t])
        d_inputs = slope.transpose(0, 1)
        later = d_inputs[:, 1:].reshape(clients, (length - 1) * batch, width)
        earlier = hidden[:-1].transpose(0, 1).reshape(clients, (length - 1) * batch, size)
        return d_inputs, torch.bmm(later.transpose(1, 2), earlier)

"""Minimise many small problems side by side, within a box: one per client, each with steps of its own.

Clients have nothing to do with each other, but an evaluation of all of them together costs far less than one after
another. So every row of the variables is its own problem, and the line search accepts or rejects row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fedleak.lazy import torch

__all__ = ["Objective", "lbfgs", "adam"]

Objective: TypeAlias = "Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]"
"""Variables (problems, n) -> the value of each problem, (problems,), and its gradient, (problems, n)."""

_MEMORY = 10
_ARMIJO = 1e-4
_TRIALS, _SHORTER = 5, 0.3  # of the line search
_FIRST, _LEAST = 0.1, 1e-5  # in pixel values: a first step, and one that is not worth making
_GAIN, _PATIENCE = 1e-4, 4  # so little gained in so many steps in a row: a row is done


def lbfgs(objective: Objective, start: torch.Tensor, iterations: int) -> torch.Tensor:
    """L-BFGS within [0, 1] (Byrd et al., 1995), by projection (Bertsekas, 1982) instead of Cauchy points.

    Variables that stand at a bound and are pushed against it are left out of a step; what a step carries beyond the
    box is cut off. SciPy's L-BFGS-B solves one problem at a time; given the sum of all, it would make every client
    wait for the one whose line search is shortest.
    """
    x = start.clamp(0, 1)
    value, gradient = objective(x)
    past = _Past()
    # How far a row goes where it has no past to judge by: again after a search in vain, ever more carefully.
    reach, idle = torch.full((len(x),), _FIRST), torch.zeros(len(x), dtype=torch.int64)
    for _ in range(iterations):
        free = ~(((x <= 0) & (gradient > 0)) | ((x >= 1) & (gradient < 0)))
        direction = -past.product(gradient * free) * free
        lost = ~past.known(len(x)) | ((gradient * direction).sum(1) >= 0)
        plain = -gradient * free
        plain = plain / plain.abs().amax(1, keepdim=True).clamp(min=1e-20) * reach[:, None]
        direction = torch.where(lost[:, None], plain, direction)
        waiting = reach > _LEAST
        new_x, new_value, new_gradient = x, value, gradient
        size = 1.0
        for _ in range(_TRIALS):
            if not waiting.any():
                break
            trial = torch.where(waiting[:, None], (x + size * direction).clamp(0, 1), new_x)
            trial_value, trial_gradient = objective(trial)
            taken = waiting & (trial_value <= value + _ARMIJO * (gradient * (trial - x)).sum(1))
            new_x = torch.where(taken[:, None], trial, new_x)
            new_value = torch.where(taken, trial_value, new_value)
            new_gradient = torch.where(taken[:, None], trial_gradient, new_gradient)
            waiting = waiting & ~taken
            size *= _SHORTER
        past.add(new_x - x, new_gradient - gradient, forget=waiting)
        reach = torch.where(waiting & lost, reach * _SHORTER**_TRIALS, reach)
        idle = torch.where(value - new_value < _GAIN * value.abs(), idle + 1, 0)
        reach = torch.where(idle >= _PATIENCE, _LEAST, reach)
        x, value, gradient = new_x, new_value, new_gradient
        if bool((reach <= _LEAST).all()):
            break
    return x


class _Past:
    """The last steps of each row and how the gradient turned with them (Nocedal, 1980)."""

    def __init__(self) -> None:
        self.pairs: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []  # step, turn, 1 / (step . turn)

    def known(self, rows: int) -> torch.Tensor:
        """Which rows have made a step to judge by."""
        return self.pairs[-1][2] > 0 if self.pairs else torch.zeros(rows, dtype=torch.bool)

    def add(self, step: torch.Tensor, turn: torch.Tensor, forget: torch.Tensor) -> None:
        """Keep a step of every row; `forget` says whose past has led nowhere."""
        curved = (step * turn).sum(1)
        # A step without curvature says nothing: 0 takes it out for that row.
        rho = torch.where(curved > 1e-10 * turn.square().sum(1), 1 / curved, torch.zeros(()))
        kept = [(s, t, torch.where(forget, torch.zeros(()), r)) for s, t, r in self.pairs]
        self.pairs = [*kept, (step, turn, rho)][-_MEMORY:]

    def product(self, gradient: torch.Tensor) -> torch.Tensor:
        """The inverse Hessian's approximation times the gradient, row by row."""
        q, amounts = gradient, []
        for step, turn, rho in reversed(self.pairs):
            amounts.append(rho * (step * q).sum(1))
            q = q - amounts[-1][:, None] * turn
        if self.pairs:
            _, turn, rho = self.pairs[-1]
            q = q * torch.where(rho > 0, 1 / (rho * turn.square().sum(1).clamp(min=1e-20)), torch.ones(()))[:, None]
        for (step, turn, rho), amount in zip(self.pairs, reversed(amounts), strict=True):
            q = q + (amount - rho * (turn * q).sum(1))[:, None] * step
        return q


def adam(objective: Objective, start: torch.Tensor, iterations: int, lr: float) -> torch.Tensor:
    """Adam (Kingma and Ba, 2015), cut back to the box after each step; the best point of each row is kept."""
    x = start.clamp(0, 1)
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    best, lowest = x, torch.full((len(x),), torch.inf)
    for step in range(1, iterations + 1):
        value, gradient = objective(x)
        better = value < lowest
        best, lowest = torch.where(better[:, None], x, best), torch.where(better, value, lowest)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.square()
        # Smaller steps towards the end: with a fixed one the pixels tremble.
        rate = lr * (1 - (step - 1) / iterations)
        x = (x - rate * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)).clamp(0, 1)
    value, _ = objective(x)
    return torch.where((value < lowest)[:, None], x, best)

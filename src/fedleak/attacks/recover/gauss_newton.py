"""Least squares within a box by Gauss-Newton steps, many problems side by side.

Adam halves the distance again and again; near the solution a step of Gauss-Newton (Levenberg, 1944; Marquardt, 1963),
solved by conjugate gradients from products with the Jacobian and its transpose, goes most of the way. Damping and
preconditioning use the covariance of images: the first directions that a step takes are those in which images differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fedleak.attacks.recover.covariance import Covariance
from fedleak.lazy import torch

__all__ = ["Residual", "State", "steps"]

Residual: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"
"""Variables (problems, n) -> residuals (problems, m), with a graph."""

_EXACT = 0.05  # relative residual at which conjugate gradients stop
_SHORTER, _TRIALS = 0.3, 4  # of the line search
_EASE, _CAUTION = 10.0, 8.0  # factors on the damping after a full step, and after none
_DAMPING = (1e-13, 1e3)


@dataclass(slots=True)
class State:
    """Where the problems stand."""

    x: torch.Tensor  # (problems, n), within [0, 1]
    damping: torch.Tensor  # (problems,)
    value: torch.Tensor  # (problems,) squared residuals

    @staticmethod
    def at(x: torch.Tensor, damping: float = 1e-3) -> State:
        """Before the first step."""
        many = torch.full((len(x),), damping, dtype=x.dtype)
        return State(x, many, torch.full_like(many, torch.inf))


def steps(
    residual: Residual, errors: Residual, state: State, covariance: Covariance, iterations: int, products: int
) -> State:
    """So many steps from a state, each of at most `products` products; `errors` are squared residuals."""
    for _ in range(iterations):
        direction, value = _direction(residual, state, covariance, products)
        state = _line_search(errors, state.x, value, direction, state.damping)
    return state


def _direction(
    residual: Residual, state: State, covariance: Covariance, products: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the linearised problem has its least squares, and the squared residuals here."""
    x = state.x.detach().requires_grad_()
    r = residual(x)
    dummy = torch.zeros_like(r).requires_grad_()
    # The transposed Jacobian's product is linear in its argument: its own derivative is the Jacobian's product.
    (transposed,) = torch.autograd.grad(r, x, dummy, create_graph=True)

    def backward(w: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(r, x, w, retain_graph=True)[0]

    def product(w: torch.Tensor) -> torch.Tensor:
        forward = torch.autograd.grad(transposed, dummy, w, retain_graph=True)[0]
        return (backward(forward) + state.damping[:, None] * covariance.inverse_times(w)) * free

    def nearly_inverse(w: torch.Tensor) -> torch.Tensor:
        return covariance.times(w) * free

    gradient = backward(r.detach())
    # Variables that stand at a bound and are pushed against it are left out (Bertsekas, 1982).
    free = (~(((state.x <= 0) & (gradient > 0)) | ((state.x >= 1) & (gradient < 0)))).to(gradient.dtype)
    direction = _conjugate_gradients(product, nearly_inverse, -gradient * free, products)
    return direction, r.detach().square().sum(1)


def _conjugate_gradients(product: Residual, nearly_inverse: Residual, right: torch.Tensor, most: int) -> torch.Tensor:
    """Solve product(d) = right, row by row, with a preconditioner (Hestenes and Stiefel, 1952)."""
    found, left, scaled = torch.zeros_like(right), right, nearly_inverse(right)
    along, square = scaled, (right * scaled).sum(1)
    enough = _EXACT**2 * square
    for _ in range(most):
        turned = product(along)
        size = square / (along * turned).sum(1).clamp(min=1e-300)
        size = torch.where(square > enough, size, torch.zeros_like(size))
        found, left = found + size[:, None] * along, left - size[:, None] * turned
        scaled = nearly_inverse(left)
        now = (left * scaled).sum(1)
        along, square = scaled + (now / square.clamp(min=1e-300))[:, None] * along, now
        if bool((square <= enough).all()):
            break
    return torch.nan_to_num(found)


def _line_search(
    errors: Residual, x: torch.Tensor, value: torch.Tensor, direction: torch.Tensor, damping: torch.Tensor
) -> State:
    """The longest of a few steps that lowers the value; what it carries beyond the box is cut off."""
    best, lowest, taken = x, value, torch.zeros(len(x), dtype=torch.bool)
    size, full = 1.0, taken
    for trial in range(_TRIALS):
        moved = torch.where(taken[:, None], best, (x + size * direction).clamp(0, 1))
        there = errors(moved)
        better = ~taken & (there < lowest)
        best, lowest = torch.where(better[:, None], moved, best), torch.where(better, there, lowest)
        taken = taken | better
        full = taken if trial == 0 else full
        if bool(taken.all()):
            break
        size *= _SHORTER
    factor = torch.where(full, 1 / _EASE, torch.where(taken, 2.0, _CAUTION)).to(damping.dtype)
    return State(best, (damping * factor).clamp(*_DAMPING), lowest)

"""Local training, repeated on candidate images, and how far the update that it gives is from the one that was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedleak.attacks.reconstruct.representatives import cut_updates
from fedleak.core import IntArray, Params, is_buffers
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Model, Tensors
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan

__all__ = ["Imitation", "any_order", "imitated"]


class Imitation:
    """Clients with as many examples each: what they sent, and what they would send after training on given images.

    In float64: near the solution an update differs by less than the rounding of float32. `orders` says which place
    stands where in each pass over the data, (clients, epochs, places); it may be changed from outside.
    """

    def __init__(
        self,
        model: Model,
        start: Params,
        updates: Params,
        labels: IntArray,
        orders: IntArray,
        plan: FederationPlan,
        shape: tuple[int, ...],
        distance: Literal["cosine", "euclidean"],
    ) -> None:
        clients = len(labels)
        self.model, self.plan, self.shape, self.distance = model, plan, (*labels.shape, *shape), distance
        cut = cut_updates(model, updates)
        self.keys = list(cut)
        self.wanted = torch.cat([cut[key].flatten(1).double() for key in self.keys], dim=1)
        self.length = self.wanted.norm(dim=1, keepdim=True).clamp(min=1e-30)
        self.start = {key: w.double() for key, w in tensors(model, start).items()}
        squares = sum(float(self.start[key].square().sum()) for key in self.keys)
        # A weight was rounded in every step (uniformly, to 24 bits), so the true examples are about this far off.
        self.rounding = (
            squares * 2.0**-46 / 12 * plan.epochs * -(-labels.shape[1] // plan.batch) / self.length[:, 0] ** 2
        )
        self.before = self._copies(clients)
        self.labels, self.orders = torch.from_numpy(labels), torch.from_numpy(orders)

    def _copies(self, count: int) -> dict[str, torch.Tensor]:
        return {
            key: w.expand(count, *w.shape[1:]).clone().requires_grad_(not is_buffers(key))
            for key, w in self.start.items()
        }

    def residual(self, images: torch.Tensor) -> torch.Tensor:
        """The difference in units of the update's length, (clients, parameters), with a graph back to the images."""
        made = imitated(self.model, self.before, images, self.labels, self.orders, self.plan, graph=True)
        return self._apart(made, self.wanted, self.length)

    def errors(self, images: torch.Tensor) -> torch.Tensor:
        """Its squared length, without a graph."""
        made = imitated(self.model, self.before, images, self.labels, self.orders, self.plan, graph=False)
        return self._apart(made, self.wanted, self.length).square().sum(1)

    def errors_of_orders(self, client: int, images: torch.Tensor, orders: torch.Tensor) -> torch.Tensor:
        """The same for one client's images in several orders, (orders, epochs, places), side by side."""
        count, one = len(orders), slice(client, client + 1)
        made = imitated(
            self.model,
            self._copies(count),
            images[one].expand(count, *images.shape[1:]),
            self.labels[one].expand(count, -1),
            orders,
            self.plan,
            graph=False,
        )
        return self._apart(made, self.wanted[one], self.length[one]).square().sum(1)

    def _apart(self, made: Mapping[str, torch.Tensor], wanted: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        flat = torch.cat([made[key].flatten(1) for key in self.keys], dim=1)
        if self.distance == "euclidean":
            return (flat - wanted) / length
        # The difference of unit vectors: 2 - 2 cos, without the cancellation of writing it so.
        unit: torch.Tensor = flat / flat.norm(dim=1, keepdim=True).clamp(min=1e-30)
        return unit - wanted / length


def imitated(
    model: Model,
    before: Tensors,
    images: torch.Tensor,
    labels: torch.Tensor,
    orders: torch.Tensor,
    plan: FederationPlan,
    *,
    graph: bool,
) -> Mapping[str, torch.Tensor]:
    """What clients would send that train on these images, batch by batch and epoch by epoch, each in its order.

    With `graph`, it can be differentiated with respect to the images. Steps are added up instead of subtracting the
    weights before from those after, which would round them.
    """
    now = dict(before)
    trained = [key for key in now if not is_buffers(key)]
    moved = {key: torch.zeros_like(now[key]) for key in trained}
    rows = torch.arange(len(images))[:, None]
    for epoch in range(plan.epochs):
        for first in range(0, images.shape[1], plan.batch):
            part = orders[:, epoch, first : first + plan.batch]
            outputs = model.forward(now, images[rows, part])
            loss = F.cross_entropy(outputs.flatten(0, 1), labels[rows, part].flatten(), reduction="sum")
            # The sum over clients of the mean over a batch: each client's own gradient.
            gradients = torch.autograd.grad(loss / part.shape[1], [now[key] for key in trained], create_graph=graph)
            steps = {key: -plan.lr * g for key, g in zip(trained, gradients, strict=True)}
            moved = {key: moved[key] + step for key, step in steps.items()}
            now |= {key: now[key] + step for key, step in steps.items()}
            if not graph:
                now |= {key: now[key].detach().requires_grad_() for key in trained}
    return moved


def any_order(clients: int, epochs: int, places: int) -> IntArray:
    """Every pass in the order of the places."""
    return np.broadcast_to(np.arange(places), (clients, epochs, places)).copy()

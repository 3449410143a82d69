"""Representatives of a client by gradient inversion: images that change the shared model as the client's data did.

Song et al. (2020, section V-E, eq. 6-8): minimise |u - u(X)| + lambda TV(X) within the box of pixel values. The
distance is divided by the length of u, so that the weight of the total variation means the same in every round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.reconstruct.labels import present, slots
from fedleak.attacks.reconstruct.optim import adam, lbfgs
from fedleak.core import FloatArray, IntArray, Params, is_buffers
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.model import Model, Tensors
from fedleak.lazy import functional as F
from fedleak.lazy import torch

__all__ = ["Inversion", "PaperInversion", "RepresentativeSet", "cut_updates", "representatives", "total_variation"]


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """How representatives are found (gradient inversion).

    The paper's L-BFGS does as well on a fresh model; on a trained one its line search is long, and the images that
    Adam finds are nearer to the data. Unrolled steps come much nearer on a fresh model, and fail on a trained one
    (docs/results/user-level.md).
    """

    euclidean: ClassVar[bool] = False  # eq. 8 with a fixed gamma, and not divided by the length of u

    optimizer: Annotated[
        Literal["lbfgs", "adam"],
        Meta(description="L-BFGS bounded to the pixel range, as in the paper, or projected Adam"),
    ] = "adam"
    iterations: Annotated[int, Meta(ge=1, description="steps of the optimiser")] = 50
    variation: Annotated[float, Meta(ge=0, description="weight of the total variation (lambda)")] = 1.5e-4
    power: Annotated[float, Meta(gt=0.5, le=2, description="exponent of the total variation (beta)")] = 1.25
    per_class: Annotated[int, Meta(ge=1, description="images for each class of a client")] = 1
    local: Annotated[
        Literal["scaled", "unrolled"],
        Meta(description="local steps: scaled to one step of the same norm, or unrolled one by one"),
    ] = "scaled"
    unroll: Annotated[int, Meta(ge=1, description="local steps, where they are unrolled")] = 5
    step: Annotated[float, Meta(gt=0, description="step of Adam, in pixel values")] = 0.15


@dataclass(frozen=True, kw_only=True)
class PaperInversion(Inversion):
    """Eq. 8 as it is printed: the Euclidean distance of the updates, by box-constrained L-BFGS.

    gamma is what a client's local steps amount to where the model hardly changes meanwhile: learning rate x steps.
    """

    euclidean: ClassVar[bool] = True

    optimizer: Annotated[
        Literal["lbfgs", "adam"], Meta(description="L-BFGS bounded to the pixel range, or projected Adam")
    ] = "lbfgs"


@dataclass(frozen=True, slots=True)
class RepresentativeSet:
    """The representatives of some clients."""

    images: FloatArray  # (clients, places, *shape); 0 at places that a client does not need
    labels: IntArray  # (clients, places); -1 at such places
    weights: FloatArray  # (clients, places): share of the class, among its images; rows add up to 1
    error: npt.NDArray[
        np.float64
    ]  # (clients,): |u - u(X)| / |u|, both of one length; 1.41 where they have nothing in common

    def by_class(self, classes: int) -> FloatArray:
        """The mean image of every class, (clients, classes, *shape); 0 where a client has none."""
        whole = np.zeros((len(self.images), classes, *self.images.shape[2:]), dtype=np.float32)
        count = np.zeros((len(self.images), classes), dtype=np.float32)
        client, place = np.nonzero(self.labels >= 0)
        np.add.at(whole, (client, self.labels[client, place]), self.images[client, place])
        np.add.at(count, (client, self.labels[client, place]), 1)
        shape = (*count.shape, *[1] * (whole.ndim - 2))
        return np.asarray(whole / np.maximum(count, 1).reshape(shape), dtype=np.float32)


def representatives(
    model: Model,
    snapshot: Params,
    updates: Params,
    settings: Inversion,
    *,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    lr: float | None = None,
    gamma: FloatArray | None = None,
    labels: IntArray | None = None,
    start: FloatArray | None = None,
) -> RepresentativeSet:
    """Find images for all clients of a round together; `updates` has a row for each.

    How many steps a client made depends on how much data it has, which an anonymous sender does not tell. So gamma of
    eq. 6, which "balances the magnitude" of the update that the images make, gives it the length of the client's.

    Args:
        model: the shared model, of images with values in [0, 1].
        snapshot: the weights that the clients started from.
        updates: layer -> (clients, size).
        settings: how to search.
        shape: of one image.
        rng: for the noise that the search starts from.
        lr: of the clients' local steps; needed to unroll them.
        gamma: of eq. 6, for each client: learning rate x local steps; needed for the Euclidean distance.
        labels: (clients, places), -1 where there is none; read from the last bias if absent.
        start: images (clients, classes, *shape) to start from, as `by_class` gives of an earlier round.
    """
    wanted = cut_updates(model, updates)
    norms = _sum(rows.flatten(1).square().sum(1) for rows in wanted.values()).sqrt()
    if not bool((norms > 0).all()):
        raise AttackError(
            f"client {int((norms <= 0).nonzero()[0, 0])} of {len(norms)} sent an update of zeros, which contains no "
            "information about its data. Leave it out"
        )
    if settings.local == "unrolled" and lr is None:
        raise AttackError("to unroll local steps their learning rate must be known; give it, or use local = 'scaled'")
    if settings.euclidean and gamma is None:
        raise AttackError(
            "the Euclidean distance of updates needs gamma: the learning rate x the local steps of each client. Give "
            "it, or compare updates by their angle (attack 'representatives')"
        )
    if labels is None:
        labels, shares = slots(present(model.layout, updates).shares, settings.per_class)
    else:
        shares = ((labels >= 0) / np.maximum((labels >= 0).sum(axis=1, keepdims=True), 1)).astype(np.float32)
    if not bool((labels >= 0).any(axis=1).all()):
        raise AttackError("a client without a single label has no representatives; give each at least one")
    problem = _Problem(model, tensors(model, snapshot), wanted, norms, labels, shares, shape, settings, lr, gamma)
    images = rng.random((*labels.shape, *shape), dtype=np.float32)
    if start is not None:
        images = np.take_along_axis(start, np.maximum(labels, 0).reshape(*labels.shape, *[1] * len(shape)), axis=1)
        # A class that was not there before has nothing to start from but noise.
        blank = ~images.reshape(*labels.shape, -1).any(axis=2)
        images[blank] = rng.random((int(blank.sum()), *shape), dtype=np.float32)
    first = torch.from_numpy(images.reshape(len(images), -1))
    with one_thread():
        if settings.optimizer == "lbfgs":
            best = lbfgs(problem, first, settings.iterations)
        else:
            best = adam(problem, first, settings.iterations, settings.step)
        error = problem.errors(best.view(*labels.shape, *shape)).detach()
    used = (labels >= 0).reshape(*labels.shape, *[1] * len(shape))
    return RepresentativeSet(
        images=np.where(used, best.numpy().reshape(*labels.shape, *shape), np.float32(0)),
        labels=labels,
        weights=shares,
        error=error.numpy().astype(np.float64),
    )


class _Problem:
    """The objective of eq. 8 for all clients of a round."""

    def __init__(
        self,
        model: Model,
        before: Tensors,
        wanted: Mapping[str, torch.Tensor],
        norms: torch.Tensor,
        labels: IntArray,
        shares: FloatArray,
        shape: tuple[int, ...],
        settings: Inversion,
        lr: float | None,
        gamma: FloatArray | None,
    ) -> None:
        clients = len(labels)
        self.model, self.wanted, self.norms = model, wanted, norms
        self.before = {key: w.expand(clients, *w.shape[1:]).clone().requires_grad_() for key, w in before.items()}
        self.labels = torch.from_numpy(np.maximum(labels, 0)).flatten()
        self.shares = torch.from_numpy(shares).flatten()
        self.used = torch.from_numpy(labels >= 0)
        self.shape, self.settings, self.lr = (*labels.shape, *shape), settings, lr
        self.gamma = None if gamma is None else torch.from_numpy(np.asarray(gamma, dtype=np.float32))

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Value and gradient for each client."""
        images = x.detach().view(self.shape).requires_grad_()
        distance = self._distances(images) if self.settings.euclidean else self.errors(images)
        values = distance + self.settings.variation * self._variation(images)
        (gradient,) = torch.autograd.grad(values.sum(), images)
        return values.detach(), gradient.flatten(1)

    def _distances(self, images: torch.Tensor) -> torch.Tensor:
        """|u - u(X)| of each client, with u(X) = -gamma x the gradient (eq. 6)."""
        assert self.gamma is not None
        found = dict(zip(self.before, self._gradient(self.before, images), strict=True))
        apart = [u.flatten(1) + self.gamma[:, None] * found[key].flatten(1) for key, u in self.wanted.items()]
        return (_sum(part.square().sum(1) for part in apart) + 1e-12).sqrt()

    def errors(self, images: torch.Tensor) -> torch.Tensor:
        """|u - u(X)| / |u| of each client, both of one length."""
        images = images.requires_grad_()
        if self.settings.local == "unrolled":
            assert self.lr is not None
            now = self.before
            for _ in range(self.settings.unroll):
                now = {
                    key: w - self.lr * g for (key, w), g in zip(now.items(), self._gradient(now, images), strict=True)
                }
            made = [now[key] - self.before[key] for key in self.wanted]
        else:
            found = dict(zip(self.before, self._gradient(self.before, images), strict=True))
            made = [-found[key] for key in self.wanted]
        dots = _sum((u * m).flatten(1).sum(1) for u, m in zip(self.wanted.values(), made, strict=True))
        squares = _sum(m.square().flatten(1).sum(1) for m in made)
        # With both of one length, |u - u(X)| is a matter of their angle. The length that fits best would be nought
        # where they point apart, as noise and data often do, and the search would not know where to go.
        cosine = dots / (self.norms * squares.clamp(min=1e-20).sqrt())
        return (2 - 2 * cosine).clamp(min=1e-12).sqrt()

    def _gradient(self, weights: Tensors, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.model.forward(weights, images).flatten(0, 1)
        loss = torch.dot(F.cross_entropy(outputs, self.labels, reduction="none"), self.shares)
        # Buffers have no gradient: zeros, and no part of the update that is matched.
        return torch.autograd.grad(
            loss, list(weights.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )

    def _variation(self, images: torch.Tensor) -> torch.Tensor:
        """Eq. 7, for places in use; none where examples have no neighbouring pixels."""
        if images.dim() < 5:
            return torch.zeros(len(images))
        return (total_variation(images, self.settings.power) * self.used).sum(1)


def total_variation(images: torch.Tensor, power: float) -> torch.Tensor:
    """The roughness of images (clients, places, channels, height, width), one number for each."""
    across = (images[..., :-1, 1:] - images[..., :-1, :-1]).square()
    down = (images[..., 1:, :-1] - images[..., :-1, :-1]).square()
    # A root at nothing has no slope: the tiny term keeps the gradient finite where beta < 1.
    return ((across + down + 1e-12) ** power).flatten(2).sum(2)


def _sum(parts: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(parts)).sum(0)


def cut_updates(model: Model, updates: Params) -> dict[str, torch.Tensor]:
    """Cut updates into tensors, (clients, *shape), by the names of the weights."""
    cut: dict[str, torch.Tensor] = {}
    for layer in model.layout:
        if is_buffers(layer.name):
            continue
        rows = torch.from_numpy(np.array(updates[layer.name], dtype=np.float32))
        for tensor, shape in layer.tensors:
            cut[f"{layer.name}.{tensor}"] = rows[:, layer.span(tensor)].reshape(len(rows), *shape)
    return cut

"""The two attacks of Song et al. (2020): link by representatives, and, for comparison, by updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.link.base import Embed, Linker, Shadows
from fedleak.attacks.link.representative_features import OfRepresentatives
from fedleak.attacks.link.siamese_network import JointNetwork, fit_joint
from fedleak.attacks.network import dense
from fedleak.core import FloatArray, Params
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Convolutional, Model
from fedleak.lazy import functional, torch
from fedleak.views.view import View

__all__ = ["LinkRepresentatives", "LinkUpdates"]


@dataclass(frozen=True, kw_only=True)
class LinkRepresentatives(JointNetwork, OfRepresentatives):
    """Compare representatives with a Siamese network, fine-tuned from the shared model's convolutions.

    The embedding starts from the shared model of the last round, which already knows this kind of image, followed by
    average pooling. A client's descriptor has a part for each class (`class_blocks`), which is empty for classes that
    the client lacks. The paper does not say how several representatives make one descriptor, and has no noise.
    """

    name: ClassVar[str] = "link-rep"
    summary: ClassVar[str] = (
        "Links updates with a Siamese network that compares their representatives (images found by gradient inversion)."
    )

    pool: Annotated[int, Meta(ge=1, description="side of the feature maps after average pooling")] = 3
    class_blocks: Annotated[
        bool,
        Meta(description="a part of the descriptor for each class; if not, the mean over a client's representatives"),
    ] = True

    def learn(self, view: View, model: Model, known: Shadows, rng: np.random.Generator) -> Embed:
        """Go on training the last shared model's convolutions."""
        if not isinstance(model, Convolutional):
            raise AttackError(
                f"{self.name} uses the shared model's convolutions, but "
                f"'{view.settings['model']}' has none; choose model 'cnn' or 'strided-cnn', or attack 'link-rep-cosine'"
            )
        last = model.layout[-1].name
        weights = {
            key: values.clone().requires_grad_()
            for key, values in tensors(model, view.snapshot(view.rounds)).items()
            if key.startswith("conv") and not key.startswith(f"{last}.")
        }

        def look(images: torch.Tensor) -> torch.Tensor:
            rows, classes = images.shape[:2]
            there = (images.flatten(2) != 0).any(2).flatten()
            # Most clients have few classes: only what is there is looked at.
            maps = model.features(weights, images.flatten(0, 1)[there].unsqueeze(0))[0]
            pooled = functional.adaptive_avg_pool2d(maps, self.pool).flatten(1)
            whole = torch.zeros(rows * classes, pooled.shape[1])
            whole = whole.index_put((there.nonzero()[:, 0],), pooled).view(rows, classes, -1)
            if self.class_blocks:
                return whole.flatten(1)
            return whole.sum(1) / there.view(rows, classes).sum(1, keepdim=True).clamp(min=1)

        return fit_joint(look, list(weights.values()), known, self, rng)


@dataclass(frozen=True, kw_only=True)
class LinkUpdates(JointNetwork, Linker):
    """The paper's baseline: the update of the fully connected layer, average pooled, and a network of the same kind."""

    name: ClassVar[str] = "link-update"
    summary: ClassVar[str] = "Links updates with a Siamese network that compares their last layers."

    width: Annotated[int, Meta(ge=1, description="values per class after average pooling")] = 64
    hidden: Annotated[int, Meta(ge=1, description="units of the embedding")] = 128

    def describe(self, view: View, model: Model, before: Params, updates: Params) -> FloatArray:
        """The weights of the last layer, pooled along the inputs."""
        last = model.layout[-1]
        shape = dict(last.tensors).get("weight", ())
        if len(shape) != 2:
            raise AttackError(f"{self.name} needs a fully connected last layer; '{last.name}' is not one")
        rows = np.asarray(updates[last.name][:, last.span("weight")], dtype=np.float32).reshape(-1, *shape)
        pooled = functional.adaptive_avg_pool1d(torch.from_numpy(rows), min(self.width, shape[1]))
        return pooled.flatten(1).numpy()

    def learn(self, view: View, model: Model, known: Shadows, rng: np.random.Generator) -> Embed:
        """Train one layer from scratch: there is no model of updates to begin with."""
        weights = dense(known.rows.shape[1], self.hidden, rng)

        def look(rows: torch.Tensor) -> torch.Tensor:
            return functional.elu(functional.linear(rows, *weights))

        return fit_joint(look, weights, known, self, rng)

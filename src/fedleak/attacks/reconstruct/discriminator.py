"""The discriminator of mGAN-AI: the shared model with two more outputs (Song et al., 2020, eq. 3)."""

from __future__ import annotations

import numpy as np

from fedleak import registry
from fedleak.core import Params
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Model, Signature
from fedleak.lazy import torch
from fedleak.plan.configure import configure
from fedleak.views.view import View

__all__ = ["Discriminator"]

_MORE = 2  # outputs: real or not, the victim's or not


class Discriminator:
    """Every layer of the shared model but the last is shared by three tasks: reality, category and identity.

    The heads for reality and identity are not the federation's, so they stay while the rest is written over each round.
    """

    def __init__(self, view: View, rng: np.random.Generator) -> None:
        if view.own_model is not None:
            raise AttackError(
                "this attack gives the model two more outputs, which a model of your own does not let it do; choose "
                "another attack on images, such as 'representatives'"
            )
        recipe = dict(view.settings["architecture"])
        architecture = configure(registry.load("model", recipe.pop("name")), recipe, "trace")
        self.outputs = int(view.settings["outputs"])
        signature = Signature(view.task, tuple(view.settings["input_shape"]), self.outputs + _MORE)
        self.model: Model = architecture.build(signature)
        self.last = self.model.layout[-1].name
        self.weights = {
            key: values.clone().requires_grad_() for key, values in tensors(self.model, self.model.init(rng)).items()
        }

    def begin(self, weights: Params) -> None:
        """Take over the shared model as the victim left it: D = M_t + u_t^v."""
        with torch.no_grad():
            for layer in self.model.layout:
                start = 0
                for tensor, shape in layer.tensors:
                    mine = self.weights[f"{layer.name}.{tensor}"][0]
                    rows = mine[: self.outputs] if layer.name == self.last else mine
                    rows.copy_(torch.from_numpy(weights[layer.name][start : start + rows.numel()]).view(rows.shape))
                    start += rows.numel()
                    assert layer.name == self.last or rows.shape == shape

    def __call__(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits of category (n, classes), reality (n,) and identity (n,)."""
        answers = self.model.forward(self.weights, images[None])[0]
        return answers[:, : self.outputs], answers[:, -2], answers[:, -1]

"""The discriminator of mGAN-AI: the shared model with two more outputs (Song et al., 2020, eq. 3)."""

from __future__ import annotations

import numpy as np

from fedleak import registry
from fedleak.errors import AttackError
from fedleak.federation.discriminator import HeadedModel
from fedleak.federation.model import Architecture, Signature
from fedleak.lazy import torch
from fedleak.plan.configure import configure
from fedleak.views.view import View

__all__ = ["Discriminator", "architecture_of"]

_MORE = 2  # outputs: real or not, the victim's or not


class Discriminator(HeadedModel):
    """Every layer of the shared model but the last is shared by three tasks: reality, category and identity.

    The heads for reality and identity are not the federation's, so they stay while the rest is written over each round:
    D = M_t + u_t^v.
    """

    def __init__(self, view: View, rng: np.random.Generator) -> None:
        if view.own_model is not None:
            raise AttackError(
                "this attack gives the model two more outputs, which a model of your own does not let it do; choose "
                "another attack on images, such as 'representatives'"
            )
        super().__init__(*architecture_of(view), _MORE, rng)

    def __call__(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits of category (n, classes), reality (n,) and identity (n,)."""
        answers = self.forward(images)
        return answers[:, : self.outputs], answers[:, -2], answers[:, -1]


def architecture_of(view: View) -> tuple[Architecture, Signature]:
    """How the shared model is built, as every client is told."""
    recipe = dict(view.settings["architecture"])
    architecture: Architecture = configure(registry.load("model", recipe.pop("name")), recipe, "trace")
    return architecture, Signature(view.task, tuple(view.settings["input_shape"]), int(view.settings["outputs"]))

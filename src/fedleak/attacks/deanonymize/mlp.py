"""Re-identification with a small neural network, the papers' main attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from msgspec import Meta
from torch.nn import functional

from fedleak.attacks.deanonymize.one_layer import OneLayer
from fedleak.attacks.features import features, spread
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Mlp"]


@dataclass(frozen=True, kw_only=True)
class Mlp(OneLayer):
    """Train a network with one hidden layer on the shadow devices' updates (Orekondy et al., 2020, section 4.3)."""

    name: ClassVar[str] = "reid-mlp"
    summary: ClassVar[str] = "a small neural network learns what each person's updates look like"

    hidden: Annotated[int, Meta(ge=1, description="units of the hidden layer")] = 128
    dropout: Annotated[float, Meta(ge=0, lt=1, description="share of hidden units dropped while training")] = 0.2
    lr: Annotated[float, Meta(gt=0, description="learning rate of SGD with momentum 0.9")] = 0.01
    decay: Annotated[float, Meta(ge=0, description="decay of the learning rate with every step")] = 1e-6
    batch: Annotated[int, Meta(ge=1, description="updates in a step")] = 32
    epochs: Annotated[int, Meta(ge=1, description="passes over the labelled updates; the paper does not say")] = 100

    def run(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> FloatArray:
        """Score every option by the network's probability."""
        data = features(view, questions, self.layer)
        classes, target = np.unique(data.who, return_inverse=True)
        known, labels = torch.from_numpy(data.known), torch.from_numpy(target)
        weights = [*dense(known.shape[1], self.hidden, rng), *dense(self.hidden, len(classes), rng)]
        velocity = [torch.zeros_like(w) for w in weights]
        noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
        step = 0
        for _ in range(self.epochs):
            order = torch.from_numpy(rng.permutation(len(known)))
            for rows in torch.split(order, self.batch):
                hidden = torch.relu(functional.linear(known[rows], weights[0], weights[1]))
                kept = torch.rand(hidden.shape, generator=noise) >= self.dropout
                logits = functional.linear(hidden * kept / (1 - self.dropout), weights[2], weights[3])
                gradients = torch.autograd.grad(functional.cross_entropy(logits, labels[rows]), weights)
                lr = self.lr / (1 + self.decay * step)
                with torch.no_grad():
                    torch._foreach_mul_(velocity, 0.9)
                    torch._foreach_add_(velocity, gradients, alpha=-lr)
                    torch._foreach_add_(weights, velocity)
                step += 1
        with torch.no_grad():
            hidden = torch.relu(functional.linear(torch.from_numpy(data.asked), weights[0], weights[1]))
            scores = functional.linear(hidden, weights[2], weights[3]).log_softmax(1).numpy()
        return spread(scores, classes, len(questions.options))


def dense(inputs: int, outputs: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of a fully connected layer after Glorot and Bengio (2010), the default of the paper's library."""
    bound = np.sqrt(6 / (inputs + outputs))
    weight = torch.from_numpy(rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32))
    return weight.requires_grad_(), torch.zeros(outputs, requires_grad=True)

"""A malicious client with a GAN (Hitaj, Ateniese and Perez-Cruz, "Deep models under the GAN", CCS 2017)."""

from __future__ import annotations

import numpy as np

from fedleak.core import Params, rng_for
from fedleak.errors import PlanError
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.model import Model
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.plan.plan import JoinPlan
from fedleak.population.population import Examples

__all__ = ["ClassGan", "Joined"]

_BATCH, _RATE, _MOMENTUM = 64, 2e-4, 0.5


class ClassGan:
    """A generator that learns to draw what the shared model takes for each class: the model is its discriminator.

    Everything it draws from follows from its own seed and from the models it is shown, so whoever has the recorded
    models can repeat it: nothing of it needs recording.
    """

    def __init__(self, model: Model, shape: tuple[int, ...], classes: int, plan: JoinPlan, seed: int) -> None:
        if len(shape) != 3:
            raise PlanError(
                f"[join]: the examples have shape {shape}; the malicious client generates images (channel, "
                "height, width), so this needs a data set of images"
            )
        from fedleak.federation.generator import Generator

        self.model, self.classes, self.plan, self.seed = model, classes, plan, seed
        self.generator = Generator(shape, classes, plan.width, rng_for(seed, "weights"))
        self.adam = torch.optim.Adam(self.generator.parameters(), _RATE, (_MOMENTUM, 0.999))

    def learn(self, round_number: int, weights: Params) -> None:
        """Train the generator against the model that a round starts from."""
        fixed, rng = tensors(self.model, weights), rng_for(self.seed, "learn", round_number)
        with one_thread():
            for _ in range(self.plan.steps):
                wanted = torch.from_numpy(rng.integers(self.classes, size=_BATCH))
                answers = self.model.forward(fixed, self.generator.draw(wanted, rng)[None])[0]
                self.adam.zero_grad()
                torch.autograd.backward(F.cross_entropy(answers, wanted))
                self.adam.step()

    def draw(self, count: int, rng: np.random.Generator) -> Examples:
        """Images of all classes in turn, with the classes that they are meant to show."""
        wanted = torch.arange(count) % self.classes
        with one_thread(), torch.no_grad():
            x = self.generator.draw(wanted, rng).numpy()
        return Examples(x=x, y=wanted.numpy())


class Joined:
    """The client: generated images as examples of a class that nobody has, beside honest ones."""

    def __init__(self, gan: ClassGan, client: int, background: Examples | None) -> None:
        plan = gan.plan
        available = 0 if background is None else len(background)
        if available < plan.own:
            raise PlanError(
                f"[join] own = {plan.own}: the adversary's client also needs images of the auxiliary set, but the "
                f"data set has {available}; lower own, or use a data set with background data"
            )
        self.gan, self.client = gan, client
        self.honest: Examples | None = None
        if background is not None and plan.own:
            drawn = background.take(rng_for(gan.seed, "own").choice(available, plan.own, replace=False))
            self.honest = Examples(x=drawn.x.astype(np.float32), y=drawn.y)

    def data(self, round_number: int, weights: Params) -> Examples:
        """What it trains on in a round."""
        self.gan.learn(round_number, weights)
        fakes = self.gan.draw(self.gan.plan.fakes, rng_for(self.gan.seed, "fakes", round_number))
        false = Examples(x=fakes.x, y=np.full(len(fakes), self.gan.classes, dtype=np.int64))
        return false if self.honest is None else Examples.concat([false, self.honest])

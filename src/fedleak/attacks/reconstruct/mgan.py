"""mGAN-AI (Song et al., 2020, Algorithm 1): a GAN whose discriminator tells categories, and the victim from others.

The loop is the same for every generator that is trained by it; `Drawn` is what it asks of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, TypeAlias

import numpy as np
from msgspec import Meta

from fedleak.attacks.reconstruct.discriminator import Discriminator
from fedleak.attacks.reconstruct.victim_context import Portraits, Scene, turns
from fedleak.core import FloatArray, IntArray
from fedleak.federation.engines.embedded import one_thread
from fedleak.lazy import functional as F
from fedleak.lazy import torch

__all__ = ["Loop", "Drawn", "reconstruct"]


class Drawn(Protocol):
    """A generator: images of categories, of the victim or of others."""

    def draw(self, category: torch.Tensor, rng: np.random.Generator, victim: bool = True) -> torch.Tensor:
        """(n,) to (n, channels, height, width) with values in [0, 1]."""
        ...

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """What is trained of it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Loop:
    """How discriminator and generator are trained against each other."""

    literal: ClassVar[bool] = False  # no smoothed targets, representatives of the round alone, categories at random

    steps: Annotated[int, Meta(ge=1, description="steps of the discriminator, and of the generator, in a round")] = 20
    growth: Annotated[
        float,
        Meta(
            ge=0, description="additional share of discriminator steps in the last round, growing from 0 in the first"
        ),
    ] = 1.0
    batch: Annotated[int, Meta(ge=2, description="images of each kind in a step")] = 32
    rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the generator")] = 2e-4
    critic_rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the discriminator")] = 2e-4
    momentum: Annotated[float, Meta(ge=0, lt=1, description="first moment of Adam (beta 1)")] = 0.5
    turns: Annotated[
        bool,
        Meta(description="alternate discriminator and generator steps; false: all steps of one, then of the other"),
    ] = False
    recall: Annotated[
        bool,
        Meta(description="keep training the discriminator on categories of the auxiliary set; eq. 5 has no such loss"),
    ] = False


def reconstruct(
    scene: Scene,
    victim: int,
    generator: Drawn,
    rounds: Sequence[int],
    portraits: Portraits | None,
    loop: Loop,
    rng: np.random.Generator,
) -> FloatArray:
    """Train a generator on the updates that a victim sent in these rounds; images of its classes.

    Without portraits there is no identity task, as in the active attack.
    """
    critic = Discriminator(scene.view, rng)
    of_critic = torch.optim.Adam(critic.weights.values(), loop.critic_rate, (loop.momentum, 0.999))
    of_generator = torch.optim.Adam(generator.parameters(), loop.rate, (loop.momentum, 0.999))
    auxiliary = scene.questions.auxiliary
    real = torch.from_numpy(auxiliary.x.astype(np.float32)), torch.from_numpy(np.asarray(auxiliary.y, dtype=np.int64))
    classes, mine = scene.questions.classes, scene.classes(victim)
    by_round = dict(
        zip(scene.view.updates.round[scene.rows(victim)].tolist(), scene.rows(victim).tolist(), strict=True)
    )
    with one_thread():
        for place, number in enumerate(rounds):
            critic.begin(scene.local(by_round[number]))
            # What the shared model has unlearnt of fakes grows with the rounds, and so does the time to learn it again.
            more = 1 + loop.growth * place / max(1, len(rounds) - 1)
            shown = None if portraits is None else _until(portraits, victim, number, alone=loop.literal)
            for times in _shares(round(loop.steps * more), loop.steps, in_turns=loop.turns):
                for _ in range(times):
                    wanted = _wanted(classes, mine, loop, rng)
                    _criticise(critic, of_critic, generator, real, shown, wanted, rng, loop)
                wanted = _wanted(classes, mine, loop, rng)
                _improve(critic, of_generator, generator, portraits is not None, wanted, rng)
        with torch.no_grad():
            images = generator.draw(torch.from_numpy(turns(mine, scene.questions.samples)), rng)
    clipped: FloatArray = np.clip(images.numpy(), 0, 1)
    return clipped


def _shares(steps: int, of_generator: int, *, in_turns: bool) -> list[int]:
    """How many steps of the discriminator come before each step of the generator.

    >>> _shares(5, 3, in_turns=True), _shares(5, 3, in_turns=False)
    ([1, 2, 2], [5, 0, 0])
    """
    if in_turns:
        shares: list[int] = np.diff(np.linspace(0, steps, of_generator + 1).astype(int)).tolist()
        return shares
    return [steps] + [0] * (of_generator - 1)


Shown: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"


def _until(portraits: Portraits, victim: int, number: int, *, alone: bool) -> Shown | None:
    """Representatives of the victim and of the others, of all rounds so far, or of this one `alone`.

    Those of early rounds are the clearest: the longer a model is trained, the less its updates say about images.
    """
    seen = (portraits.round == number) if alone else (portraits.round <= number)
    mine, others = seen & (portraits.who == victim), seen & (portraits.who != victim)
    if not (mine.any() and others.any()):  # an update of zeros has no representatives
        return None
    return torch.from_numpy(portraits.images[mine]), torch.from_numpy(portraits.images[others])


def _wanted(classes: int, mine: IntArray, loop: Loop, rng: np.random.Generator) -> torch.Tensor:
    """Categories to draw: half of them those of the victim, half of them any."""
    count = loop.batch
    any_of_them = rng.integers(classes, size=count)
    if loop.literal:
        return torch.from_numpy(any_of_them)
    return torch.from_numpy(np.where(rng.random(count) < 0.5, rng.choice(mine, count), any_of_them))


def _criticise(
    critic: Discriminator,
    adam: torch.optim.Optimizer,
    generator: Drawn,
    real: tuple[torch.Tensor, torch.Tensor],
    shown: Shown | None,
    wanted: torch.Tensor,
    rng: np.random.Generator,
    loop: Loop,
) -> None:
    """D minimises L_real + L_id, on as much of every kind: auxiliary and generated, the victim's and the others'."""
    with torch.no_grad():
        fake = generator.draw(wanted, rng)
    rows = torch.from_numpy(rng.integers(len(real[0]), size=len(wanted)))
    parts = [real[0][rows], fake]
    if shown is not None:
        parts += [images[torch.from_numpy(rng.integers(len(images), size=len(wanted)))] for images in shown]
    category, reality, identity = critic(torch.cat(parts))
    n = len(wanted)
    # One-sided smoothing (Salimans et al., 2016): a discriminator that is sure teaches nothing.
    sure, unsure = (1.0, 0.0) if loop.literal else (0.9, 0.1)
    loss = _should(reality[:n], sure) + _should(reality[n : 2 * n], 0.0)
    if shown is not None:
        loss = loss + _should(identity[2 * n : 3 * n], sure) + _should(identity[3 * n :], unsure)
    if loop.recall:
        loss = loss + F.cross_entropy(category[:n], real[1][rows])
    adam.zero_grad()
    torch.autograd.backward(loss)
    adam.step()


def _improve(
    critic: Discriminator,
    adam: torch.optim.Optimizer,
    generator: Drawn,
    identified: bool,
    wanted: torch.Tensor,
    rng: np.random.Generator,
) -> None:
    """G minimises L_cat - L_real + L_id, for the victim and for others."""
    category, reality, identity = critic(generator.draw(wanted, rng))
    loss = F.cross_entropy(category, wanted) + _should(reality, 1.0)
    if identified:
        others = critic(generator.draw(wanted, rng, victim=False))
        loss = loss + _should(identity, 1.0)
        loss = loss + F.cross_entropy(others[0], wanted) + _should(others[1], 1.0) + _should(others[2], 0.0)
    adam.zero_grad()
    torch.autograd.backward(loss)
    adam.step()


def _should(logits: torch.Tensor, target: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))

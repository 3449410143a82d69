"""A variant of mGAN-AI whose generator comes to draw the victim's property. It is not the paper's algorithm."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.discriminator import Discriminator
from fedleak.attacks.reconstruct.representatives import Inversion
from fedleak.attacks.reconstruct.victim_context import Portraits, Scene, turns
from fedleak.core import Capability, FloatArray, IntArray, Observation, Task
from fedleak.federation.engines.embedded import one_thread
from fedleak.games.game import Predictions, Questions
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["MganWeighted"]

_AT_ONCE = 500  # auxiliary images whose identity is judged together
_SURE = 4.0  # logit at which the identity head's certainty is cut off, so that no image has all the weight


@dataclass(frozen=True, kw_only=True)
class MganWeighted:
    """mGAN-AI with importance weights on the auxiliary set: a variant, not the algorithm of Song et al. (2020).

    Three departures. A conditional GAN is first trained on the auxiliary set with its labels, once for all victims. The
    discriminator then is not written over by the victim's model in every round: the victim reaches it only through the
    representatives of its updates, from which the identity head learns. And auxiliary images count as real in
    proportion to that head's odds of being the victim's (`weighted`), so reality and identity pull the same way; in
    eq. 4 the reality task pulls towards the whole auxiliary set. It can show no property that no auxiliary image has.
    """

    name: ClassVar[str] = "mgan-weighted"
    summary: ClassVar[str] = (
        "Trains a GAN on public images, weighted by how much they look like the client's representatives (a variant of "
        "mGAN-AI)."
    )
    game: ClassVar[str] = "reconstruct"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)

    weighted: Annotated[bool, Meta(description="auxiliary images weighted by the identity head; false: ablation")] = (
        True
    )
    identity: Annotated[bool, Meta(description="train with the identity task; false is the ablation")] = True
    overwrite: Annotated[
        bool, Meta(description="write the discriminator over by the victim's model in every round, as in Algorithm 1")
    ] = False
    pretraining: Annotated[int, Meta(ge=0, description="steps on the auxiliary set, before any victim")] = 1000
    rounds: Annotated[int, Meta(ge=1, description="first rounds whose representatives train the identity head")] = 8
    warmup: Annotated[int, Meta(ge=0, description="rounds before auxiliary images are weighted")] = 2
    per_class: Annotated[int, Meta(ge=1, description="representatives of each class, client and round")] = 4
    iterations: Annotated[int, Meta(ge=1, description="steps of the search for representatives")] = 12
    steps: Annotated[int, Meta(ge=1, description="steps of the discriminator, and of the generator, in a round")] = 60
    batch: Annotated[int, Meta(ge=4, description="images of each kind in a step")] = 24
    rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the generator")] = 5e-4
    critic_rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the discriminator")] = 1e-3
    momentum: Annotated[float, Meta(ge=0, lt=1, description="first moment of Adam (beta 1)")] = 0.5
    noise: Annotated[float, Meta(ge=0, description="standard deviation of noise on the discriminator's input")] = 0.3
    apart: Annotated[float, Meta(ge=0, description="weight of the mode-seeking term (Mao et al., 2019)")] = 0.2
    width: Annotated[
        float, Meta(gt=0, le=4, description="channels of the generator, as a multiple of Tables I and II")
    ] = 0.25

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """One GAN for all, then one for each victim that starts from it."""
        scene = Scene(view, questions)
        given = scene.questions
        auxiliary = _Auxiliary(given.auxiliary.x, np.asarray(given.auxiliary.y))
        common = _Gan(scene, self, context.rng)
        with one_thread():
            for _ in range(self.pretraining):
                common.step(auxiliary, None, context.rng)
        first = sorted({number for victim in scene.victims for number in scene.rounds(victim)[: self.rounds]})
        portraits = None
        if self.identity:
            search = Inversion(iterations=self.iterations, per_class=self.per_class)
            portraits = scene.portraits(search, first, context.rng)
        claims = np.empty((len(given), given.samples, *scene.shape), dtype=np.float32)
        for place, victim in enumerate(scene.victims):
            claims[place] = self._drawn(scene, victim, deepcopy(common), portraits, context.rng)
            context.progress((place + 1) / len(scene.victims))
        return claims

    def _drawn(
        self, scene: Scene, victim: int, gan: _Gan, portraits: Portraits | None, rng: np.random.Generator
    ) -> FloatArray:
        given, mine = scene.questions, scene.classes(victim)
        kept = np.isin(np.asarray(given.auxiliary.y), mine)
        auxiliary = _Auxiliary(given.auxiliary.x[kept], np.asarray(given.auxiliary.y)[kept])
        rows = scene.rows(victim)
        with one_thread():
            for place, number in enumerate(scene.rounds(victim)[: self.rounds]):
                if self.overwrite:
                    gan.critic.begin(scene.local(int(rows[scene.view.updates.round[rows] == number][-1])))
                shown = None if portraits is None else _until(portraits, victim, number)
                if self.weighted and shown is not None and place >= self.warmup:
                    auxiliary.weigh(gan.odds(auxiliary.x))
                for _ in range(self.steps):
                    gan.step(auxiliary, shown, rng)
            with torch.no_grad():
                images = gan.generator.draw(torch.from_numpy(turns(mine, given.samples)), rng)
        clipped: FloatArray = np.clip(images.numpy(), 0, 1)
        return clipped


class _Auxiliary:
    """Real images, which are drawn by their weights."""

    def __init__(self, x: FloatArray, y: IntArray) -> None:
        self.x, self.y = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64))
        self.share = np.full(len(x), 1 / len(x))

    def weigh(self, weights: FloatArray) -> None:
        """Weight images, with as much weight for every class as before."""
        labels = self.y.numpy()
        for label in np.unique(labels):
            rows = labels == label
            self.share[rows] = rows.mean() * weights[rows] / weights[rows].sum()

    def draw(self, count: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.from_numpy(rng.choice(len(self.x), count, p=self.share))
        return self.x[rows], self.y[rows]


class _Gan:
    """Generator and discriminator, which learns categories from the auxiliary set's labels."""

    def __init__(self, scene: Scene, settings: MganWeighted, rng: np.random.Generator) -> None:
        from fedleak.federation.generator import Generator

        self.settings = settings
        self.critic = Discriminator(scene.view, rng)
        self.generator = Generator(scene.shape, scene.questions.classes, settings.width, rng)
        self.of_critic = self._adam(self.critic.weights.values(), settings.critic_rate)
        self.of_generator = self._adam(self.generator.parameters(), settings.rate)

    def _adam(self, weights: Iterable[torch.Tensor], rate: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(weights, rate, (self.settings.momentum, 0.999))

    def odds(self, images: torch.Tensor) -> FloatArray:
        """The identity head's odds: how much denser the victim's images are here than the others' (density ratio)."""
        with torch.no_grad():
            logits = torch.cat([self.critic(part)[2] for part in torch.split(images, _AT_ONCE)])
        return np.asarray(logits.clamp(-_SURE, _SURE).exp().numpy(), dtype=np.float64)

    def step(
        self, auxiliary: _Auxiliary, shown: tuple[torch.Tensor, torch.Tensor] | None, rng: np.random.Generator
    ) -> None:
        """One step of the discriminator, one of the generator."""
        n = self.settings.batch
        real, labels = auxiliary.draw(n, rng)
        with torch.no_grad():
            fake = self.generator.draw(labels, rng)
        parts = [real, fake]
        if shown is not None:
            parts += [images[torch.from_numpy(rng.integers(len(images), size=n))] for images in shown]
        category, reality, identity = self.critic(self._noisy(torch.cat(parts), rng))
        # One-sided smoothing (Salimans et al., 2016): a discriminator that is sure teaches nothing.
        loss = _should(reality[:n], 0.9) + _should(reality[n : 2 * n], 0.0) + F.cross_entropy(category[:n], labels)
        if shown is not None:
            loss = loss + _should(identity[2 * n : 3 * n], 0.9) + _should(identity[3 * n :], 0.1)
        self.of_critic.zero_grad()
        torch.autograd.backward(loss)
        self.of_critic.step()
        self._improve(auxiliary.draw(n // 2, rng)[1].repeat(2), shown is not None, rng)

    def _improve(self, wanted: torch.Tensor, identified: bool, rng: np.random.Generator) -> None:
        images = self.generator.draw(wanted, rng)
        category, reality, identity = self.critic(self._noisy(images, rng))
        loss = F.cross_entropy(category, wanted) + _should(reality, 1.0)
        if identified:
            loss = loss + _should(identity, 1.0)
        # Two images of one category should differ as their noise does, which is about as far apart for every pair.
        one, other = images.chunk(2)
        loss = loss + self.settings.apart / ((one - other).abs().mean() * 10 + 1e-2)
        self.of_generator.zero_grad()
        torch.autograd.backward(loss)
        self.of_generator.step()

    def _noisy(self, images: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """Noise keeps the discriminator from telling images apart by single pixels (Arjovsky and Bottou, 2017)."""
        noise = rng.standard_normal(tuple(images.shape), dtype=np.float32)
        return images + self.settings.noise * torch.from_numpy(noise)


def _until(portraits: Portraits, victim: int, number: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Representatives of the victim and of the others, of all rounds so far."""
    seen = portraits.round <= number
    mine, others = seen & (portraits.who == victim), seen & (portraits.who != victim)
    if not (mine.any() and others.any()):
        return None
    return torch.from_numpy(portraits.images[mine]), torch.from_numpy(portraits.images[others])


def _should(logits: torch.Tensor, target: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))

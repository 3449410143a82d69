"""The affiliated server of the active mGAN-AI (Song et al., 2020, section V-D): what it sends a victim is D itself.

"M_0^iso = M_0 = D, where M^iso and D share the weights": the victim is sent the discriminator, without the head that
tells real from generated images, which is the server's alone. Its update is "aggregated to the discriminator directly"
(section V-A): that is how D learns categories, from the victim's data and nobody else's. Then the server trains D to
tell the auxiliary set from what G draws, and G to draw what D takes for real and for the wanted category (eq. 5 without
L_id: "the identification task, as well as the calculation of representatives, will be removed"). The next round sends
the result.
"""

from __future__ import annotations

import numpy as np

from fedleak.core import FloatArray, IntArray, Params, rng_for
from fedleak.errors import PlanError
from fedleak.federation.discriminator import HeadedModel
from fedleak.federation.engines.embedded import one_thread
from fedleak.federation.model import Architecture, Signature
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.plan.plan import IsolatePlan
from fedleak.population.population import Examples

__all__ = ["AffiliatedServer"]

_RATE, _MOMENTUM = 2e-4, 0.5  # section VII-A
_REALITY = 1  # heads beside the categories


class AffiliatedServer:
    """A discriminator and a generator for each victim.

    Everything random follows from the seed, so whoever has the victim's updates and the auxiliary set can repeat it, on
    the same kind of machine to the bit: nothing of it needs recording.
    """

    def __init__(
        self,
        architecture: Architecture,
        signature: Signature,
        plan: IsolatePlan,
        auxiliary: Examples | None,
        rounds: int,
        seed: int,
    ) -> None:
        if len(signature.input_shape) != 3:
            raise PlanError(
                f"[isolate] sent = 'discriminator': the examples have shape {signature.input_shape}; its generator "
                "draws images (channel, height, width), so this needs a data set of images"
            )
        if auxiliary is None:
            raise PlanError(
                "[isolate] sent = 'discriminator': the server needs auxiliary images for what is real; use a data set "
                "that has some (mnist-clients, faces), or reserve users with background_users = N in [population]"
            )
        self.architecture, self.signature, self.plan = architecture, signature, plan
        self.real = torch.from_numpy(auxiliary.x.astype(np.float32))
        self.rounds, self.seed = rounds, seed
        self.gans: dict[int, _Gan] = {}

    def improve(self, client: int, weights: Params) -> Params:
        """Train a victim's D, to which its update has been added, and G; what the victim is sent next."""
        if client not in self.gans:
            self.gans[client] = _Gan(self, client)
        return self.gans[client].learn(weights)

    def draw(self, client: int, categories: IntArray, rng: np.random.Generator) -> FloatArray:
        """Images of these categories, as G draws them after the last round."""
        with one_thread(), torch.no_grad():
            images = self.gans[client].generator.draw(torch.from_numpy(categories), rng)
        drawn: FloatArray = np.clip(images.numpy(), 0, 1)
        return drawn


class _Gan:
    def __init__(self, server: AffiliatedServer, client: int) -> None:
        from fedleak.federation.generator import Generator

        self.server, self.client, self.round = server, client, 0
        shape, rng = server.signature.input_shape, rng_for(server.seed, "gan", client)
        self.critic = HeadedModel(server.architecture, server.signature, _REALITY, rng)
        self.generator = Generator(shape, server.signature.outputs, server.plan.width, rng)
        self.of_critic = torch.optim.Adam(self.critic.weights.values(), _RATE, (_MOMENTUM, 0.999))
        self.of_generator = torch.optim.Adam(self.generator.parameters(), _RATE, (_MOMENTUM, 0.999))

    def learn(self, weights: Params) -> Params:
        self.round += 1
        plan, rng = self.server.plan, rng_for(self.server.seed, "gan", self.client, self.round)
        # The victim shows D more and more real images, and no fakes: "increase the training epoch of D as t increases".
        more = plan.growth * (self.round - 1) / max(1, self.server.rounds - 1)
        ends = np.linspace(0, round(plan.steps * (1 + more)), plan.steps + 1).astype(int)
        with one_thread():
            self.critic.begin(weights)
            for times in np.diff(ends).tolist():
                for _ in range(times):
                    self._criticise(rng)
                self._improve(rng)
        return self.critic.classifier()

    def _wanted(self, rng: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(rng.integers(self.server.signature.outputs, size=self.server.plan.batch))

    def _criticise(self, rng: np.random.Generator) -> None:
        """D minimises L_real."""
        with torch.no_grad():
            fake = self.generator.draw(self._wanted(rng), rng)
        rows = torch.from_numpy(rng.integers(len(self.server.real), size=len(fake)))
        reality = self.critic.forward(torch.cat([self.server.real[rows], fake]))[:, -1]
        is_real = (torch.arange(2 * len(fake)) < len(fake)).float()
        self.of_critic.zero_grad()
        torch.autograd.backward(2 * F.binary_cross_entropy_with_logits(reality, is_real))
        self.of_critic.step()

    def _improve(self, rng: np.random.Generator) -> None:
        """G minimises L_cat - L_real; the second as usual, by what D takes for real (Goodfellow et al., 2014)."""
        wanted = self._wanted(rng)
        answers = self.critic.forward(self.generator.draw(wanted, rng))
        loss = F.cross_entropy(answers[:, : self.critic.outputs], wanted) + F.softplus(-answers[:, -1]).mean()
        self.of_generator.zero_grad()
        torch.autograd.backward(loss)
        self.of_generator.step()

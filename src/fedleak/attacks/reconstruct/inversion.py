"""Model inversion (Fredrikson, Jha and Ristenpart, CCS 2015): what is the model most confident of?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.victim_context import Scene, turns
from fedleak.core import Capability, Observation, Task
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.games.game import Predictions, Questions
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ModelInversion"]


@dataclass(frozen=True, kw_only=True)
class ModelInversion:
    """Gradient ascent to images that the victim's own model assigns to one of its classes, from the auxiliary mean.

    The attack was designed for a given model; in a federation its strongest form uses the victim's model after its last
    update, the classes that its updates increase, and the same auxiliary set as other attacks (Song et al., 2020,
    section VII-D, start from noise and use the shared model).
    """

    name: ClassVar[str] = "model-inversion"
    summary: ClassVar[str] = (
        "Optimises the mean image of a class until the client's model is most confident of that class (model "
        "inversion)."
    )
    game: ClassVar[str] = "reconstruct"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)

    steps: Annotated[int, Meta(ge=1, description="steps of the ascent")] = 40
    rate: Annotated[float, Meta(gt=0, description="step of Adam, in pixel values")] = 0.01
    noise: Annotated[float, Meta(ge=0, description="on the image that the ascent starts from")] = 0.1
    smooth: Annotated[float, Meta(ge=0, description="weight of the total variation, in place of a denoiser")] = 1e-3

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """All images of a victim at once."""
        scene = Scene(view, questions)
        auxiliary = scene.questions.auxiliary
        means = np.stack([auxiliary.x[auxiliary.y == c].mean(axis=0) for c in range(scene.questions.classes)])
        claims = np.empty((len(questions), scene.questions.samples, *scene.shape), dtype=np.float32)
        for place, victim in enumerate(scene.victims):
            own = tensors(scene.model, scene.local(int(scene.rows(victim)[-1])))
            wanted = torch.from_numpy(turns(scene.classes(victim), len(claims[place])))
            noise = context.rng.normal(0.0, self.noise, claims[place].shape).astype(np.float32)
            x = torch.from_numpy(np.clip(means[wanted.numpy()] + noise, 0, 1)).requires_grad_()
            adam = torch.optim.Adam([x], self.rate)
            with one_thread():
                for _ in range(self.steps):
                    answers = scene.model.forward(own, x[None])[0]
                    rough = (x[..., 1:] - x[..., :-1]).square().sum() + (x[..., 1:, :] - x[..., :-1, :]).square().sum()
                    adam.zero_grad()
                    torch.autograd.backward(F.cross_entropy(answers, wanted) + self.smooth * rough / len(x))
                    adam.step()
                    with torch.no_grad():
                        x.clamp_(0, 1)
            claims[place] = x.detach().numpy()
        return claims

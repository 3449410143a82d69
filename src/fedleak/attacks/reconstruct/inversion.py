"""Model inversion (Fredrikson, Jha and Ristenpart, CCS 2015): what is the model most confident of?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.victim_context import Scene, turns
from fedleak.attacks.shadow import model_of
from fedleak.attacks.work import fixed
from fedleak.core import Capability, Observation, Task
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.games.game import Predictions, Questions
from fedleak.games.reconstruct import ImageQuestions
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ModelInversion", "ModelInversionPaper"]


@dataclass(frozen=True, kw_only=True)
class ModelInversion:
    """Gradient ascent to images that the victim's own model assigns to one of its classes, from the auxiliary mean.

    The attack was designed for a given model; in a federation its strongest form uses the victim's model after its last
    update, the classes that its updates increase, and the same auxiliary set as other attacks. **Not the paper's
    setting**: there it starts from noise and has the shared model (`ModelInversionPaper`).
    """

    name: ClassVar[str] = "model-inversion"
    summary: ClassVar[str] = (
        "Optimises the mean image of a class until the client's model is most confident of that class (model "
        "inversion)."
    )
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "any"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = fixed

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


@dataclass(frozen=True, kw_only=True)
class ModelInversionPaper:
    """Descent from white noise to images that the last shared model assigns to each class (MI-Face).

    As in Song et al. (2020, section VII-D): the adversary has the shared model and nothing else, so it knows neither a
    victim's classes nor its updates, and predicts the same for every victim. The settings are those of Fredrikson et
    al. (2015, section 5.1); their denoiser is for faces, and is left out.
    """

    name: ClassVar[str] = "model-inversion-paper"
    summary: ClassVar[str] = (
        "Optimises noise until the shared model is most confident of a class (model inversion as in the paper)."
    )
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "any"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = fixed

    steps: Annotated[int, Meta(ge=1, description="steps of the descent, at most (alpha)")] = 5000
    rate: Annotated[float, Meta(gt=0, description="learning rate of the descent (lambda)")] = 0.1
    patience: Annotated[int, Meta(ge=1, description="stop an image that did not improve in so many steps (beta)")] = 100
    confidence: Annotated[float, Meta(gt=0, le=1, description="stop an image at this confidence (gamma)")] = 0.99

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Images of all classes in turn."""
        assert isinstance(questions, ImageQuestions)
        model, shared = model_of(view), tensors(model_of(view), view.snapshot(view.rounds))
        wanted = torch.arange(questions.samples) % questions.classes
        noise = context.rng.random((questions.samples, *questions.shape), dtype=np.float32)
        x = torch.from_numpy(noise)
        best, found, since = x.clone(), torch.full((len(x),), torch.inf), torch.zeros(len(x), dtype=torch.int64)
        with one_thread():
            for _ in range(self.steps):
                x = x.detach().requires_grad_()
                cost = 1 - model.forward(shared, x[None])[0].softmax(dim=1)[torch.arange(len(x)), wanted]
                better = cost.detach() < found
                best = torch.where(better[:, None, None, None], x.detach(), best)
                found, since = torch.where(better, cost.detach(), found), torch.where(better, 0, since + 1)
                going = (found > 1 - self.confidence) & (since < self.patience)
                if not bool(going.any()):
                    break
                (slope,) = torch.autograd.grad(cost.sum(), x)
                x = (x - self.rate * slope * going[:, None, None, None]).clamp(0, 1)
        images = best.numpy()
        return np.broadcast_to(images, (len(questions), *images.shape)).copy()

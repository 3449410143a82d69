"""NVFlare's filter after the sparse vector technique."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import FloatArray, Params
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Statement, Training

__all__ = ["NvflareSvtPrivacy"]


@dataclass(frozen=True, kw_only=True)
class NvflareSvtPrivacy(Defence):
    """NVFlare's SVTPrivacy: a noisy threshold chooses values, which are bounded, noised and sent (Li et al., 2019).

    Values are compared with the threshold in passes over the whole update, each with fresh noise, until enough lie
    above it; of these the share that is sent is drawn at random.
    """

    name: ClassVar[str] = "nvflare-svt-privacy"
    summary: ClassVar[str] = (
        "Sends a share of each client's update, chosen by a noisy threshold, bounded and with Laplace noise, as "
        "NVFlare's SVTPrivacy does."
    )

    fraction: Annotated[float, Meta(gt=0, le=1, description="share of an update's values that is sent")] = 0.1
    epsilon: Annotated[
        float, Meta(gt=0, description="for choosing values only; sending them is counted apart, by noise_var")
    ] = 0.1
    noise_var: Annotated[float, Meta(gt=0, description="epsilon of each value that is sent")] = 0.1
    gamma: Annotated[float, Meta(gt=0, description="largest absolute value, for each local step")] = 1e-5
    tau: Annotated[float, Meta(description="the threshold before noise")] = 1e-6
    replace: Annotated[bool, Meta(description="draw the values that are sent with replacement")] = True
    steps: Annotated[
        int, Meta(ge=1, description="local steps that the client reports; 1 in NVFlare if it reports none")
    ] = 1

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Layers in the order of their names, as there."""
        names = sorted(update)
        scaled = [update[name].astype(np.float64) / self.steps for name in names]
        bounded = [np.clip(values, -self.gamma, self.gamma) for values in scaled]
        count = math.ceil(sum(len(values) for values in scaled) * self.fraction)
        # The split of epsilon between threshold and answers that suits queries of any direction (Lyu et al., 2017).
        first = self.epsilon / (1 + (2 * count) ** (2 / 3))
        threshold = self.tau + rng.laplace(scale=self.gamma / first)
        above = [np.zeros(len(values), dtype=np.bool_) for values in scaled]
        while sum(int(mask.sum()) for mask in above) < count:
            for values, mask in zip(bounded, above, strict=True):
                left = np.flatnonzero(~mask)
                if not len(left):
                    continue
                noise = rng.laplace(scale=2 * self.gamma * count / (self.epsilon - first), size=len(left))
                mask[left[np.abs(values[left]) + noise >= threshold]] = True
        sent: dict[str, FloatArray] = {}
        scale = 2 * self.gamma * count / (count * self.noise_var)
        for name, values, mask, drawn in zip(names, bounded, above, self._shared_out(count, above, rng), strict=True):
            out = np.zeros(len(values), dtype=np.float32)
            if drawn:
                chosen = rng.choice(np.flatnonzero(mask), size=drawn, replace=self.replace)
                out[chosen] = (values[chosen] + rng.laplace(scale=scale, size=drawn)) * self.steps
            sent[name] = out
        return {name: sent[name] for name in update}

    def _shared_out(self, count: int, above: list[npt.NDArray[Any]], rng: np.random.Generator) -> list[int]:
        """How many values each layer sends, as if they were drawn from all layers at once."""
        drawn, left = [], count
        rest = [int(mask.sum()) for mask in above]
        for place, mine in enumerate(rest):
            others = sum(rest[place + 1 :])
            if place == len(rest) - 1:
                drawn.append(left)
            elif not left or not mine:
                drawn.append(0)
            elif self.replace:
                drawn.append(int(rng.binomial(left, mine / (mine + others))))
            else:
                drawn.append(int(rng.hypergeometric(mine, others, left)))
            left -= drawn[-1]
        return drawn

    def privacy(self, training: Training) -> Statement:
        """None: what it counts is not what it does."""
        return Statement.none(
            self.name,
            "it charges epsilon for as many answers of the threshold as values are sent, but goes on to the end of a "
            "pass and through further passes, which answers for more; and each value sent costs another "
            f"{self.noise_var:g} by its own count, so epsilon = {self.epsilon:g} would cover only their choice",
        )

"""Read single examples out of the sum of a round's updates, where the server put an imprint block into the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.federation.models.imprint import BINS, measured, signs, thresholds
from fedleak.games.game import Predictions, Questions
from fedleak.games.recover import ExampleQuestions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ImprintReadOut", "read_out"]

_EMPTY = 1e-7  # of the largest gradient: less is rounding


@dataclass(frozen=True, kw_only=True)
class ImprintReadOut:
    """Subtract the gradients of neighbouring bins and divide the weights' part by the bias's (Fowl et al., 2022).

    Nothing is optimised, and no update of a single client is needed: the sum of a round is enough. Bins in which two
    examples met give a mixture of both. Where noise fills empty bins, those are preferred whose image is as bright as
    their thresholds say.
    """

    name: ClassVar[str] = "imprint"
    summary: ClassVar[str] = (
        "Inserts an imprint block into the model and reads single training examples out of the sum of a round's "
        "updates (Robbing the Fed)."
    )
    game: ClassVar[str] = "recover"
    needs: ClassVar[Observation] = Observation.AGGREGATE
    capabilities: ClassVar[Capability] = Capability.CHOOSE_MODEL
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY, Task.MULTI_LABEL, Task.REGRESS)

    tolerance: Annotated[
        float, Meta(gt=0, description="how far pixels may lie outside their range before a bin counts as a mixture")
    ] = 0.05

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """The most plausible images, as many as were asked for; the mean public image where bins do not suffice."""
        assert isinstance(questions, ExampleQuestions)
        told = view.imprint
        layer = next((layer for layer in view.layout if layer.name == BINS), None)
        if layer is None:
            raise AttackError(f"attack 'imprint': the model has no layer '{BINS}', though the run says that it has")
        moved = np.asarray(view.aggregate(questions.round)[BINS], dtype=np.float64)
        size, bins = int(np.prod(questions.shape)), int(told["bins"])
        rows = moved[layer.span("weight")].reshape(bins, -1)[:, :size]
        bias = moved[layer.span("bias")]
        if told["kind"] == "scaled":
            rows, bias = rows * signs(bins)[:, None], bias * signs(bins)
        images, doubt = read_out(rows, bias, thresholds(questions.public.x, bins), self.tolerance)
        claims = np.empty((questions.samples, *questions.shape), dtype=np.float32)
        claims[:] = questions.public.x.mean(axis=0)
        chosen = np.argsort(doubt, kind="stable")[: questions.samples]
        chosen = chosen[np.isfinite(doubt[chosen])]
        claims[: len(chosen)] = images[chosen].reshape(-1, *questions.shape)
        return claims


def read_out(
    rows: npt.NDArray[np.float64], bias: npt.NDArray[np.float64], cuts: npt.NDArray[np.float64], tolerance: float
) -> tuple[FloatArray, npt.NDArray[np.float64]]:
    """The image in each bin, and how doubtful it is: infinitely where the bin is empty.

    >>> image, doubt = read_out(np.array([[0.2, 0.6], [0.0, 0.0]]), np.array([2.0, 0.0]), np.array([0.0, 0.9]), 0.05)
    >>> [round(float(pixel), 3) for pixel in image[0]], doubt.tolist()
    ([0.1, 0.3], [0.0, inf])
    """
    weights, factor = (np.append(part[:-1] - part[1:], part[-1:], axis=0) for part in (rows, bias))
    largest = np.abs(weights).max(axis=1)
    present = (largest > _EMPTY * max(float(np.abs(rows).max()), 1e-300)) & (np.abs(factor) > 0)
    found = np.zeros_like(weights)
    found[present] = weights[present] / factor[present, None]
    outside = np.maximum(-found, found - 1).max(axis=1)
    # A mixture whose factors have both signs is neither within the range of pixels nor as bright as its bin.
    bright = measured(found)
    widths = np.append(np.diff(cuts), cuts[-1] - cuts[-2])
    misses = np.maximum(np.maximum(cuts - bright, bright - np.append(cuts[1:], np.inf)), 0)
    doubt = np.where(present, np.maximum(outside - tolerance, 0) + misses / (widths + tolerance), np.inf)
    return np.clip(found, 0, 1).astype(np.float32), doubt

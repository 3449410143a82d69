"""An imprint block: layers that a server puts in front of a model so that gradients hold single examples.

Fowl et al. (2022, "Robbing the Fed"): a row of neurons that all measure the same thing, here a weighted brightness h of
an example, and differ in their thresholds t_1 < t_2 < ...: z_i = max(0, h - t_i). An example sends the same gradient to
every neuron whose threshold is below its brightness, so what neighbouring neurons differ by is the gradient of the
examples between their thresholds. Its weights hold the example times a factor, and its bias the factor.

The block adds one number to all inputs of the model behind it, which is trained as before. There are two kinds:

- `linear`: the neurons read the inputs directly, as in the paper. One local step moves them by more than their
  thresholds lie apart, so later steps mix the examples.
- `scaled`: the neurons read a measured brightness and a constant; their weights on the inputs and their biases are zero
  and collect the gradients. The signs of their outputs alternate, so that the block adds next to nothing, and a
  constant factor keeps local steps from moving it. LOKI (Zhao et al., 2024) solves the same problem with scaled
  convolutions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, Layer, Layout, Params, rng_for
from fedleak.federation.model import Model, Stochastic, Tensors
from fedleak.federation.models.parts import linear, linear_layer, together
from fedleak.lazy import torch
from fedleak.plan.plan import ImprintPlan

__all__ = ["BINS", "OUT", "MEASURE", "Imprinted", "design", "fits_imprint", "measured", "signs", "thresholds"]

MEASURE, BINS, OUT = "imprint-measure", "imprint-bins", "imprint-out"

_GAIN = {"linear": 1e-3, "scaled": 10.0}
_OUTPUT = 10.0  # what a linear block adds is about this times the mean distance of thresholds below the brightness
_TAIL = 0.0005  # below the first and above the last threshold
_SMOOTH, _REACH = 64, 2.5  # points of the kernel that smooths the distribution, and its standard deviations


def fits_imprint(model: Model) -> str:
    """Why an imprint block cannot be put in front of a model; empty if it can."""
    return "it is trained otherwise than it is used (dropout)" if isinstance(model, Stochastic) else ""


def measured(examples: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The weighted brightness of each example.

    The weights are drawn once and for all. With equal ones, images of few grey levels would share few values: 8x8
    digits of 16 levels have about 150 different means.
    """
    flat = examples.reshape(len(examples), -1)
    return np.asarray(flat.astype(np.float64) @ _weights(flat.shape[1]))


def _weights(size: int) -> npt.NDArray[np.float64]:
    return rng_for(0, "imprint", "weights").uniform(0, 2, size) / size


def thresholds(public: npt.NDArray[np.floating], bins: int) -> npt.NDArray[np.float64]:
    """Quantiles of the brightness of public examples, smoothed: the examples to come lie between those that are known.

    Without a kernel (Gaussian, half of Silverman's width) few public examples leave many bins where nobody is.
    """
    bright = measured(public)
    width = 0.9 * max(float(bright.std()), 1e-9) * len(bright) ** -0.2
    offsets = np.linspace(-_REACH, _REACH, _SMOOTH)
    values = (bright[:, None] + width * offsets).ravel()
    weights = np.tile(np.exp(-(offsets**2) / 2), len(bright))
    order = np.argsort(values)
    shares = np.cumsum(weights[order])
    cuts: npt.NDArray[np.float64] = np.interp(np.linspace(_TAIL, 1 - _TAIL, bins), shares / shares[-1], values[order])
    return cuts


def design(plan: ImprintPlan, public: npt.NDArray[np.floating]) -> Params:
    """The weights of the block, layer by layer, with thresholds from public examples."""
    size, bins = int(np.prod(public.shape[1:])), plan.bins
    cuts, gain = thresholds(public, bins), plan.gain or _GAIN[plan.kind]
    if plan.kind == "linear":
        rows = np.tile(gain * _weights(size), (bins, 1))
        found = {
            BINS: np.concatenate([rows.ravel(), -gain * cuts]),
            OUT: np.full(bins, _OUTPUT / (gain * bins)),
        }
    else:
        measure = np.stack([gain * _weights(size), np.zeros(size)])
        rows = np.concatenate([np.zeros((bins, size)), np.ones((bins, 1)), -cuts[:, None]], axis=1)
        found = {
            MEASURE: np.concatenate([measure.ravel(), [0.0, gain]]),
            BINS: np.concatenate([rows.ravel(), np.zeros(bins)]),
            OUT: signs(bins).astype(np.float64),
        }
    return {name: values.astype(np.float32) for name, values in found.items()}


def signs(bins: int) -> FloatArray:
    """The alternating signs of a scaled block's outputs."""
    return np.where(np.arange(bins) % 2 == 0, 1, -1).astype(np.float32)


class Imprinted:
    """A model with an imprint block in front; `block` is None where only its shapes matter."""

    def __init__(self, base: Model, shape: tuple[int, ...], plan: ImprintPlan, block: Params | None = None) -> None:
        size = int(np.prod(shape))
        scaled = plan.kind == "scaled"
        self.base, self.block, self.plan = base, block, replace(plan, gain=None)
        self.scale = plan.scale if scaled else 1.0
        self.measured = scaled
        measure = (linear_layer(MEASURE, size, 2),) if scaled else ()
        bins = linear_layer(BINS, size + 2 * scaled, plan.bins)
        self.layout: Layout = (*measure, bins, Layer(OUT, (("weight", (1, plan.bins)),)), *base.layout)
        self.group = min(base.group, together(self.layout, 400_000))
        self.alone = getattr(base, "alone", False)

    def init(self, rng: np.random.Generator) -> Params:
        """The block as it was designed, and the model's own initial weights: the same as without the block."""
        assert self.block is not None, "a block without thresholds cannot be trained"
        return {**self.block, **self.base.init(rng)}

    def restore(self, weights: Params) -> Params:
        """The same weights with the block as it was designed."""
        assert self.block is not None
        return {**weights, **self.block}

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        """Add the block's output to all inputs of the model behind it."""
        flat = x.flatten(2)
        if self.measured:
            flat = torch.cat([flat, linear(weights, MEASURE, flat)], dim=2)
        active = torch.relu(linear(weights, BINS, flat))
        added = self.scale * torch.bmm(active, weights[f"{OUT}.weight"].transpose(1, 2))
        return self.base.forward(weights, x + added.view(*x.shape[:2], *[1] * (x.dim() - 2)))

"""A judge of images: which class they show, whether they show anything at all, and which property.

It learns from other users and from the test set, so nothing that it knows comes from a victim. It has an extra
class for unreadable images (`fedleak.metrics.unreadable_images`): without it, a classifier is confident even on images
that people cannot read, such as those of model inversion.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import ByteCache, FloatArray, IntArray, rng_for
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread
from fedleak.lazy import functional as F
from fedleak.lazy import ndimage, nn, torch
from fedleak.metrics.unreadable_images import garbage
from fedleak.trace.evidence import Evidence

__all__ = ["Judge", "judge"]

_STEPS, _BATCH, _RATE, _AT_ONCE = 900, 64, 3e-3, 512
_SPOILT, _BANK = 0.25, 2000  # garbage: its share of a batch, and how much of it is made


@dataclass(frozen=True, slots=True)
class Judge:
    """Two small networks, and the meaning of their outputs."""

    classes: int
    values: tuple[str, ...]  # of the property; () where there is none to judge
    _category: nn.Module
    _property: nn.Module | None

    def categories(self, images: FloatArray) -> npt.NDArray[np.float64]:
        """(images, classes + 1): how probable each class is; the last one stands for no image."""
        return _answers(self._category, images)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        networks = [self._category] if self._property is None else [self._category, self._property]
        return sum(values.nbytes for network in networks for values in network.parameters())

    def properties(self, images: FloatArray) -> npt.NDArray[np.float64]:
        """(images, values): how probable each value of the property is."""
        assert self._property is not None, "this judge knows no property"
        return _answers(self._property, images)


# Cached: every metric of every attack on a run needs the same judge, and training it takes seconds.
_JUDGES: ByteCache[Judge] = ByteCache(50 * 2**20, lambda judge: judge.nbytes)


def judge(evidence: Evidence, attribute: str | None) -> Judge:
    """Train the judge of a run; the same data always gives the same one, and it is trained once."""
    total = hashlib.blake2b(repr(attribute).encode())
    test = evidence.bystanders.background
    parts = [*evidence.bystanders.examples, *([test.examples] if test is not None else [])]
    for part in parts:
        total.update(np.ascontiguousarray(part.x).tobytes() + np.ascontiguousarray(part.y).tobytes())
    return _JUDGES.get(total.digest(), lambda: _trained(evidence, attribute))


def _trained(evidence: Evidence, attribute: str | None) -> Judge:
    others, test = evidence.bystanders, evidence.bystanders.background
    labelled = [(e.x, e.y) for e in (*others.examples, *([test.examples] if test is not None else []))]
    if not labelled:
        raise AttackError("there is no test set and no other user, so images cannot be judged")
    x = np.concatenate([part for part, _ in labelled]).astype(np.float32)
    y: IntArray = np.concatenate([np.asarray(part) for _, part in labelled]).astype(np.int64)
    category = _fit(x, y, others.outputs, spoilt=True, rng=rng_for(0, "judge", "category"))
    values: tuple[str, ...] = ()
    learnt = None
    if attribute is not None:
        told = [about.get(attribute) for about in others.attributes]
        values = tuple(sorted({value for value in told if value is not None}))
        if len(values) < 2:
            raise AttackError(
                f"[[game]] reconstruct: attribute = '{attribute}' is judged by images of other users, "
                f"but {len(others.candidates)} of them show {len(values)} value(s) of it. Give the data set more "
                "clients than [population] users takes, or leave the attribute out"
            )
        shown = [(e.x, value) for e, value in zip(others.examples, told, strict=True) if value is not None]
        seen = np.concatenate([part for part, _ in shown]).astype(np.float32)
        which = np.concatenate([np.full(len(part), values.index(value)) for part, value in shown])
        learnt = _fit(seen, which, len(values), spoilt=False, rng=rng_for(0, "judge", "property"))
    return Judge(others.outputs, values, category, learnt)


def _fit(x: FloatArray, y: IntArray, outputs: int, *, spoilt: bool, rng: np.random.Generator) -> nn.Module:
    network = _network(x.shape[1:], outputs + spoilt, rng)
    # Balance the classes, so that the judge does not predict the most common one.
    counts = np.bincount(y, minlength=outputs)
    weight = (1.0 / np.maximum(counts, 1))[y]
    drawn = rng.choice(len(x), size=(_STEPS, _BATCH), p=weight / weight.sum())
    bank = garbage(x, _BANK if spoilt else 0, rng)
    adam = torch.optim.Adam(network.parameters(), _RATE)
    with one_thread():
        for step, rows in enumerate(drawn):
            images, answers = _noisy(x[rows], rng), y[rows].copy()
            if spoilt:
                bad = rng.random(_BATCH) < _SPOILT
                images[bad], answers[bad] = bank[rng.integers(_BANK, size=int(bad.sum()))], outputs
            for group in adam.param_groups:
                group["lr"] = _RATE * (1 - step / _STEPS)
            adam.zero_grad()
            loss = F.cross_entropy(network(torch.from_numpy(images)), torch.from_numpy(answers))
            torch.autograd.backward(loss)
            adam.step()
    return network.eval()


def _noisy(images: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Slightly blurred, dimmed or grainy images are still images: a reconstruction is seldom sharper."""
    made, blurred = images.copy(), len(images) // 2
    blur = rng.uniform(0.2, 0.8)
    made[:blurred] = ndimage.gaussian_filter(made[:blurred], (0, 0, blur, blur))
    made *= rng.uniform(0.7, 1.0, (len(made), 1, 1, 1))
    made[::2] += rng.normal(0, 0.05, made[::2].shape)
    clipped: FloatArray = np.clip(made, 0, 1).astype(np.float32)
    return clipped


def _network(shape: tuple[int, ...], outputs: int, rng: np.random.Generator) -> nn.Module:
    """Two convolutions, and their means and maxima over the image for large ones; weights drawn from `rng`."""
    channels, height, width = shape
    pool = max(1, min(height, width) // 14)  # 64 pixels are first reduced to 16
    flat = 32 * (height // pool // 4) * (width // pool // 4)
    network = nn.Sequential(
        nn.AvgPool2d(pool),
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(flat, 64),
        nn.ReLU(),
        nn.Linear(64, outputs),
    )
    with torch.no_grad():
        for values in network.parameters():
            if values.dim() > 1:
                scale = np.sqrt(2 / values[0].numel())
                values.copy_(torch.from_numpy(rng.normal(0, scale, values.shape)))
            else:
                values.zero_()
    return network


def _answers(network: nn.Module, images: FloatArray) -> npt.NDArray[np.float64]:
    with one_thread(), torch.inference_mode():
        parts = torch.split(torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32)), _AT_ONCE)
        return torch.cat([network(part).softmax(1) for part in parts]).numpy().astype(np.float64)

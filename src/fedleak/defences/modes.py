"""The kinds of examples there are in a background: clusters of what they look like, or of what they speak of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from fedleak.core import FloatArray, IntArray
from fedleak.errors import PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread, tensors
from fedleak.federation.hooks import PublicData
from fedleak.federation.loss import inputs, task_of
from fedleak.federation.model import Model
from fedleak.lazy import scipy, torch
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["modes_of", "tf_idf", "penultimate"]

_AT_ONCE = 256
_LEARN = 2000  # examples of the background on which the model learns what to look at
_PASSES = 5
_SPECIAL = 2  # tokens 0 (padding) and 1 (unknown) say nothing about a text


def modes_of(public: PublicData, count: int, features: Literal["raw", "model", "tf-idf"] | None) -> IntArray:
    """Which kind each example is of, by k-means (Sculley, 2010: in small batches, for large backgrounds)."""
    background, rng = public.examples, public.rng
    words = np.issubdtype(background.x.dtype, np.integer)
    fitting: Literal["raw", "tf-idf"] = "tf-idf" if words else "raw"
    features = features or fitting
    if features not in (fitting, "model"):
        raise PlanError(
            f"defence 'mm-aug': features = '{features}' does not fit data of {'words' if words else 'numbers'}; "
            f"choose '{fitting}' or 'model'"
        )
    points: Any
    if features == "tf-idf":
        points, distinct = tf_idf(background.x), len(np.unique(background.x, axis=0))
    else:
        points = background.x.reshape(len(background), -1)
        if features == "model":
            points = penultimate(public.model, background, public.settings, rng)
        points = points.astype(np.float32)
        distinct = len(np.unique(points, axis=0))
    from sklearn.cluster import MiniBatchKMeans

    kmeans = MiniBatchKMeans(
        n_clusters=min(count, distinct), n_init=1, batch_size=1024, random_state=int(rng.integers(2**31))
    )
    # One thread: several add up in another order, and the clusters would depend on the machine's load.
    with threadpool_limits(1):
        return np.asarray(kmeans.fit_predict(points), dtype=np.int64)


def tf_idf(tokens: npt.NDArray[Any]) -> Any:
    """Each text as how often it uses each word, weighted by how few texts do (Spaerck Jones, 1972); of length one."""
    rows, columns = np.nonzero(tokens >= _SPECIAL)
    words = tokens[rows, columns]
    shape = (len(tokens), int(tokens.max(initial=0)) + 1)
    counts = scipy.sparse.csr_matrix((np.ones(len(words), np.float32), (rows, words)), shape=shape)
    from sklearn.feature_extraction.text import TfidfTransformer

    return TfidfTransformer().fit_transform(counts)


def penultimate(model: Model, background: Examples, settings: FederationPlan, rng: np.random.Generator) -> FloatArray:
    """What the shared model, trained on the background first, makes of each example before its last layer.

    The paper takes a network that others had trained on other images. Here the background itself teaches the model,
    which needs nobody's data, and every client comes to the same clusters. For text it is averaged over the words.
    """
    last = model.layout[-1]
    shapes = dict(last.tensors)
    if set(shapes) != {"weight", "bias"} or len(shapes["weight"]) != 2:
        raise PlanError(
            f"defence 'mm-aug': features = 'model' needs a model that ends in a fully connected layer; this one ends "
            f"in '{last.name}'"
        )
    public = background.take(np.sort(rng.permutation(len(background))[:_LEARN]))
    task = task_of(background)
    engine = Embedded(model, task, replace(settings, epochs=_PASSES), Pool.of([public], ["of the background"]))
    start = model.init(rng)
    with one_thread():
        moves = engine.updates(start, [0], lambda stage, _: rng)
        weights = dict(tensors(model, {name: start[name] + moves[name][0].numpy() for name in start}))
        # With the identity as its last layer, what comes out of the model is what went into that layer.
        size = shapes["weight"][1]
        weights[f"{last.name}.weight"] = torch.eye(size).unsqueeze(0)
        weights[f"{last.name}.bias"] = torch.zeros(1, size)
        found = []
        with torch.inference_mode():
            for begin in range(0, len(background), _AT_ONCE):
                x = Pool.of([background.take(slice(begin, begin + _AT_ONCE))], ["background"]).x
                out = model.forward(weights, inputs(task, x).unsqueeze(0)).squeeze(0)
                found.append(out.mean(1) if out.dim() == 3 else out)
    features: FloatArray = torch.cat(found).numpy()
    return features

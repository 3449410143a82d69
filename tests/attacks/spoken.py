"""Small character models for the tests of record attacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedleak.attacks.records.language import Language
from fedleak.core import Params, Task
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread, tensors
from fedleak.federation.model import Architecture, Signature
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.plan import FederationPlan
from fedleak.population.datasets.clients_text import characters
from fedleak.population.population import Examples

ARCHITECTURES: dict[str, Architecture] = {
    "lstm": CharLm(embedding=8, hidden=32),
    "transformer": Transformer(width=16, heads=2, layers=2),
}


def language(name: str, window: int = 64) -> Language:
    known = characters("")
    return Language(ARCHITECTURES[name].build(Signature(Task.NEXT_TOKEN, (window,), len(known))), known)


def opinionated(spoken: Language, seed: int, strength: float = 1.0) -> Params:
    """Weights of a model with strong preferences, as if it had learnt something; 0: as it starts."""
    rng = np.random.default_rng(seed)
    weights = spoken.model.init(rng)
    return {k: (v + strength * rng.standard_normal(v.shape)).astype(np.float32) for k, v in weights.items()}


def memorised(spoken: Language, records: Sequence[str]) -> Params:
    """Weights of a model that was trained on these records, each on a line, until it knows them by heart."""
    x = spoken.encode([f"{spoken.context}{record}\n" for record in records])
    plan = FederationPlan(epochs=150, batch=len(records), lr=0.02, optimizer="adam", clip=1.0)
    engine = Embedded(spoken.model, Task.NEXT_TOKEN, plan, Pool.of([Examples(x=x)], ["only"]))
    weights = spoken.model.init(np.random.default_rng(0))
    with one_thread():
        moves = engine.updates(weights, [0], lambda stage, client: np.random.default_rng(0))
    return {name: value + moves[name][0].numpy() for name, value in weights.items()}


def one_by_one(spoken: Language, weights: Params, record: str) -> float:
    """The log-probability of a record, from one forward pass over it and what stands before it."""
    ids = torch.from_numpy(spoken.encode([spoken.context + record]))
    with torch.inference_mode():
        logs = torch.log_softmax(spoken.model.forward(tensors(spoken.model, weights), ids[None, :, :-1])[0, 0], -1)
    at = torch.arange(len(record)) + len(spoken.context) - 1
    return float(logs[at, ids[0, at + 1]].double().sum())

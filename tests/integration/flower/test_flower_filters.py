# ruff: noqa: E402 - without the framework these tests are skipped
# mypy: disallow-subclassing-any=False, warn-return-any=False
"""Fedleak's versions of Flower's differential privacy do what Flower's own code does, number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
import flower_local  # noqa: F401 - says who runs, without which no message can be made
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)

from fedleak.core import Params
from fedleak.defences.flower_fixed_clipping import FlowerClientSideFixedClipping, FlowerServerSideFixedClipping
from fedleak.defences.flower_local_dp import FlowerLocalDp

CLIENTS = 3
MODEL = {"a": np.full(30, 0.5, dtype=np.float32), "b": np.zeros(5, dtype=np.float32)}


def updates(size: float = 1.0) -> list[Params]:
    rng = np.random.default_rng(5)
    return [
        {name: (size * (n + 0.1) * rng.standard_normal(v.shape)).astype(np.float32) for name, v in MODEL.items()}
        for n in range(CLIENTS)
    ]


def arrays(values: Params) -> ArrayRecord:
    return ArrayRecord([np.asarray(v) for v in values.values()])


def moved(update: Params) -> ArrayRecord:
    return arrays({name: MODEL[name] + update[name] for name in MODEL})


def message(record: ArrayRecord, config: dict[str, Any] | None = None) -> Message:
    content = {"arrays": record, "config": ConfigRecord(config or {})}
    return Message(content=RecordDict(content), dst_node_id=1, message_type="train")


def reply(to: Message, update: Params) -> Message:
    content = {"arrays": moved(update), "metrics": MetricRecord({"num-examples": 10})}
    return Message(content=RecordDict(content), reply_to=to)


def change(record: ArrayRecord) -> Params:
    return {name: v - MODEL[name] for name, v in zip(MODEL, record.to_numpy_ndarrays(), strict=True)}


@pytest.fixture(autouse=True)
def same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower draws from NumPy's global function: it takes its numbers from the generator that Fedleak gets."""
    rng = np.random.default_rng(3)

    def normal(mean: float, deviation: float, shape: Any = None) -> Any:
        if shape is None:
            return mean
        return mean + rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)

    monkeypatch.setattr(np.random, "normal", normal)


def mean(sent: list[Params]) -> Params:
    return {name: np.mean([one[name] for one in sent], axis=0, dtype=np.float32) for name in MODEL}


def assert_same(ours: Params, theirs: Params) -> None:
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-4, atol=2e-6)


def test_clipping_on_the_client() -> None:
    ours = FlowerClientSideFixedClipping(noise_multiplier=2.0, clipping_norm=1.5)
    sent = []
    for update in updates():
        asked = message(arrays(MODEL), {"clipping_norm": 1.5})
        answered = fixedclipping_mod(asked, None, lambda msg, _, update=update: reply(msg, update))
        sent.append(change(next(iter(answered.content.array_records.values()))))
        assert_same(ours.on_update(update, np.random.default_rng(0)), sent[-1])
    theirs = DifferentialPrivacyClientSideFixedClipping(FedAvg(), 2.0, 1.5, CLIENTS)
    asked = message(arrays(MODEL))
    found, _ = theirs.aggregate_train(1, [reply(asked, one) for one in sent])
    assert found is not None
    shares = np.full(CLIENTS, 1 / CLIENTS, dtype=np.float32)
    assert_same(ours.on_aggregate(mean(sent), shares, np.random.default_rng(3)), change(found))


def test_clipping_on_the_server() -> None:
    theirs = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 2.0, 1.5, CLIENTS)
    theirs.current_arrays = arrays(MODEL)
    asked = message(arrays(MODEL))
    found, _ = theirs.aggregate_train(1, [reply(asked, one) for one in updates()])
    assert found is not None
    ours = FlowerServerSideFixedClipping(noise_multiplier=2.0, clipping_norm=1.5)
    shares = np.full(CLIENTS, 1 / CLIENTS, dtype=np.float32)
    rows = {name: np.stack([one[name] for one in updates()]) for name in MODEL}
    added = ours.on_aggregation(rows, shares, np.random.default_rng(0))
    assert_same(ours.on_aggregate(added.aggregate, shares, np.random.default_rng(3)), change(found))


def test_local_differential_privacy() -> None:
    ours = FlowerLocalDp(clipping_norm=1.5, sensitivity=1.5, epsilon=5.0, delta=1e-4)
    mod = LocalDpMod(1.5, 1.5, 5.0, 1e-4)
    [*_, update] = updates()
    answered = mod(message(arrays(MODEL)), None, lambda msg, _: reply(msg, update))
    theirs = change(next(iter(answered.content.array_records.values())))
    assert_same(ours.on_update(update, np.random.default_rng(3)), theirs)


def test_adaptive_clipping_moves_its_norm_away_from_the_updates_and_noises_by_the_norm_after_the_move() -> None:
    # Why there is no version of it here: every update is longer than the norm, which should grow, and it shrinks.
    theirs = DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 1.0, CLIENTS, clipped_count_stddev=10.0)
    norms = [theirs.clipping_norm]
    for number in range(3):
        theirs.current_arrays = arrays(MODEL)
        asked = message(arrays(MODEL))
        before = theirs.clipping_norm
        found, _ = theirs.aggregate_train(number + 1, [reply(asked, one) for one in updates(size=100.0)])
        assert found is not None
        norms.append(theirs.clipping_norm)
        # All updates were clipped to the norm before; the noise is of the one after.
        assert theirs.clipping_norm == pytest.approx(before * np.exp(-0.2 * 0.5))
    assert norms == sorted(norms, reverse=True) and norms[-1] < 0.08

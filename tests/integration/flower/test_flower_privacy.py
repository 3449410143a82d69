# ruff: noqa: E402 - without Flower these tests are skipped
# mypy: disallow-subclassing-any=False, warn-return-any=False
"""Wrappers and mods that change updates, and strategies that do not move by the mean."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
from flower_local import (
    LocalGrid,
    client_app,
    fedavg,
    opened,
    run,
    state,
    update_of,
)
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedMedian,
)

from fedleak.record.flower import identify, record
from fedleak.record.key import read_key


@pytest.mark.parametrize("kind", [FedAdam, FedMedian])
def test_mean_and_real_move_are_both_recorded(tmp_path: Path, kind: Any) -> None:
    run(record(fedavg(kind), tmp_path / "run"), LocalGrid(client_app()), rounds=2)
    trace = opened(tmp_path / "run")
    assert trace.rounds == 2
    updates = trace.updates("fc1")[trace.span(1)]
    sizes = trace.size[trace.span(1)].astype(np.float64)
    mean = np.average(updates.astype(np.float64), axis=0, weights=sizes)
    np.testing.assert_allclose(trace.aggregate(1)["fc1"], mean, atol=1e-6)
    move = trace.snapshot(1)["fc1"] - trace.snapshot(0)["fc1"]
    assert np.abs(move - mean).max() > 1e-3
    if kind is FedMedian:
        np.testing.assert_allclose(move, np.median(updates, axis=0), atol=1e-6)


def norms_of(folder: Path) -> list[float]:
    trace = opened(folder)
    updates = [update_of(trace, row) for row in range(len(trace.client))]
    return [float(np.linalg.norm(np.concatenate([value.reshape(-1) for value in one.values()]))) for one in updates]


def test_outside_of_server_side_clipping_raw_updates_are_recorded(tmp_path: Path) -> None:
    private = DifferentialPrivacyServerSideFixedClipping(fedavg(), 0.1, 0.05, 4)
    run(record(private, tmp_path / "run"), LocalGrid(client_app()))
    trace = opened(tmp_path / "run")
    assert trace.rounds == 2 and min(norms_of(tmp_path / "run")) > 0.1
    assert trace.header.origin["strategy"] == "DifferentialPrivacyServerSideFixedClipping > FedAvg"
    # The model moved by the clipped and noised mean, not by the mean of what was recorded.
    move = trace.snapshot(1)["fc1"] - trace.snapshot(0)["fc1"]
    assert np.abs(move - trace.aggregate(1)["fc1"]).max() > 1e-3


def test_inside_of_server_side_clipping_clipped_updates_are_recorded(tmp_path: Path) -> None:
    inner = record(fedavg(), tmp_path / "inner")
    private = DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 0.05, 4)
    run(record(private, tmp_path / "outer"), LocalGrid(client_app(mods=[identify])))
    del private, inner
    gc.collect()  # the inner strategy is never told that the run is over
    norms = norms_of(tmp_path / "inner")
    assert len(norms) == 8 and max(norms) == pytest.approx(0.05, rel=1e-4)
    for folder in (tmp_path / "inner", tmp_path / "outer"):
        assert {known.partition for known in read_key(folder / "key")} == {"0", "1", "2", "3"}
        assert state(folder).state == "closed"
    # The noise is added outside: it shows as a round without clients.
    trace = opened(tmp_path / "inner")
    assert trace.rounds == 3 and trace.span(2).start == trace.span(2).stop


def test_client_side_fixed_clipping(tmp_path: Path) -> None:
    private = DifferentialPrivacyClientSideFixedClipping(fedavg(), 0.1, 0.05, 4)
    run(record(private, tmp_path / "run"), LocalGrid(client_app(mods=[identify, fixedclipping_mod])))
    norms = norms_of(tmp_path / "run")
    assert len(norms) == 8 and max(norms) == pytest.approx(0.05, rel=1e-3)
    assert {known.partition for known in read_key(tmp_path / "run" / "key")} == {"0", "1", "2", "3"}


def test_client_side_adaptive_clipping(tmp_path: Path) -> None:
    private = DifferentialPrivacyClientSideAdaptiveClipping(fedavg(), 0.05, 4, initial_clipping_norm=0.05)
    run(record(private, tmp_path / "run"), LocalGrid(client_app(mods=[adaptiveclipping_mod, identify])))
    assert opened(tmp_path / "run").rounds == 2
    assert max(norms_of(tmp_path / "run")[:4]) == pytest.approx(0.05, rel=1e-3)


def test_local_noise_is_part_of_the_update(tmp_path: Path) -> None:
    # The mod runs on evaluation, too, and fails there; the strategy is told not to evaluate.
    noise = LocalDpMod(clipping_norm=0.01, sensitivity=0.01, epsilon=1.0, delta=1e-5)
    run(record(fedavg(fraction_evaluate=0.0), tmp_path / "run"), LocalGrid(client_app(mods=[noise, identify])))
    updates = opened(tmp_path / "run").updates("fc1")
    # 0.01 * sqrt(2 ln 125000): the noise is five times the clipped step.
    assert len(updates) == 8 and 0.03 < float(np.std(updates)) < 0.07

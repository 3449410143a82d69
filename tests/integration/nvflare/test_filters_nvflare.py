# ruff: noqa: E402 - without the framework these tests are skipped
# mypy: disallow-subclassing-any=False, warn-return-any=False
"""Fedleak's versions of NVFlare's filters send what NVFlare's own code sends, number by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("nvflare")
from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.filters.exclude_vars import ExcludeVars
from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy
from nvflare.app_common.filters.svt_privacy import SVTPrivacy

from fedleak.core import Params
from fedleak.defences.nvflare_exclude_vars import NvflareExcludeVars
from fedleak.defences.nvflare_percentile import NvflarePercentilePrivacy
from fedleak.defences.nvflare_svt import NvflareSvtPrivacy


def update() -> Params:
    rng = np.random.default_rng(7)
    return {name: (rng.standard_normal(size) * 0.01).astype(np.float32) for name, size in (("out", 40), ("fc1", 300))}


def filtered(own: Any, steps: int = 1) -> Params:
    """What NVFlare's filter makes of the update."""
    data = {name: values.copy() for name, values in update().items()}
    dxo = DXO(DataKind.WEIGHT_DIFF, data, {MetaKey.NUM_STEPS_CURRENT_ROUND: steps})
    out = own.process_dxo(dxo, Shareable(), FLContext())
    return {name: np.asarray(values) for name, values in out.data.items()}


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """NVFlare draws from NumPy's global functions: they take their numbers from the generator that Fedleak gets."""

    def patch() -> None:
        rng = np.random.default_rng(3)
        for name in ("laplace", "binomial", "hypergeometric", "choice"):
            monkeypatch.setattr(np.random, name, getattr(rng, name))

    return patch


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("settings", [{}, {"percentile": 60, "gamma": 0.002}])
def test_percentile_privacy(settings: dict[str, Any], steps: int) -> None:
    theirs = filtered(PercentilePrivacy(**settings), steps)
    ours = NvflarePercentilePrivacy(**settings, steps=steps).on_update(update(), np.random.default_rng(0))
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    "settings",
    [{}, {"replace": False}, {"fraction": 0.5, "epsilon": 5.0, "gamma": 0.01, "tau": 0.005, "noise_var": 1.0}],
)
def test_svt_privacy(settings: dict[str, Any], steps: int, same_draws: Callable[[], None]) -> None:
    ours = NvflareSvtPrivacy(**settings, steps=steps).on_update(update(), np.random.default_rng(3))
    same_draws()
    theirs = filtered(SVTPrivacy(**settings), steps)
    for name, values in ours.items():
        assert np.count_nonzero(values) > 0
        np.testing.assert_allclose(values, theirs[name], rtol=1e-5, atol=1e-9)


def test_what_svt_counts_by_itself() -> None:
    own = SVTPrivacy()
    filtered(own)
    # 34 of 340 values: epsilon 0.1 for choosing them, and 0.1 for sending each.
    assert own.get_privacy_spent() == pytest.approx(0.1 + 34 * 0.1)
    # More lie above the threshold in its first pass than it charges for, because noise decides.
    assert own.get_privacy_ledger()[0]["acceptance_passes"] >= 1


def test_exclude_vars() -> None:
    for which in ("fc", ["fc1"]):
        theirs = filtered(ExcludeVars(which))
        given = which if isinstance(which, str) else tuple(which)
        ours = NvflareExcludeVars(exclude_vars=given).on_update(update(), np.random.default_rng(0))
        # A layer that is left out there is zeros here.
        assert set(ours) - set(theirs) == {"fc1"} and not ours["fc1"].any()
        np.testing.assert_array_equal(ours["out"], theirs["out"])

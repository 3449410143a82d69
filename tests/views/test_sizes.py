"""What an adversary can compute from what it sees, it sees: sizes follow from the updates and the mean of a round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedleak
from fedleak.core import Capability, Observation
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import train
from fedleak.views.adversaries import AGGREGATE_SERVER, ANONYMOUS_SERVER, SERVER, Adversary, everyone
from fedleak.views.view import View


class Silent:
    def stage(self, text: str, units: float) -> None: ...

    def tick(self, units: float) -> None: ...


def recorded(out: Path, defence: list[dict[str, Any]], **federation: Any) -> Path:
    """Eight users, each with another number of examples."""
    rng = np.random.default_rng(0)
    users = {f"u{n}": (rng.normal(size=(n, 4)).astype(np.float32), rng.integers(3, size=n)) for n in range(12, 28, 2)}
    plan = fedleak.read_plan(
        {
            "dataset": fedleak.ArrayDataset(users),
            "model": {"name": "mlp", "hidden": [16]},
            "federation": {"rounds": 6, "fraction": 0.4, "batch": 4, "centralised": False, **federation},
            "audit": {"controls": [], "adaptive": False},
            "attack": [{"name": "reid-knn"}],
            "defence": defence,
        }
    )
    train(plan, out, Silent(), 1)
    return runs(plan, out)[-1].folder / "trace"


def solved(view: View, round_number: int) -> Any:
    """Each update's weight in the mean of its round, by least squares."""
    rows = np.flatnonzero(view.updates.round == round_number)
    updates = np.concatenate([view.updates.layer(layer.name)[rows] for layer in view.layout], axis=1)
    mean = np.concatenate([view.aggregate(round_number)[layer.name] for layer in view.layout])
    return np.linalg.lstsq(updates.T.astype(np.float64), mean.astype(np.float64))[0]


def test_least_squares_gives_the_sizes_that_the_view_shows(tmp_path: Path) -> None:
    view = View(recorded(tmp_path, []), ANONYMOUS_SERVER)
    assert view.updates.size is not None and len(np.unique(view.updates.size)) > 4
    for number in range(1, view.rounds + 1):
        here = view.updates.round == number
        # The adversary's own clients have a size that it knows, which gives the factor.
        own = here & (view.updates.shadow >= 0)
        weights, shown = solved(view, number), view.updates.size[here]
        np.testing.assert_allclose(weights, shown / shown.sum(), atol=1e-4)
        if own.any():
            first = np.flatnonzero(own[here])[0]
            np.testing.assert_array_equal(np.rint(weights / weights[first] * shown[first]), shown)


@pytest.mark.parametrize(
    ("defence", "federation", "shown"),
    [
        ([], {"weighting": "equal"}, False),
        ([{"name": "noise", "sigma": 0.1}], {}, True),
        ([{"name": "dp-fedavg", "noise": 0.1}], {}, True),
        ([{"name": "dp-fedavg", "noise": 0.1, "where": "server"}], {}, False),
        ([{"name": "secure-aggregation"}], {}, False),
    ],
)
def test_sizes_do_not_follow_where_weights_are_equal_or_the_mean_is_changed(
    tmp_path: Path, defence: list[dict[str, Any]], federation: dict[str, Any], shown: bool
) -> None:
    trace = recorded(tmp_path, defence, **federation)
    assert (View(trace, ANONYMOUS_SERVER).updates.size is not None) == shown
    told = {one["name"] for one in defence} != {"secure-aggregation"}  # which hides them from everyone
    assert (View(trace, SERVER).updates.size is not None) == told
    if shown:
        here = View(trace, ANONYMOUS_SERVER)
        assert here.updates.size is not None
        share = here.updates.size[here.updates.round == 1] / here.updates.size[here.updates.round == 1].sum()
        np.testing.assert_allclose(solved(here, 1), share, atol=1e-3)


def test_an_adversary_without_every_round_cannot_solve_for_sizes(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [])
    assert View(trace, ANONYMOUS_SERVER, every=2).updates.size is None
    assert View(trace, SERVER, every=2).updates.size is not None


def test_whoever_has_updates_and_their_mean_has_sizes() -> None:
    both = Observation.UPDATES | Observation.AGGREGATE
    for adversary in everyone():
        assert (both in adversary.observations) <= (Observation.SIZES in adversary.observations), adversary.name
    assert ANONYMOUS_SERVER.computed == Observation.SIZES
    assert SERVER.computed == AGGREGATE_SERVER.computed == Observation.NONE
    mine = Adversary(name="mine", observations=both, capabilities=Capability.JOIN, summary="")
    assert mine.observations == both | Observation.SIZES

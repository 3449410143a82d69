"""Representatives beside the data of the clients that they were told from."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import column, made

from fedleak.analyses.representatives import RepresentativesLook
from fedleak.errors import AttackError
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse

TEXT = """
title = "clients"
seeds = [0]
[dataset]
name = "mnist-clients"
source = "digits"
clients = 6
examples = 24
[population]
prior = "none"
[model]
name = "strided-cnn"
channels = [4, 8]
strides = [2, 1]
activation = "elu"
[federation]
rounds = 3
fraction = 1.0
batch = 8
lr = 0.05
centralised = false
[audit]
controls = []
[[attack]]
name = "link-cosine"
"""


def plan(**change: object) -> Plan:
    return parse(TEXT, change=change)


def test_representatives_resemble_the_clients_own_data_more_than_another_clients(tmp_path: Path) -> None:
    found = made(RepresentativesLook(rounds=(1,), iterations=40, shown=2), tmp_path / "out", plan())
    value = dict(zip(column(found, "measure"), column(found, "value"), strict=True))
    assert 0 < value["error of the update"] < 0.6
    assert value["likeness to the client's mean"] > 0.6
    assert value["likeness to the client's mean"] > value["likeness to another client's mean"]
    for _, _, mean, low, high, clients in found.rows:
        assert isinstance(mean, float) and isinstance(low, float) and isinstance(high, float)
        assert low <= mean <= high and clients <= 6  # type: ignore[operator]
    # Numbers over the rounds, and images of two clients with every pixel as it is: two rows of 8x8 images.
    assert [figure.kind for figure in found.figures] == ["lines", "heatmap", "heatmap"]
    cells = found.figures[1].cells
    assert cells is not None and len(cells) == 16 and len(cells[0]) % 8 == 0


def test_a_search_that_goes_on_from_the_last_round_needs_fewer_steps(tmp_path: Path) -> None:
    def error(warm: bool) -> list[float]:
        look = RepresentativesLook(rounds=(3, 1, 2), iterations=8, shown=0, warm=warm)
        found = made(look, tmp_path / "out", plan())
        told = zip(column(found, "measure"), column(found, "value"), strict=True)
        return [value for measure, value in told if measure == "error of the update"]

    cold, warm = error(False), error(True)
    assert warm[0] == cold[0]
    assert warm[2] < 0.8 * cold[2]


def test_no_image_is_drawn_where_none_is_wanted_and_a_round_that_never_was_is_refused(tmp_path: Path) -> None:
    found = made(RepresentativesLook(rounds=(1,), iterations=1, shown=0), tmp_path / "out", plan())
    assert [figure.kind for figure in found.figures] == ["lines"]
    with pytest.raises(AttackError, match="round 9 is requested, but the run has 3"):
        made(RepresentativesLook(rounds=(9,)), tmp_path / "out", plan())

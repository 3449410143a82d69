"""Given a record: whose it is, from who took part and from watermarks, over the rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from secrets_small import secrets_plan
from small import column, made, small

from fedleak.analyses.attribute_record import AttributeRecord
from fedleak.analyses.exposure_timeline import Course
from fedleak.errors import PlanError

MARKED: dict[str, Any] = {
    "audit": {"adversaries": ["insider", "eavesdropper"]},
    "attack": [{"name": "eavesdrop"}, {"name": "watermark"}],
    "inject": {"length": 8},
    "federation": {"rounds": 60},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def test_secrets_are_attributed_by_both_signals_and_more_surely_with_every_round(folder: Path) -> None:
    found = made(AttributeRecord(points=5, permutations=999), folder / "out", secrets_plan(folder, **MARKED))
    kinds = [(row[1], row[2]) for row in found.rows]
    assert kinds == [
        (record, signal)
        for signal, attack in (("presence", "eavesdrop"), ("watermark", "watermark"))
        for record in ("the secret", f"first of {attack}")
        for _ in range(4)
    ]
    own, other, right = (np.array(column(found, name)) for name in ("own client", "best other", "right"))
    given = np.array([record == "the secret" for record, _ in kinds])
    assert right[given].mean() >= 0.75 and right[~given].mean() >= 0.5
    assert (own[given & (right == 1)] > other[given & (right == 1)]).all()
    assert (own[given & (right == 0)] <= other[given & (right == 0)]).all()
    raw, corrected = (np.array(column(found, name)) for name in ("p", "p corrected"))
    assert (corrected >= raw).all() and (raw >= 1 / 1000).all() and np.median(raw) <= 0.05
    correlations, shares = found.figures
    for signal in ("presence", "watermark"):
        lines = {line.name: line for line in correlations.series}
        assert lines[f"{signal}, own client"].y[-1] > lines[f"{signal}, other clients"].y[-1] + 0.2
        rows = [row for row in found.rows if row[1:3] == ["the secret", signal]]
        assert lines[f"{signal}, own client"].y[-1] == pytest.approx(np.mean([row[3] for row in rows]))
    assert [line.name for line in shares.series] == ["presence", "watermark", "chance"]
    assert shares.series[0].x == [3, 17, 32, 46, 60] and shares.series[2].y == [0.25]
    assert "of 4 secrets go best with their own client, chance 0.25" in found.text
    assert "Of the 4 records that eavesdrop, which is told none, names first" in found.text


def test_only_signals_that_the_plans_adversaries_have_are_used(folder: Path) -> None:
    change = {"audit": {"adversaries": ["insider"]}, "attack": [{"name": "watermark"}], "federation": {"rounds": 4}}
    plan = secrets_plan(folder, **{**MARKED, **change})
    found = made(AttributeRecord(points=2, permutations=99, named=False), folder / "insider", plan)
    assert {(row[1], row[2]) for row in found.rows} == {("the secret", "watermark")}


def test_what_is_not_about_secrets_or_sees_too_little_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(PlanError, match="no attack of the plan extracts any"):
        made(AttributeRecord(), tmp_path / "out", small())
    change = {"audit": {"adversaries": ["global-model-client"]}, "attack": [{"name": "exposure-baseline"}]}
    with pytest.raises(PlanError, match="needs an adversary that sees which clients took part"):
        made(AttributeRecord(), tmp_path / "out", secrets_plan(folder, **change))


def test_a_tie_is_half_a_hit_and_other_clients_are_compared_with_too() -> None:
    changes = np.array([[1.0], [2.0], [3.0], [4.0]])
    rising, falling = np.arange(4.0), -np.arange(4.0)
    tied = Course(seed=0, users=("a",), changes=changes, signals=np.column_stack([rising, rising, falling]))
    assert tied.right(4).tolist() == [0.5]
    assert tied.own(4).tolist() == [1.0] and tied.others(4, highest=True).tolist() == [1.0]
    assert tied.others(4).tolist() == [0.0]


def test_with_one_watermark_it_is_compared_with_every_clients_secret(folder: Path) -> None:
    """Figure 3 of the paper: the victim's watermark goes best with the victim's own secret."""
    change = {"audit": {"adversaries": ["insider"]}, "attack": [{"name": "watermark"}]}
    plan = secrets_plan(folder, **{**MARKED, **change, "inject": {"victims": 1, "insertions": 3, "length": 8}})
    found = made(AttributeRecord(points=5, permutations=999), folder / "one", plan)
    assert [row[1:3] for row in found.rows] == [["the secret", "watermark"]]
    assert column(found, "right") == [1] and "of 1 secrets go best with their own client, chance 0.25" in found.text

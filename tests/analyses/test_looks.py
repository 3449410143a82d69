"""Analyses that look at data and updates directly."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from small import column, made, of_table, small

from fedleak.analyses.bias import Bias
from fedleak.analyses.distances import Distances
from fedleak.analyses.feature_space import Raw
from fedleak.analyses.raw_data import RawData, draw_sets
from fedleak.analyses.t_sne import Map
from fedleak.core import Task, UserId, rng_for
from fedleak.errors import PlanError
from fedleak.population.population import Examples, Share, User
from fedleak.population.prepare import Prepared


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("looks") / "out"


def test_users_are_nearer_to_themselves_unless_nothing_is_personal(out: Path) -> None:
    found = made(Distances(), out)
    lows = dict(zip(zip(column(found, "space"), column(found, "who"), strict=True), column(found, "low"), strict=True))
    for space in ("data", "updates"):
        assert lows[space, "users"] > 0.5, "users with habits of their own lie above the diagonal"
        assert lows[space, "IID control"] <= 0.5, "users dealt at random do not"
    for figure in found.figures:
        assert figure.diagonal
        dots = figure.series[0]
        row = next(row for row in found.rows if row[:2] == [figure.title.split(": ")[1], "users"])
        assert row[2] == np.mean(np.asarray(dots.y) > np.asarray(dots.x))


def test_without_a_control_in_the_plan_none_is_trained(tmp_path: Path) -> None:
    found = made(Distances(), tmp_path / "out", small(audit={"controls": []}))
    assert column(found, "who") == ["users", "users"]
    assert not (tmp_path / "out" / "runs" / "iid").exists()


def test_prior_and_private_updates_of_a_user_lean_the_same_way(out: Path) -> None:
    found = made(Bias(users=2), out)
    agreement, chance = column(found, "low")[0], column(found, "chance")[0]
    assert agreement > chance
    most, least, scatter = found.figures
    for figure in (most, least):
        assert figure.cells is not None and figure.y_ticks is not None
        assert np.asarray(figure.cells).shape == (4, 10)
        # Norms of classes of an update of length one.
        assert np.all(np.linalg.norm(np.asarray(figure.cells, dtype=float), axis=1) <= 1 + 1e-6)
        assert [name.rsplit(" ", 1)[1] for name in figure.y_ticks] == ["prior", "private"] * 2
    assert set(most.y_ticks or ()).isdisjoint(least.y_ticks or ())
    assert len(scatter.series[0].x) == 15


def test_bias_needs_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"u{user},{user + i / 10},{i}" for user in range(4) for i in range(12)]
    (tmp_path / "mine.csv").write_text("who,a,label\n" + "\n".join(rows) + "\n")
    dataset = {"name": "table", "path": "mine.csv", "user": "who", "features": ["a"], "label": "label"}
    with pytest.raises(PlanError, match="the task of this data set is 'regress'"):
        made(Bias(), tmp_path / "out", of_table({**dataset, "task": "regress"}))


def test_larger_sets_of_raw_data_identify_better_and_leave_no_private_example_behind(out: Path) -> None:
    found = made(RawData(sizes=(1, 16)), out)
    ap = column(found, "AP")
    assert ap[0] < ap[1]
    assert found.rows[-1][0] == "an update"
    names = [series.name for series in found.figures[0].series if series.reference]
    assert names == ["updates, layer 'last'", "chance"]
    kept = [path for path in (out / "analyses" / "raw-data").iterdir()]
    assert len(kept) == 2 and all(path.suffix == ".npz" for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    before = {path: path.stat().st_mtime_ns for path in kept}
    (out / "analyses" / "raw-data" / ".raw-killed").mkdir()
    assert made(RawData(sizes=(1, 16)), out) == found
    assert {path: path.stat().st_mtime_ns for path in (out / "analyses" / "raw-data").iterdir()} == before


def test_nobody_is_named_by_raw_data_that_is_dealt_at_random(tmp_path: Path) -> None:
    nobody = small(dataset={"class_bias": 1e6, "style": 0.0})
    found = made(RawData(sizes=(8,)), tmp_path / "out", nobody)
    assert column(found, "low")[0] <= column(found, "chance")[0]


@pytest.mark.parametrize(("size", "count"), [(1, 6), (3, 20), (6, 1), (9, 1)])
def test_sets_are_of_distinct_examples(size: int, count: int) -> None:
    drawn = draw_sets(6, size, 20, rng_for(0))
    assert len(drawn) == count
    assert all(len(set(rows)) == len(rows) == min(size, 6) for rows in drawn)
    if size == 1:
        assert sorted(int(rows[0]) for rows in drawn) == list(range(6))


def test_text_counts_by_its_words_and_padding_does_not() -> None:
    sentences = np.array([[1, 1, 2, 0], [2, 0, 0, 0]])
    user = User(UserId("a"), Examples(x=sentences))
    prepared = Prepared(
        shares=(Share(user, Examples(x=sentences), Examples(x=sentences[:1])),),
        test=Examples(x=sentences),
        background=None,
        task=Task.NEXT_TOKEN,
        outputs=3,
        source="",
        findings=(),
        input_shape=(4,),
    )
    shares = np.array([[0, 2 / 3, 1 / 3], [0, 0, 1]])
    np.testing.assert_allclose(Raw(prepared).rows(Examples(x=sentences)), shares - shares.mean(axis=0), atol=1e-6)


def test_the_map_shows_both_sides_of_each_user_and_says_how_near_they_are(out: Path) -> None:
    found = made(Map(users=4, most=8), out)
    assert column(found, "space") == ["updates", "data"]
    assert column(found, "low")[0] > column(found, "chance")[0]
    for figure in found.figures:
        sides = [series.name.rsplit(", ", 1)[1] for series in figure.series]
        assert sides == ["prior", "private"] * 4
        assert all(1 <= len(series.x) <= 8 for series in figure.series)
    assert made(Map(users=4, most=8), out) == found

"""Analyses that play an attack of the plan in several ways."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import Silent, column, made, of_table, small

from fedleak.analyses.analysis import check
from fedleak.analyses.labelled import LabelledUpdates
from fedleak.analyses.layers import Layers
from fedleak.analyses.open_world import SeenUsers
from fedleak.analyses.priors import Priors, PriorSize
from fedleak.analyses.rounds import Rounds
from fedleak.errors import AttackError, PlanError
from fedleak.pipeline import stages


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("analyses") / "out"


def planned_ap(out: Path) -> float:
    result = stages.audit(small(audit={"controls": []}), out, Silent(), jobs=1)
    return next(score.value for score in result.scores if score.metric == "ap")


def test_every_layer_is_attacked_and_the_plans_own_scores_as_in_the_audit(out: Path) -> None:
    found = made(Layers(), out)
    assert column(found, "layer") == ["fc1", "out"]
    assert column(found, "parameters") == [64 * 8 + 8, 8 * 10 + 10]
    assert found.rows[-1][found.columns.index("AP")] == planned_ap(out)
    line, chance = found.figures[0].series
    assert line.y == column(found, "AP") and line.low == column(found, "low")
    assert chance.reference and chance.y == column(found, "chance")
    assert all(low > level for low, level in zip(column(found, "low"), column(found, "chance"), strict=True))


def test_layers_need_an_attack_with_a_layer(out: Path) -> None:
    with pytest.raises(PlanError, match="'reid-labels' has no setting `layer`"):
        made(Layers(), out, small(attack=[{"name": "reid-labels"}]))


@pytest.mark.parametrize("look", [Layers, Rounds, LabelledUpdates, PriorSize, SeenUsers])
def test_an_attack_that_the_plan_lacks_is_refused_with_the_nearest_name(look: type[Layers], out: Path) -> None:
    with pytest.raises(PlanError, match="no attack 'reid-sv'; did you mean 'reid-svm'"):
        made(look(attack="reid-sv"), out)


@pytest.mark.parametrize(
    ("analysis", "says"),
    [
        ({"name": "layers", "attack": "reid-sv"}, "did you mean 'reid-svm'"),
        ({"name": "rounds", "ranges": 30}, "30 ranges of at least two"),
        ({"name": "attribute-record"}, "no attack of the plan extracts any"),
    ],
)
def test_an_analysis_that_does_not_fit_the_plan_is_refused_before_training(analysis: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        check(small(analysis=[analysis]))


def test_rounds_are_crossed_and_a_cell_is_about_its_own_rounds(out: Path) -> None:
    found = made(Rounds(ranges=2), out)
    figure = found.figures[0]
    assert figure.x_ticks == figure.y_ticks == ["1-20", "21-40"]
    assert figure.cells is not None and np.asarray(figure.cells).shape == (2, 2)
    assert [value for row in figure.cells for value in row] == column(found, "AP")
    narrow = made(Rounds(ranges=10), out)
    # Four rounds of nine clients never hold everybody, so a cell that looked beyond its rounds would name more users.
    assert min(column(narrow, "users")) < min(column(found, "users")) <= 15


def test_a_row_of_the_grid_is_what_was_learned_from_its_rounds(tmp_path: Path) -> None:
    # With this seed, late rounds teach clearly more than early ones.
    cells = np.asarray(made(Rounds(ranges=2), tmp_path / "out", small(seeds=[3])).figures[0].cells)
    # Ranked among all anonymous updates, and not only among those of a range, scores are lower by as much in each row.
    both = []
    for rounds in ([1, 20], [21, 40]):
        asked = {"name": "identify", "labelled_rounds": rounds}
        plan = small(seeds=[3], game=[asked], audit={"controls": []})
        result = stages.audit(plan, tmp_path / "out", Silent(), jobs=1)
        both.append(next(score.value for score in result.scores if score.metric == "ap"))
    apart, swapped = (np.abs(np.subtract(both, rows.mean(axis=1))).sum() for rows in (cells, cells[::-1]))
    assert apart < swapped, "the first row is the one that learned early"


def test_too_few_rounds_for_the_grid_are_refused(out: Path) -> None:
    with pytest.raises(PlanError, match=r"30 ranges of at least two rounds, but the plan has only 40 rounds"):
        made(Rounds(ranges=30), out)


def test_more_labelled_updates_identify_better(out: Path) -> None:
    found = made(LabelledUpdates(), out)
    ap = column(found, "AP")
    assert ap[0] < ap[-1] == planned_ap(out)
    assert found.figures[0].series[0].x[:4] == [1, 2, 4, 8]
    assert next(row[0] for row in made(LabelledUpdates(counts=(3,)), out).rows) == "at most 3"


def test_more_prior_examples_identify_better_and_nothing_is_trained_twice(out: Path) -> None:
    found = made(PriorSize(sizes=(1, 8)), out)
    ap = column(found, "AP")
    assert ap[0] < ap[1] < ap[2] == planned_ap(out)
    logs = {path: path.stat().st_mtime_ns for path in (out / "analyses" / "prior-size").rglob("trace/log")}
    assert len(logs) == 2
    (out / "analyses" / "prior-size.json").unlink()
    assert made(PriorSize(sizes=(1, 8)), out) == found
    assert {path: path.stat().st_mtime_ns for path in logs} == logs
    (next(iter(logs)).parents[1] / "run.json").unlink()  # as if it had been stopped before its end was marked
    assert made(PriorSize(sizes=(1, 8)), out) == found


def test_seen_users_give_chance_and_multiples_and_pairs_of_nobody_seen(out: Path) -> None:
    plan = small(attack=[{"name": "reid-svm"}, {"name": "match-cosine"}], game=[{"name": "match", "pairs": 200}])
    found = made(SeenUsers(shares=(0.5, 0.8)), out, plan)
    assert [row[:2] for row in found.rows] == [
        ["reid-svm", "50% seen"],
        ["reid-svm", "80% seen"],
        ["match-cosine", "0% seen"],
        ["match-cosine", "50% seen"],
        ["match-cosine", "80% seen"],
    ]
    shares, times = found.figures
    assert [series.reference for series in shares.series] == [False, True, False, True]
    for value, chance, multiple in zip(
        column(found, "AP"), column(found, "chance"), column(found, "times chance"), strict=True
    ):
        assert value > chance and multiple == pytest.approx(value / chance)
    assert times.series[0].y == column(found, "times chance")[:2]


def test_too_few_users_for_an_open_world_are_refused(out: Path) -> None:
    with pytest.raises(AttackError, match="open world"):
        made(SeenUsers(shares=(0.01,)), out)


def table_with_times(path: Path) -> None:
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "a", "b", "label", "day"])
        for user in range(8):
            centre = rng.normal(size=2) * 3
            for i in range(24):
                a, b = centre + rng.normal(size=2)
                rows.writerow([f"u{user}", a, b, "yes" if a > b else "no", f"2020-01-{i + 1:02}"])


def test_priors_that_the_data_has_no_column_for_are_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table_with_times(tmp_path / "mine.csv")
    dataset = {"name": "table", "path": "mine.csv", "user": "who", "features": ["a", "b"], "label": "label"}
    found = made(Priors(), tmp_path / "out", of_table({**dataset, "time": "day", "task": "classify"}))
    assert column(found, "prior") == ["random", "chrono"] == found.figures[0].x_ticks
    assert "The album prior is left out: the data set does not give the album" in found.text
    assert (tmp_path / "out" / "analyses" / "priors" / "chrono" / "runs" / "plain" / "seed-0" / "run.json").exists()
    plain, chrono = column(found, "AP")
    assert plain != chrono

"""One key of a plan varied: every value is a federation of its own, and the plan's own value is the audit's."""

from __future__ import annotations

from pathlib import Path

import pytest
from secrets_small import secrets_plan
from small import Silent, column, made, small

from command_line import TINY, Run
from fedleak.analyses.vary import Vary
from fedleak.errors import DataError, PlanError
from fedleak.pipeline import stages


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vary") / "out"


def test_every_value_is_trained_anew_and_the_plans_own_is_the_audits(out: Path) -> None:
    found = made(Vary(key="dataset.class_bias", values=(0.2, 2.0, 100.0)), out)
    assert column(found, "dataset.class_bias") == ["0.2", "2.0", "100.0"]
    assert set(column(found, "metric")) == {"average precision"}
    ap = column(found, "value")
    assert ap[0] > ap[1] > ap[2], "the more alike users' classes are, the less they are told apart"
    audited = stages.audit(small(audit={"controls": []}), out, Silent(), jobs=1)
    own = next(score for score in audited.scores if score.metric == "ap")
    assert ap[1] == own.value and column(found, "low")[1] == own.low
    assert own.utility is not None and column(found, "accuracy")[1] == own.utility.value
    attack, chance = found.figures[0].series
    assert attack.x == [0.2, 2.0, 100.0] and attack.y == ap and found.figures[0].log_x
    assert chance.reference and chance.y == column(found, "chance")
    assert found.figures[1].series[0].y == column(found, "accuracy")


def test_nothing_is_trained_twice_and_values_can_be_added(out: Path) -> None:
    first = made(Vary(key="federation.epochs", values=(1, 2)), out)
    logs = {path: path.stat().st_mtime_ns for path in out.rglob("trace/log")}
    again = made(Vary(key="federation.epochs", values=(1, 2, 3)), out)
    assert again.rows[: len(first.rows)] == first.rows and len(again.rows) > len(first.rows)
    assert {path: path.stat().st_mtime_ns for path in logs} == logs
    assert len(list(out.rglob("trace/log"))) == len(logs) + 1


def test_words_are_drawn_as_bars(out: Path) -> None:
    plan = small(federation={"rounds": 8})
    found = made(
        Vary(key="federation.weighting", values=("equal", "examples"), metrics=("top1",)), out.parent / "w", plan
    )
    figure = found.figures[0]
    assert figure.kind == "bars" and figure.x_ticks == ["equal", "examples"]
    assert set(column(found, "metric")) == {"top-1"}


@pytest.mark.parametrize(
    ("look", "error", "says"),
    [
        (
            Vary(key="dataset.user", values=(3,)),
            PlanError,
            r"dataset\.user = 3: .* no key 'user'; did you mean 'users'",
        ),
        (Vary(key="rounds", values=(3,)), PlanError, "expected table.key, where the table is one of dataset, pop"),
        (Vary(key="audit.level", values=(0.9,)), PlanError, "expected table.key"),
        (Vary(key="inject.length", values=(3,)), PlanError, r"\[inject\] of this plan has no key 'length'"),
        (Vary(key="federation.epochs", values=(1, 0)), PlanError, r"federation\.epochs = 0: .*expected int >= 1"),
        (Vary(key="federation.epochs", values=("two",)), PlanError, r"federation\.epochs = 'two': .*expected int"),
        (Vary(key="population.users", values=(9, 90)), DataError, r"population\.users = 90: .*15"),
        (Vary(key="federation.lr", values=(0.1, 0.2, 0.1)), PlanError, r"federation\.lr: entry 3 repeats entry 1"),
        (Vary(key="federation.lr", values=(1.0,), metrics=("tpo1",)), PlanError, "metric 'tpo1'; did you mean 'top1'"),
    ],
)
def test_a_bad_key_or_value_is_named_before_anything_is_trained(
    look: Vary, error: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        made(look, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_audit_refuses_a_bad_value_before_it_trains_the_plans_own(fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        TINY + '[[analysis]]\nname = "vary"\nkey = "federation.rounds"\nvalues = [5, -5]\n'
    )
    done = fedleak("audit", "bad.toml", "--out", "out")
    assert done.returncode == 1 and "federation.rounds = -5" in done.stderr
    assert not (tmp_path / "out").exists()


def test_secrets_that_stand_more_often_in_the_text_leak_more(tmp_path: Path) -> None:
    plan = secrets_plan(tmp_path)
    found = made(Vary(key="dataset.insertions", values=(1, 6)), tmp_path / "out", plan)
    assert [figure.y_label for figure in found.figures] == ["top-1", "edit distance", "bpc"]
    for figure, word, hardest in zip(found.figures, ("highest", "lowest"), (max, min), strict=False):
        baseline, eavesdrop, chance = figure.series
        assert (baseline.name, eavesdrop.name, chance.name) == (
            "exposure-baseline",
            "eavesdrop",
            f"{word} chance of these",
        )
        levels = [
            [float(str(row[6])) for row in found.rows if row[0] == value and row[2] == figure.y_label]
            for value in ("1", "6")
        ]
        assert chance.y == [hardest(level) for level in levels]
    top, distance = (figure.series[1].y for figure in found.figures[:2])
    assert top[1] > top[0] and distance[1] < distance[0]
    assert "eavesdrop, top-1" in found.text and "edit distance" not in found.text

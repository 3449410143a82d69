"""Tables as they come: other separators, missing values, many columns, dates of several kinds, absurd values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.errors import DataError
from fedleak.plan.configure import configure
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.rows import read_rows
from fedleak.population.datasets.table import TableDataset
from fedleak.population.prepare import prepare


def table(path: Path, **settings: Any) -> TableDataset:
    given: dict[str, Any] = {"features": ["a", "b"], "label": "y", "standardise": False, **settings}
    return configure(TableDataset, {"path": str(path), **given}, "plan")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_from_the_header(file: Path, separator: str) -> None:
    file.write_text("user,a,b,y\nann,1,2,x\nbob,3,4,z\n".replace(",", separator))
    assert table(file).load(0).users[1].examples.x.tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("name", "separator", "given"), [("a.csv", "\t", "tab"), ("a.csv", ":", ":"), ("a.tsv", "\t", "auto")]
)
def test_the_separator_can_be_given(tmp_path: Path, name: str, separator: str, given: str) -> None:
    path = tmp_path / name
    path.write_text("user,a,b,y\nann,1,2,x\nbob,3,4,z\n".replace(",", separator))
    assert table(path, separator=given).load(0).users[1].examples.x.tolist() == [[3, 4]]


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n"])
def test_a_separator_of_no_or_many_characters_is_refused(file: Path, separator: str) -> None:
    with pytest.raises(DataError, match="expected one character, tab or auto"):
        table(file, separator=separator).load(0)


MISSING = "user,a,b,y\nann,1,?,x\nann,NA,,x\nbob,3,4,\nbob,5,6,z\nbob,7,8,x\n"


def test_all_missing_values_are_counted_in_one_line(file: Path) -> None:
    file.write_text(MISSING)
    with pytest.raises(DataError) as caught:
        table(file).load(0)
    assert str(caught.value) == (
        f"{file}: 4 missing values in 3 of 5 rows ('b' 2, 'a' 1, 'y' 1; first: line 2, column 'b'); "
        'set missing = "drop", "mean" or "indicator" in [dataset], or fill them in'
    )


@pytest.mark.parametrize(
    ("missing", "rows"),
    [
        ("drop", {"bob": [[5, 6], [7, 8]]}),
        ("mean", {"ann": [[1, 7], [13 / 3, 7]], "bob": [[5, 6], [7, 8]]}),
        ("indicator", {"ann": [[1, 7, 0, 1], [13 / 3, 7, 1, 1]], "bob": [[5, 6, 0, 0], [7, 8, 0, 0]]}),
    ],
)
def test_missing_values_are_dropped_filled_or_marked(file: Path, missing: str, rows: dict[str, Any]) -> None:
    file.write_text(MISSING)
    population = table(file, missing=missing).load(0)
    assert {user.id: user.examples.x.tolist() for user in population.users} == {
        user: [pytest.approx(row) for row in values] for user, values in rows.items()
    }
    (finding,) = population.findings
    assert (finding.kind, finding.count, finding.action) == ("missing", 4, missing)
    assert f"{3 if missing == 'drop' else 1} row" in finding.text  # a label cannot be filled in


def test_columns_and_tables_without_any_value_are_refused(file: Path) -> None:
    file.write_text("user,a,b,y\nann,1,,x\nbob,2,,z\n")
    with pytest.raises(DataError, match="column 'b' has no values at all"):
        table(file, missing="mean").load(0)
    with pytest.raises(DataError, match="no complete row is left"):
        table(file, missing="drop").load(0)


def test_texts_have_no_mean_but_may_be_dropped(file: Path) -> None:
    file.write_text("user,t,y\nann,hello there,x\nann, ,x\nbob,good day,z\n")
    with pytest.raises(DataError, match=r'1 missing value in 1 of 3 rows.*set missing = "drop" in'):
        table(file, features=[], text="t").load(0)
    with pytest.raises(DataError, match="missing = 'mean' is for features"):
        table(file, features=[], text="t", missing="mean").load(0)
    assert len(table(file, features=[], text="t", missing="drop").load(0).users[0].examples) == 1


@pytest.mark.parametrize(
    ("features", "chosen"),
    [("X*", [1, 2, 3]), ("*", [1, 2, 3, 9]), (["X[1]", "X*", "w"], [2, 1, 3, 9]), ("*2", [3])],
)
def test_a_star_stands_for_columns_without_another_use(file: Path, features: Any, chosen: list[float]) -> None:
    file.write_text("user,X0,X[1],X2,w,y,Xdate\nann,1,2,3,9,p,2024-01-01\nbob,1,2,3,9,q,2024-01-01\n")
    population = table(file, features=features, time="Xdate").load(0)
    assert population.users[0].examples.x.tolist() == [chosen]


def test_a_star_that_matches_nothing_is_refused(file: Path) -> None:
    file.write_text("user,a,b,y\nann,1,2,x\n")
    with pytest.raises(DataError, match=r"no column for features matches 'Z\*'; known: a, b"):
        table(file, features="Z*").load(0)


@pytest.mark.parametrize(
    ("times", "days"),
    [
        (("20240531", "19700102"), [19874, 1]),
        (("2024-05-31", "1970-01-02T12:00:00Z"), [19874, 1.5]),
        (("43200", "-86400.0"), [0.5, -1]),
        (("20240531", "NA"), [19874, np.nan]),
        (("1971", "2024"), [365, 19723]),
    ],
)
def test_dates_are_read_in_every_way_of_writing_them(file: Path, times: tuple[str, str], days: list[float]) -> None:
    file.write_text(f"user,a,b,y,t\nann,1,2,x,{times[0]}\nann,3,4,z,{times[1]}\n")
    read = table(file, time="t").load(0).users[0].examples.time
    assert read is not None
    np.testing.assert_array_equal(read, days)


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (("2024-05-31", "20240531"), "mixes dates like 20240531 (1, first in line 3) and dates like 2024-05-31 (1, "),
        (("2024-05-31", "2024"), "and years like 2024 (1, first in line 3); write all of them in one way"),
        (("2024-05-31", "1717113600"), "and seconds since 1970 (1, first in line 3); write all of them in one way"),
        (("31/05/2024", "01/06/2024"), "write 31/05/2024 as 2024-05-31 (2 such values in this column)"),
        (("1717113600000", "0"), "divide milliseconds by 1000"),
        (("20240231", "20240229"), "'20240231' is neither a date"),
    ],
)
def test_mixed_and_wrong_dates_are_reported(file: Path, times: tuple[str, str], says: str) -> None:
    file.write_text(f"user,a,b,y,t\nann,1,2,x,{times[0]}\nann,3,4,z,{times[1]}\n")
    with pytest.raises(DataError) as caught:
        table(file, time="t").load(0)
    assert says in str(caught.value)


def test_absurd_values_reach_the_findings_of_a_run(file: Path) -> None:
    rows = "".join(f"u{i % 4},{i},{1e30 if i == 7 else i % 5},{i % 2}\n" for i in range(80))
    file.write_text("user,a,b,y\n" + rows)
    findings = [f for f in prepare(table(file), PopulationPlan(), 0).findings if f.kind == "extreme"]
    assert [(f.count, f.action) for f in findings] == [(1, "keep")]
    assert "Column 'b' has 1 value" in findings[0].text
    assert "1e+30 in line 9" in findings[0].text


def test_equal_columns_and_heavy_tails_are_not_absurd(file: Path) -> None:
    rows = "".join(f"u{i % 4},0,{np.exp(i / 8)},{i % 2}\n" for i in range(80))
    file.write_text("user,a,b,y\n" + rows)
    assert table(file).load(0).findings == ()


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "stream.arrow"])
def test_parquet_and_arrow_give_what_csv_gives(tmp_path: Path, ending: str) -> None:
    arrow = pytest.importorskip("pyarrow", reason="fedleak[arrow] is not installed")
    from pyarrow import ipc, parquet

    columns = {"user": ["ann", "bob", "bob"], "a": [1.5, None, 3.0], "b": [True, False, True], "y": ["x", "z", "z"]}
    content, path = arrow.table(columns), tmp_path / f"rows.{ending}"
    if ending == "parquet":
        parquet.write_table(content, path)
    else:
        make = ipc.new_stream if ending.startswith("stream") else ipc.new_file
        with make(str(path), content.schema) as sink:
            sink.write_table(content)
    users = table(path, missing="drop").load(0).users
    assert [(user.id, user.examples.x.tolist()) for user in users] == [("ann", [[1.5, 1]]), ("bob", [[3, 1]])]
    with pytest.raises(DataError, match="first: row 2, column 'a'"):
        table(path).load(0)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"foreign", b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"rows\..*: cannot be read"):
            list(read_rows(path))
    with pytest.raises(DataError, match="no such file"):
        list(read_rows(tmp_path / f"none.{ending}"))


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"needs pyarrow; install fedleak\[arrow\], or save the table as CSV"):
        table(tmp_path / "rows.parquet").load(0)

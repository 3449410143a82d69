"""Tables as programs of all kinds write them: encodings, line ends, decimal commas, spreadsheets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.errors import DataError
from fedleak.population.datasets.table import TableDataset
from fedleak.population.population import Population

HEADER = "user,a,b,y\n"
ROWS = "".join(f"u{i % 3},{i}.5,{i % 7},{'xy'[i % 2]}\n" for i in range(12))


def load(folder: Path, content: str | bytes, name: str = "t.csv", **settings: Any) -> Population:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    chosen: dict[str, Any] = {"features": ("a", "b"), "label": "y", "standardise": False, **settings}
    return TableDataset(path=str(file), **chosen).load(0)


def refused(folder: Path, content: str | bytes, name: str = "t.csv", **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, content, name, **settings)
    said = str(caught.value)
    assert "\n" not in said
    return said.replace(f"{folder}/", "")


def values(found: Population) -> list[Any]:
    return [user.examples.x.tolist() for user in found.users]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + (HEADER + ROWS).encode(),
        (HEADER + ROWS).replace("\n", "\r\n"),
        (HEADER + ROWS).encode("utf-16"),
        (HEADER + ROWS).replace("\n", "\r\n").encode("utf-16-be").join([b"\xfe\xff", b""]),
        "sep=;\n" + (HEADER + ROWS).replace(",", ";"),
        "user, a, b, y\n" + ROWS.replace(",", ", "),
        HEADER + ROWS + "   \n\n",
    ],
    ids=["bom", "windows", "utf-16", "utf-16-be", "sep=", "spaces", "blank-lines"],
)
def test_the_same_table_is_read_however_a_program_wrote_it(tmp_path: Path, content: str | bytes) -> None:
    plain, other = load(tmp_path, HEADER + ROWS), load(tmp_path, content)
    assert values(plain) == values(other) and plain.outputs_named == other.outputs_named
    assert [user.id for user in plain.users] == [user.id for user in other.users]


def test_lines_are_counted_from_the_separator_line(tmp_path: Path) -> None:
    assert "t.csv, line 4, column 'a'" in refused(tmp_path, "sep=;\nuser;a;b;y\nu1;1;2;x\nu1;oops;2;y\n")


def test_spaces_around_a_name_make_no_other_user_or_class(tmp_path: Path) -> None:
    found = load(tmp_path, HEADER + 'anna,1,2,x\n"anna ",3,4, x\n ben,5,6,y\n')
    assert [user.id for user in found.users] == ["anna", "ben"] and found.outputs_named == ("x", "y")


def test_decimal_commas_are_read_where_the_plan_says_so(tmp_path: Path) -> None:
    found = load(tmp_path, "user;a;b;y\nu1;0,5;1.234,5;x\nu2;-2,25;7;y\n", decimal="comma")
    np.testing.assert_allclose(np.concatenate(values(found)), [[0.5, 1234.5], [-2.25, 7.0]])


def test_a_number_to_predict_may_have_a_decimal_comma(tmp_path: Path) -> None:
    found = load(tmp_path, "user;a;b;y\nu1;1;2;3,5\nu2;1;2;4,5\n", decimal="comma", task="regress")
    assert [user.examples.y.tolist() for user in found.users if user.examples.y is not None] == [[3.5], [4.5]]


def test_numbers_in_json_are_never_read_with_commas(tmp_path: Path) -> None:
    text = '{"user": "u1", "a": 1.5, "b": 2, "y": "x"}\n{"user": "u2", "a": "2,5", "b": true, "y": "z"}\n'
    found = load(tmp_path, text, "t.jsonl", decimal="comma")
    assert values(found) == [[[1.5, 2.0]], [[2.5, 1.0]]]


@pytest.mark.parametrize(
    ("content", "settings", "said"),
    [
        ("user;a;b;y\nu1;0,5;1;x\nu1;1,5;1;y\n", {}, """'0,5' is not a number; set decimal = "comma" in [dataset]"""),
        ("user;a;b;y\nu1;0,5;1;x\nu1;1.5;1;y\n", {"decimal": "comma"}, "'1.5' is not a number; decimal = \"comma\""),
        (HEADER + "u1,None,1,x\n", {}, "if it stands for an unknown value, leave it empty and set missing"),
        (HEADER + "u1,$12,1,x\n", {}, "t.csv, line 2, column 'a': '$12' is not a number"),
        ((HEADER + ROWS).replace("\n", "\r"), {}, "t.csv, line 1: line ends of old Macs (CR)"),
        ((HEADER + ROWS).encode("utf-16-le"), {}, "t.csv, line 1: a NUL byte"),
        (b"\xff\xfe" + (HEADER + ROWS).encode("utf-16-le")[:-1], {}, "t.csv: damaged UTF-16"),
        ((HEADER + "Jürgen,1,2,x\n").encode("latin-1"), {}, "t.csv, line 2: not UTF-8 (byte 0xfc)"),
        (b"PK\x03\x04rest", {}, "t.csv: a zip archive or an Excel file"),
        ("user, a,a,y\n" + ROWS, {}, "t.csv, line 1: column 'a' appears twice"),
        ("", {}, "t.csv: empty; expected a first line"),
        (HEADER, {}, "t.csv: no rows"),
        ("sep=;\n", {}, "t.csv: empty"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, content: str | bytes, settings: dict[str, Any], said: str
) -> None:
    assert said in refused(tmp_path, content, **settings)


def test_a_spreadsheet_is_named_as_one(tmp_path: Path) -> None:
    assert refused(tmp_path, b"PK", "t.xlsx") == "t.xlsx: a spreadsheet; save the sheet as CSV"


def test_an_array_of_json_is_told_apart_from_json_lines(tmp_path: Path) -> None:
    assert "write each object of the array on a line of its own" in refused(tmp_path, "[{}]", "t.jsonl")
    assert "a number with thousands of digits" in refused(tmp_path, '{"a": 1' + "0" * 5000 + "}", "t.jsonl")

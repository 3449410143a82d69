"""Anyone's rows, CSV or JSON lines; and every way in which a file can be wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.rows import read_rows
from fedleak.population.datasets.table import TableDataset
from fedleak.population.prepare import prepare

CSV = "user,a,b,label,when,trip,sex\nann,1,2,yes,2024-01-01,x,f\nann,3,4,no,2024-01-02,x,f\nbob,5,6.5,yes,,y,\n"

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def numbers(path: Path, **settings: Any) -> TableDataset:
    return TableDataset(path=str(path), features=("a", "b"), label="label", **settings)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    return path


def test_rows_become_users_with_features_labels_times_albums_and_attributes(file: Path) -> None:
    table = numbers(file, time="when", album="trip", attributes=("sex",), standardise=False)
    population = table.load(0)
    assert population.outputs_named == ("no", "yes")
    ann, bob = population.users
    assert ann.examples.x.tolist() == [[1, 2], [3, 4]]
    assert ann.examples.y is not None
    assert ann.examples.y.tolist() == [1, 0]
    assert ann.examples.time is not None
    assert ann.examples.time.tolist() == [19723, 19724]
    assert ann.attributes == {"sex": "f"}
    assert bob.attributes == {}
    assert bob.examples.time is not None
    assert np.isnan(bob.examples.time).all()
    assert bob.examples.album is not None


def test_features_are_standardised_over_everyone(file: Path) -> None:
    file.write_text("user,a,b,label\nann,1,7,x\nbob,3,7,y\n")
    users = numbers(file).load(0).users
    assert [user.examples.x.tolist() for user in users] == [[[-1, 0]], [[1, 0]]]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".ndjson"])
def test_every_kind_of_file_gives_the_same_population(tmp_path: Path, kind: str, ending: str) -> None:
    rows = list(csv.DictReader(io.StringIO(CSV)))
    text = CSV if kind == ".csv" else "".join(json.dumps(row) + "\n\n" for row in rows)
    path = tmp_path / f"rows{kind}{ending}"
    path.write_bytes(PACK[ending](b"\xef\xbb\xbf" + text.encode()))
    users = numbers(path, standardise=False).load(0).users
    assert [(user.id, user.examples.x.tolist()) for user in users] == [
        ("ann", [[1, 2], [3, 4]]),
        ("bob", [[5, 6.5]]),
    ]


def test_ratings_are_regressed_as_numbers(file: Path) -> None:
    population = TableDataset(path=str(file), task="regress", features=("a",), label="b").load(0)
    assert (population.task, population.outputs) == (Task.REGRESS, 1)
    labels = population.users[1].examples.y
    assert labels is not None
    assert labels.dtype == np.float32
    assert labels.tolist() == [6.5]


def test_text_for_next_token_is_split_into_sentences_that_stay_with_their_row(tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    posts = [("ann", "One two three. Four five six."), ("ann", "Seven eight nine."), ("bob", "One two three four.")]
    path.write_text("".join(json.dumps({"user": user, "body": body, "at": 86400}) + "\n" for user, body in posts))
    population = TableDataset(path=str(path), task="next-token", text="body", time="at", vocabulary=50, length=6).load(
        0
    )
    ann = population.users[0].examples
    assert ann.x.shape == (3, 6)
    assert ann.document is not None
    assert ann.document.tolist() == [0, 0, 1]
    assert ann.time is not None
    assert ann.time.tolist() == [1, 1, 1]
    assert ann.y is None
    assert population.outputs == len(population.outputs_named)
    assert ann.fingerprint is not None
    assert (ann.fingerprint[0] == ann.fingerprint[1]).all()


def test_text_for_a_class_stays_one_row_and_is_cut_to_length(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text('user,body,label\nann,"Buy, now! Really. Do it",10\nbob,hello,9\n')
    population = TableDataset(path=str(path), text="body", label="label", length=4).load(0)
    assert [user.examples.x.shape for user in population.users] == [(1, 4), (1, 4)]
    assert population.outputs_named == ("9", "10")
    assert (population.users[1].examples.x[0, 1:] == 0).all()


def test_names_with_html_and_odd_characters_survive(tmp_path: Path) -> None:
    names = ["<b onclick=x>&amp;</b>", 'quo"te, comma', "emoji \U0001f600 \u202e", "../../etc", " spaced "]
    path = tmp_path / "odd.csv"
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["user", "a", "b", "label"])
        for i, name in enumerate(names):
            rows.writerows([[name, i, j, j % 2] for j in range(10)])
    prepared = prepare(numbers(path), PopulationPlan(), 0)
    assert [share.user.id for share in prepared.shares] == [name.strip() for name in names]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "user,a,b,label\nann,1,2,x\nann,,2,x\n",
            "1 missing value in 1 of 2 rows ('a' 1; first: line 3, column 'a'); set missing =",
        ),
        ("user,a,b,label\nann,1,2,x\n ,1,2,x\n", "first: line 3, column 'user'"),
        ("user,a,b,label\nann,1,2,\n", "first: line 2, column 'label'"),
        ("user,a,b,label\nann,1,NaN,x\n", "first: line 2, column 'b'"),
        ("user,a,b,label\nann,1,-inf,x\n", "line 2, column 'b': '-inf' is not a finite number"),
        ("user,a,b,label\nann,1,1e39,x\n", "line 2, column 'b': '1e39' is too large"),
        ("user;a;b;label\nann;1;2,5;x\n", "line 2, column 'b': '2,5' is not a number; set decimal = \"comma\""),
        ("user,a,b,label\nann,1,x,x\nann,1,y,x\n", "'x' is not a number (2 such values in this column)"),
        ("user,a,b,label\nann,1,two,x\n", "line 2, column 'b': 'two' is not a number"),
        ("user,a,b,label\nann,1,1_000,x\n", "line 2, column 'b': '1_000' is not a number"),
        ("user,a,b,label\nann,1,2,x\nann,1,2\n", "line 3: 3 values for 4 columns"),
        ("user,a,b,label\nann,1,2,x,y\n", "line 2: 5 values for 4 columns"),
        ("user,a,a,label\nann,1,2,x\n", "line 1: column 'a' appears twice"),
        ("user,a,c,label\nann,1,2,x\n", "no column 'b'"),
        ("usr,a,b,label\nann,1,2,x\n", "no column 'user'; did you mean 'usr'?"),
        ("", "empty; expected a first line"),
        ("user,a,b,label\n", "no rows"),
        ("user,a,b,label\nann,1,2,x\nbob,1,2,x\n", "column 'label': every label is 'x'"),
        ('user,a,b,label\nann,1,2,"x\n', "line 2: unexpected end of data"),
        (b"user,a,b,label\nann,1,2,x\n" + b"bob,1,2,caf\xe9\n", "line 3: not UTF-8 (byte 0xe9)"),
    ],
)
def test_a_wrong_csv_is_an_error_with_file_line_and_column(file: Path, content: str | bytes, says: str) -> None:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        numbers(file).load(0)
    assert str(file) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"user": "ann", "a": 1', "not JSON"),
        ("[1, 2]", "expected an object"),
        ('{"user": "ann", "a": 1, "a": 2, "b": 1, "label": "x"}', "key 'a' appears twice"),
        ('{"user": "ann", "a": NaN, "b": 1, "label": "x"}', "column 'a'"),
        ('{"user": "ann", "a": [1], "b": 1, "label": "x"}', "column 'a': expected text or a number, got list"),
        ('{"user": null, "a": 1, "b": 1, "label": "x"}', "column 'user'"),
        ('{"user": "ann", "a": 1, "label": "x"}', "column 'b'"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_wrong_json_line_is_an_error_with_its_number(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"user": "ann", "a": 1, "b": 2, "label": "y"}\n' + line + "\n")
    with pytest.raises(DataError) as caught:
        numbers(path).load(0)
    assert "rows.jsonl" in str(caught.value)
    assert "line 2" in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows.csv{ending}"
    whole = PACK[ending](CSV.encode() * 50)
    for data in (whole[: len(whole) // 2], b"foreign"):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"rows\.csv.*cannot be read"):
            numbers(path).load(0)


def test_missing_files_folders_and_unknown_kinds_are_named(tmp_path: Path) -> None:
    for name, says in (
        ("none.csv", "no such file"),
        ("table.xlsx", "a spreadsheet"),
        ("table.txt", "unknown kind"),
        ("none.csv.gz", "no such file"),
    ):
        with pytest.raises(DataError, match=rf"{name}: {says}"):
            numbers(tmp_path / name).load(0)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv: cannot be read"):
        numbers(tmp_path / "folder.csv").load(0)


def test_a_time_that_is_no_time_is_refused(file: Path) -> None:
    file.write_text("user,a,b,label,when\nann,1,2,x,yesterday\n")
    with pytest.raises(DataError, match="line 2, column 'when': 'yesterday' is neither a date"):
        numbers(file, time="when").load(0)


def test_a_user_with_two_values_of_an_attribute_is_refused(file: Path) -> None:
    file.write_text("user,a,b,label,sex\nann,1,2,x,f\nann,1,3,y,m\n")
    with pytest.raises(DataError, match="line 3, column 'sex': user 'ann' had 'f' before"):
        numbers(file, attributes=("sex",)).load(0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "set either text or features"),
        ({"text": "t", "features": ("a",)}, "set either text or features"),
        ({"features": ("a",), "task": "next-token"}, "needs a text column"),
        ({"features": ("a",)}, "task = 'classify' needs labels"),
        ({"text": "t", "task": "regress"}, "task = 'regress' needs labels"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(file: Path, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        TableDataset(path=str(file), **settings).load(0)


@given(st.binary(max_size=300))
def test_any_bytes_give_rows_or_an_explained_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("any.csv", "any.jsonl", "any.csv.gz", "any.jsonl.xz"):
        (folder / name).write_bytes(data)
        try:
            rows = list(read_rows(folder / name))
        except DataError as error:
            assert name in str(error)
        else:
            assert all(row.line >= 1 for row in rows)

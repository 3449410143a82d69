from __future__ import annotations

import io
import os
import stat
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Task, UserId
from fedleak.errors import FedleakError, TraceError
from fedleak.population.population import Examples
from fedleak.trace.files import private_folder, write_atomic
from fedleak.trace.prior import Prior
from fedleak.trace.sealed import seal
from fedleak.trace.truth import Truth

ANN, BOB = UserId("<b>ann</b>"), UserId("bob/../../x")


def _truth() -> Truth:
    return Truth(
        users=(ANN, BOB),
        client_user={"d-1": ANN, "d-2": BOB, "d-3": BOB},
        attributes={ANN: {"age": "30"}, BOB: {}},
        class_counts={ANN: [1, 2], BOB: [0, 3]},
    )


def _prior() -> Prior:
    return Prior(
        candidates=(ANN, BOB),
        examples=(
            Examples(x=np.ones((2, 1, 3, 3), np.float32), y=np.array([0, 1]), time=np.array([1.0, np.nan])),
            Examples(x=np.zeros((1, 1, 3, 3), np.float32), y=np.array([1]), time=np.array([2.5])),
        ),
        task=Task.CLASSIFY,
        outputs=2,
    )


def test_the_truth_comes_back_as_it_was(tmp_path: Path) -> None:
    _truth().save(tmp_path / "truth")
    assert Truth.load(tmp_path / "truth") == _truth()
    without = Truth(users=(ANN,), client_user={}, attributes={}, class_counts=None)
    without.save(tmp_path / "truth")
    assert Truth.load(tmp_path / "truth") == without


def test_the_prior_comes_back_as_it_was(tmp_path: Path) -> None:
    _prior().save(tmp_path / "prior")
    found = Prior.load(tmp_path / "prior")
    assert (found.candidates, found.task, found.outputs) == ((ANN, BOB), Task.CLASSIFY, 2)
    for one, other in zip(found.examples, _prior().examples, strict=True):
        for name in ("x", "y", "time"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype
        assert (one.album, one.document, one.fingerprint) == (None, None, None)


def test_only_the_owner_may_read_truth_and_prior(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _truth().save(tmp_path / "truth")
        _prior().save(tmp_path / "prior")
    finally:
        os.umask(before)
    for folder in (tmp_path / "truth", tmp_path / "prior"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_truth_about_strangers_is_refused(tmp_path: Path) -> None:
    _truth().save(tmp_path)
    content = {"users": ["ann"], "client_user": {"d-1": "eve"}, "attributes": {}, "class_counts": None}
    seal(tmp_path / "truth.json", "fedleak-truth", 1, content)
    with pytest.raises(TraceError, match="'eve'"):
        Truth.load(tmp_path)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_in_truth_or_prior_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("run")
    _truth().save(folder)
    _prior().save(folder)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    flipped = bytearray(path.read_bytes())
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    try:
        truth, prior = Truth.load(folder), Prior.load(folder)
    except TraceError as error:
        assert path.name in str(error)
        return
    assert path.suffix == ".json"  # white space after the end
    assert truth == _truth()
    assert prior.candidates == _prior().candidates


def _forge(folder: Path, array: bytes, **changes: Any) -> None:
    """A prior that is consistent in itself, made by somebody who means harm."""
    _prior().save(folder)
    (folder / "x.npy").write_bytes(array)
    content = msgspec.json.decode((folder / "prior.json").read_bytes())["content"]
    content["columns"]["x"] = zlib.crc32(array)
    seal(folder / "prior.json", "fedleak-prior", 1, {**content, **changes})


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}, None, 3], dtype=object), allow_pickle=True)
    _forge(tmp_path, buffer.getvalue())
    with pytest.raises(TraceError, match=r"x\.npy is not an array that Fedleak wrote"):
        Prior.load(tmp_path)


def test_an_array_that_promises_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (3, 10**12)})
    _forge(tmp_path, buffer.getvalue())
    with pytest.raises(TraceError, match=r"x\.npy is not an array that Fedleak wrote"):
        Prior.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [2, 2]}, r"rows"),
        ({"counts": [3]}, r"the number of examples of every candidate"),
        ({"counts": [4, -1]}, r"prior\.json"),
        ({"candidates": ["ann", "ann"]}, r"the number of examples of every candidate"),
        ({"columns": {"../x": 1}}, r"columns"),
        ({"columns": {"y": 1}}, r"columns"),
    ],
)
def test_a_prior_whose_parts_do_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones((3, 1), np.float32))
    _forge(tmp_path, buffer.getvalue(), **changes)
    with pytest.raises(TraceError, match=message):
        Prior.load(tmp_path)


def test_candidates_with_different_columns_are_refused(tmp_path: Path) -> None:
    mixed = Prior(
        candidates=(ANN, BOB),
        examples=(Examples(x=np.ones((1, 2), np.float32), y=np.array([1])), Examples(x=np.ones((1, 2), np.float32))),
        task=Task.CLASSIFY,
        outputs=2,
    )
    with pytest.raises(ValueError, match="'y'"):
        mixed.save(tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.json", b"old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FedleakError, match="cannot write"):
        write_atomic(tmp_path / "folder", b"new")  # a file cannot replace a folder: the last step fails
    with pytest.raises(FedleakError, match=r"cannot write .*No such file"):
        write_atomic(tmp_path / "missing" / "a.json", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "folder"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_a_file_in_the_place_of_a_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(FedleakError, match=r"--out"):
        private_folder(tmp_path / "out")
    with pytest.raises(FedleakError, match=r"--out"):
        private_folder(tmp_path / "out" / "trace")

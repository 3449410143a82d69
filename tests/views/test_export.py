"""The folder that a confined attack is given: the same view, and not a byte more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filmed import Run, everything, film

from fedleak.core import Observation
from fedleak.errors import NotVisible, TraceError
from fedleak.trace.header import Header
from fedleak.views.adversaries import ANONYMOUS_SERVER, EAVESDROPPER, INSIDER, SERVER, Adversary, everyone
from fedleak.views.export import export_view
from fedleak.views.view import View

RUN = Run(6, ((0, 3, 5), (5, 1, 0), (2, 4, 3), (3, 0, 1)))
PERMITTED = {
    Observation.SNAPSHOTS: {"snapshots.bin"},
    Observation.UPDATES: {"update-000.bin", "update-001.bin"},
    Observation.LINKS: {"client.bin"},
    Observation.SELECTION: set(),  # handed over apart: the column of clients would link updates to them
    Observation.AGGREGATE: {"aggregates.bin"},
    Observation.SIZES: {"size.bin"},
    Observation.MODEL: {"snapshots.bin"},  # of which only the last is not a hole
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return film(tmp_path / "trace", RUN)


def exported(view: View, folder: Path) -> View:
    return View(folder, **export_view(view, folder))


def shown(view: View) -> list[Any]:
    """Everything but handles, which are fresh for an adversary without links."""
    seen = everything(view)
    if Observation.UPDATES in view.adversary.observations and Observation.LINKS not in view.adversary.observations:
        seen.remove(view.updates.handle.tobytes())
        assert len(set(view.updates.handle.tolist())) == len(view.updates)
    return seen


@pytest.mark.parametrize("adversary", everyone(), ids=lambda adversary: adversary.name)
def test_the_folder_shows_the_same_and_holds_only_permitted_files(
    trace: Path, tmp_path: Path, adversary: Adversary
) -> None:
    view = View(trace, adversary)
    again = exported(view, tmp_path / "view")
    assert shown(again) == shown(view)
    permitted = set[str]().union(*(PERMITTED[seen] for seen in view._observations))
    assert {path.name for path in (tmp_path / "view").iterdir()} == permitted | {"header.json", "log"}


def test_hidden_rows_are_not_in_the_folder(trace: Path, tmp_path: Path) -> None:
    rows = np.array([1, 2, 5, 8, 9])
    view = View(trace, SERVER, np.arange(5), rows=rows)
    again = exported(view, tmp_path / "view")
    np.testing.assert_array_equal(again.updates.shadow, np.arange(5))
    for layer in view.layout:
        np.testing.assert_array_equal(again.updates.layer(layer.name), view.updates.layer(layer.name))
        size = (tmp_path / "view" / "update-000.bin").stat().st_size
        assert size == len(rows) * 4 * view.layout[0].size
    np.testing.assert_array_equal(again.updates.round, view.updates.round)
    np.testing.assert_array_equal(again.updates.handle, view.updates.handle)
    assert [again.selection(t) for t in range(1, 5)] == [view.selection(t) for t in range(1, 5)]


def test_snapshots_between_are_not_in_the_folder(trace: Path, tmp_path: Path) -> None:
    view = View(trace, EAVESDROPPER, every=3)
    again = exported(view, tmp_path / "view")
    assert everything(again) == everything(view)
    row = (trace / "snapshots.bin").stat().st_size // 5
    stored = (tmp_path / "view" / "snapshots.bin").read_bytes()
    assert stored[row : 3 * row] == bytes(2 * row)


def test_sums_of_rounds_do_not_give_the_snapshots_between(trace: Path, tmp_path: Path) -> None:
    exported(View(trace, SERVER, every=3), tmp_path / "view")
    assert not (tmp_path / "view" / "aggregates.bin").exists()


def test_participation_in_the_wrong_order_cannot_be_put_right(trace: Path, tmp_path: Path) -> None:
    view = View(trace, EAVESDROPPER, shuffled=np.random.default_rng(3))
    again = exported(view, tmp_path / "view")
    assert [again.selection(t) for t in range(1, 5)] == [view.selection(t) for t in range(1, 5)]
    assert not (tmp_path / "view" / "client.bin").exists()


def test_the_header_is_without_the_plan_and_the_defences(trace: Path, tmp_path: Path) -> None:
    exported(View(trace, ANONYMOUS_SERVER), tmp_path / "view")
    header = Header.load(tmp_path / "view")
    assert (header.fingerprint, header.defences, header.clients, header.tampering) == ("view", (), (), ())


def test_injected_records_go_along_as_they_were_told(trace: Path, tmp_path: Path) -> None:
    marks = {"d-0": "abc", "d-1": "xyz"}
    view = View(trace, INSIDER, injected=marks, shuffled=np.random.default_rng(1))
    assert exported(view, tmp_path / "view").injected == view.injected


def test_a_damaged_byte_is_still_found_there(trace: Path, tmp_path: Path) -> None:
    view = View(trace, ANONYMOUS_SERVER)
    again = exported(view, tmp_path / "view")
    path = tmp_path / "view" / "update-000.bin"
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)
    with pytest.raises(TraceError, match="damaged"):
        again.updates.layer(view.layout[0].name)
    with pytest.raises(NotVisible):
        _ = again._trace.client

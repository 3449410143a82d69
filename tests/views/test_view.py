from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filmed import LAYOUT, Run, everything, film, model, rows, runs, shadows
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Capability, Observation
from fedleak.errors import NotVisible, TraceError
from fedleak.views.adversaries import (
    AGGREGATE_SERVER,
    ANONYMOUS_SERVER,
    EAVESDROPPER,
    GLOBAL_MODEL_CLIENT,
    INSIDER,
    SERVER,
    Adversary,
    everyone,
)
from fedleak.views.view import View

RUN = Run(6, ((0, 3, 5), (5, 1, 0), (2, 4, 3), (3, 0, 1)))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return film(tmp_path / "trace", RUN)


@settings(max_examples=60, deadline=None)
@given(run=runs(), dtype=st.sampled_from(["float32", "float16"]))
def test_every_update_is_seen_once_with_its_round_and_values(run: Run, dtype: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = film(Path(name) / "trace", run, dtype=dtype)
        for adversary in (SERVER, ANONYMOUS_SERVER):
            updates = View(folder, adversary).updates
            assert len(updates) == len(run.senders)
            counts = [len(present) for present in run.present]
            np.testing.assert_array_equal(updates.round, np.repeat(np.arange(1, len(counts) + 1), counts))
            np.testing.assert_array_equal(updates.shadow, np.array(shadows(run.clients))[run.senders])
            for layer in LAYOUT:
                expected = rows(0, len(run.senders))[layer.name]
                found = updates.layer(layer.name)
                assert found.dtype == np.float32
                assert not found.flags.writeable
                np.testing.assert_array_equal(found, expected)
                blocks = list(updates.blocks(layer.name, 3))
                assert all(len(block) <= 3 for block in blocks)
                np.testing.assert_array_equal(np.concatenate([*blocks, np.empty((0, layer.size))]), expected)


@settings(max_examples=60, deadline=None)
@given(run=runs())
def test_anonymous_updates_cannot_be_joined_across_rounds(run: Run) -> None:
    with tempfile.TemporaryDirectory() as name:
        updates = View(film(Path(name) / "trace", run), ANONYMOUS_SERVER).updates
        handles = updates.handle
        assert handles.dtype == np.uint64
        assert len(set(handles.tolist())) == len(handles)


@settings(max_examples=60, deadline=None)
@given(run=runs(), data=st.data())
def test_an_anonymous_view_is_the_same_whoever_sent_the_updates(run: Run, data: st.DataObject) -> None:
    """Swap the users' clients in every round in any way: the anonymous server's bytes do not change."""
    with tempfile.TemporaryDirectory() as name:
        one = film(Path(name) / "one", run)
        swapped = []
        for present in run.present:
            others = [client for client in range(run.clients) if client % 2]
            drawn = iter(data.draw(st.permutations(others)))
            swapped.append(tuple(next(drawn) if client % 2 else client for client in present))
        other = film(Path(name) / "other", replace(run, present=tuple(swapped)))
        assert everything(View(one, ANONYMOUS_SERVER)) == everything(View(other, ANONYMOUS_SERVER))


@settings(max_examples=60, deadline=None)
@given(run=runs())
def test_the_servers_handles_stay_with_their_clients(run: Run) -> None:
    with tempfile.TemporaryDirectory() as name:
        updates = View(film(Path(name) / "trace", run), SERVER).updates
        same_handle = updates.handle[:, None] == updates.handle[None, :]
        same_client = run.senders[:, None] == run.senders[None, :]
        np.testing.assert_array_equal(same_handle, same_client)
        assert updates.size is not None
        np.testing.assert_array_equal(updates.size, run.senders + 100)


def test_snapshots_sums_and_selection_are_those_of_their_round(trace: Path) -> None:
    view = View(trace, SERVER)
    assert view.rounds == 4
    assert view.settings == {"lr": 0.5, "model": "mlp"}
    for number in range(5):
        np.testing.assert_array_equal(view.snapshot(number)["out"], model(number)["out"])
    for number in range(1, 5):
        np.testing.assert_array_equal(view.aggregate(number)["in"], model(-number)["in"])
    assert view.selection(2) == ("d-0", "d-1", "d-5")  # not in the order of the updates


def test_a_shuffled_selection_tells_of_every_round_in_another_order(trace: Path) -> None:
    right = View(trace, EAVESDROPPER)
    order = np.random.default_rng(3).permutation(right.rounds)
    shuffled = View(trace, EAVESDROPPER, shuffled=np.random.default_rng(3))
    assert not np.array_equal(order, np.arange(right.rounds))
    for number in range(1, right.rounds + 1):
        assert shuffled.selection(number) == right.selection(int(order[number - 1]) + 1)
        np.testing.assert_array_equal(shuffled.snapshot(number)["out"], right.snapshot(number)["out"])


@pytest.mark.parametrize("adversary", everyone(), ids=lambda adversary: adversary.name)
def test_injected_records_are_shown_only_to_who_has_the_power(trace: Path, adversary: Adversary) -> None:
    marks = {"d-0": "x7q2", "d-3": "k9w4"}
    view = View(trace, adversary, injected=marks)
    if Capability.INJECT in adversary.capabilities:
        assert view.injected == marks
    else:
        with pytest.raises(NotVisible, match="lacks the capability to inject"):
            _ = view.injected
        assert not any("x7q2" in str(value) for value in vars(view).values())


def test_in_the_control_every_injected_record_is_said_to_be_elsewhere(trace: Path) -> None:
    marks = {f"d-{number}": f"mark {number}" for number in range(5)}
    for seed in range(20):
        told = View(trace, INSIDER, injected=marks, shuffled=np.random.default_rng(seed)).injected
        assert sorted(told.values()) == sorted(marks.values())
        assert all(told[client] != mark for client, mark in marks.items())


def test_who_sees_updates_and_selection_cannot_join_them_by_position(tmp_path: Path) -> None:
    onlooker = Adversary(name="onlooker", observations=Observation.UPDATES | Observation.SELECTION, summary="")
    one = View(film(tmp_path / "one", Run(4, ((1, 3, 0),))), onlooker)
    other = View(film(tmp_path / "other", Run(4, ((3, 1, 0),))), onlooker)
    assert everything(one) == everything(other)


def test_the_trace_behind_a_view_refuses_what_the_view_refuses(trace: Path) -> None:
    behind = View(trace, ANONYMOUS_SERVER)._trace
    for reach in (lambda: behind.client, lambda: behind.size, lambda: list(behind.dropped()), behind.verify):
        with pytest.raises(NotVisible):
            reach()


@pytest.mark.parametrize(
    ("adversary", "ask", "missing", "able"),
    [
        (GLOBAL_MODEL_CLIENT, lambda view: view.updates, "updates", "server, anonymous-server"),
        (EAVESDROPPER, lambda view: view.aggregate(1), "aggregate", "server, anonymous-server, aggregate-server"),
        (ANONYMOUS_SERVER, lambda view: view.selection(1), "selection", "server, eavesdropper, aggregate-server"),
        (AGGREGATE_SERVER, lambda view: view.updates, "updates", "server, anonymous-server"),
        (
            Adversary(name="nobody", observations=Observation.NONE, summary=""),
            lambda view: view.snapshot(0),
            "snapshots",
            "server",
        ),
    ],
)
def test_asking_for_more_names_the_adversary_the_sight_and_who_has_it(
    trace: Path, adversary: Adversary, ask: Any, missing: str, able: str
) -> None:
    message = (
        rf"adversary '{adversary.name}' does not see {missing} \(.+\)\.\n  Choose one that does: {re.escape(able)}"
    )
    with pytest.raises(NotVisible, match=message):
        ask(View(trace, adversary))


def test_a_server_that_is_not_told_sizes_has_none_where_it_cannot_compute_them(trace: Path) -> None:
    assert View(trace, ANONYMOUS_SERVER).updates.size is None  # this trace does not say how its mean is weighted


def test_nobody_sees_updates_that_the_channel_summed(tmp_path: Path) -> None:
    folder = film(tmp_path / "trace", RUN, holds_updates=False)
    with pytest.raises(NotVisible, match="only sums"):
        _ = View(folder, SERVER).updates
    assert View(folder, SERVER).aggregate(1)["in"].shape == (4,)


def test_an_unfinished_run_is_not_attacked(tmp_path: Path) -> None:
    folder = film(tmp_path / "trace", RUN, rounds=9)
    with pytest.raises(TraceError, match="4 of 9 rounds"):
        View(folder, SERVER)


def test_a_view_leaves_its_arrays_unchanged(trace: Path) -> None:
    updates = View(trace, SERVER).updates
    assert updates.size is not None
    for values in (updates.round, updates.handle, updates.shadow, updates.size, updates.layer("in")):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    snapshot = View(trace, SERVER).snapshot(1)
    snapshot["in"][:] = 9
    np.testing.assert_array_equal(View(trace, SERVER).snapshot(1)["in"], model(1)["in"])


def test_a_damaged_layer_is_found_before_an_attack_uses_it(trace: Path) -> None:
    data = bytearray((trace / "update-001.bin").read_bytes())
    data[7] ^= 64
    (trace / "update-001.bin").write_bytes(data)
    updates = View(trace, SERVER).updates
    updates.layer("in")
    with pytest.raises(TraceError, match=r"update-001\.bin is damaged in round 1"):
        updates.layer("out")


def test_an_update_that_is_there_for_the_experiment_only_is_not_in_the_view(trace: Path) -> None:
    rows = np.array([0, 2, 3, 7, 11])
    whole, part = View(trace, SERVER).updates, View(trace, SERVER, rows=rows).updates
    assert len(part) == 5
    for column in ("round", "handle", "shadow", "size"):
        np.testing.assert_array_equal(getattr(part, column), getattr(whole, column)[rows])
    np.testing.assert_array_equal(part.layer("in"), whole.layer("in")[rows])
    for step in (1, 2, 5, 100):
        np.testing.assert_array_equal(np.concatenate(list(part.blocks("in", step))), part.layer("in"))


def test_what_is_hidden_cannot_be_found_by_its_checksum(trace: Path) -> None:
    # Few clients a round: whoever has the checksum of a column can try all its orders.
    behind = View(trace, ANONYMOUS_SERVER)._trace
    assert behind.header.clients == () and behind.header.shadow == ()
    tables = [table.observation for table in behind.header.tables()]
    for observation in ("client", "size", "notes"):
        assert not behind._log.crc[:, tables.index(observation)].any()
    assert View(trace, EAVESDROPPER)._trace.header.clients


def test_a_game_that_labels_updates_itself_keeps_the_real_labels_closed(trace: Path) -> None:
    view = View(trace, ANONYMOUS_SERVER, np.full(12, -1))
    assert (view.updates.shadow == -1).all()
    with pytest.raises(NotVisible):
        _ = view._trace.shadow

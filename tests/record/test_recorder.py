"""The recorder's core: what is in the folder, what is not, and that nothing ever gets out of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fedleak.record.key import Key, read_key
from fedleak.record.recorder import Recorder, Reply
from fedleak.record.state import RecorderState
from fedleak.trace.closed import Closed
from fedleak.trace.reader import Trace

Arrays = dict[str, npt.NDArray[Any]]


def weights(seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "fc.weight": rng.normal(size=(3, 4)).astype(np.float32),
        "fc.bias": rng.normal(size=3).astype(np.float32),
        "out.weight": rng.normal(size=(2, 3)).astype(np.float32),
    }


def replies(seed: int, clients: Sequence[int]) -> list[Reply]:
    return [Reply(client=f"node-{i}", arrays=weights(1000 * seed + i), examples=5 + i) for i in clients]


def a_round(recorder: Recorder, number: int, clients: Sequence[int], lost: Sequence[tuple[str, str]] = ()) -> None:
    recorder.sent(weights(number))
    recorder.received(replies(number, clients), lost, weights(number + 1))


def recorded(folder: Path, rounds: int = 3, **settings: Any) -> Trace:
    recorder = Recorder(folder, origin={"framework": "test"}, **settings)
    for number in range(rounds):
        a_round(recorder, number, range(number, number + 4))
    recorder.close()
    return Trace.open(folder / "trace")


def nodes(folder: Path) -> dict[str, str]:
    return {known.client: known.node for known in read_key(folder / "key")}


def test_updates_are_what_each_client_changed(tmp_path: Path) -> None:
    trace, who = recorded(tmp_path / "run"), nodes(tmp_path / "run")
    trace.verify()
    assert trace.rounds == 3 and trace.finished
    fc = trace.updates("fc")
    for row, (number, client) in enumerate(zip(trace.round, trace.client, strict=True)):
        sent = int(number) - 1
        place = int(who[trace.header.clients[client]].removeprefix("node-"))
        before, after = weights(sent), weights(1000 * sent + place)
        changed = np.concatenate([(after[n] - before[n]).ravel() for n in ("fc.weight", "fc.bias")])
        np.testing.assert_array_equal(fc[row], changed)
        assert trace.size[row] == 5 + place
    np.testing.assert_array_equal(trace.snapshot(2)["out"], weights(2)["out.weight"].ravel())


def test_the_mean_is_weighted_and_the_move_is_kept_beside_it(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "run")
    rows, share = trace.updates("out")[trace.span(2)], np.asarray(trace.size[trace.span(2)], dtype=np.float64)
    np.testing.assert_allclose(trace.aggregate(2)["out"], share @ rows / share.sum(), atol=1e-6)
    moved = trace.snapshot(2)["out"] - trace.snapshot(1)["out"]
    assert not np.allclose(moved, trace.aggregate(2)["out"])


def test_who_is_who_is_in_the_key_only(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recorder = Recorder(folder, origin={"framework": "test"})
    told = [Reply(client="node-77", arrays=weights(5), examples=3, partition="ward-9"), *replies(0, [1, 2])]
    recorder.sent(weights(0))
    recorder.received(told, [("node-88", "node-88 did not answer")], weights(1))
    recorder.close()
    for path in [*(folder / "trace").iterdir(), folder / "recorder.json"]:
        content = path.read_bytes()
        assert b"node-" not in content and b"ward-9" not in content, path.name
    known = {one.node: one.partition for one in read_key(folder / "key")}
    assert known == {"node-77": "ward-9", "node-1": None, "node-2": None, "node-88": None}
    [dropped] = Trace.open(folder / "trace").dropped()
    assert nodes(folder)[dropped.client] == "node-88" and dropped.why == f"{dropped.client} did not answer"
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_pseudonyms_and_order_differ_between_recordings(tmp_path: Path) -> None:
    names, orders = set(), set()
    for at in range(8):
        trace = recorded(tmp_path / str(at), rounds=1)
        who = nodes(tmp_path / str(at))
        names.add(frozenset(who))
        orders.add(tuple(who[trace.header.clients[index]] for index in trace.client))
    assert len(names) == 8 and len(orders) > 1


def test_a_second_start_appends_and_keeps_the_pseudonyms(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recorded(folder, rounds=2)
    first = nodes(folder)
    trace = recorded(folder, rounds=2)
    # Two rounds, one without clients that leads back to the first model, and two more.
    assert trace.rounds == 5 and np.bincount(trace.round, minlength=6).tolist() == [0, 4, 4, 0, 4, 4]
    assert nodes(folder) == first and len(trace.header.clients) == len(first)
    np.testing.assert_array_equal(trace.snapshot(3)["fc"][:12], weights(0)["fc.weight"].ravel())
    assert "round 3 has no clients" in RecorderState.load(folder).notes[0]


def test_clients_that_are_known_again_by_their_partition(tmp_path: Path) -> None:
    key = Key.open(tmp_path / "key")
    before, after = key.pseudonym("1", "3"), key.pseudonym("2", "3")
    again = Key.open(tmp_path / "key")
    assert before != after and again.pseudonym("1") == before and again.pseudonym("2", "3") == after
    with (tmp_path / "key" / "clients.jsonl").open("ab") as file:
        file.write(b'{"client":"c-00')
    assert Key.open(tmp_path / "key").pseudonym("5") and len(read_key(tmp_path / "key")) == 3


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_dtype_is_that_of_the_updates(tmp_path: Path, dtype: str) -> None:
    trace = recorded(tmp_path / "run", dtype=dtype)
    assert trace.updates("fc").dtype == np.dtype(dtype)


def test_an_update_that_float16_cannot_hold_ends_the_recording_with_advice(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"}, dtype="float16")
    recorder.sent(weights(0))
    with pytest.warns(
        UserWarning, match=r'more than float16 can hold.*dtype = "float32" as a parameter of the recorder'
    ):
        recorder.received([Reply(client="a", arrays=odd({"fc.bias": np.full(3, 1e6, np.float32)}), examples=1)])


def test_sums_hold_no_update_but_who_took_part(tmp_path: Path) -> None:
    trace, single = recorded(tmp_path / "run", sums=True), recorded(tmp_path / "single")
    assert not trace.header.holds_updates and len(trace.client) == 12
    np.testing.assert_allclose(trace.aggregate(1)["fc"], single.aggregate(1)["fc"], atol=1e-5)
    assert not list((tmp_path / "run" / "trace").glob("update-*"))


def test_one_update_for_all_clients_is_secure_aggregation(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    recorder.sent(weights(0))
    shown = weights(9)
    recorder.received([Reply(client=str(i), arrays=shown, examples=4) for i in range(3)], after=weights(1))
    recorder.close()
    trace = Trace.open(tmp_path / "run" / "trace")
    assert not trace.header.holds_updates and len(trace.client) == 3
    assert "secure aggregation" in RecorderState.load(tmp_path / "run").notes[0]


def test_clients_that_change_nothing_are_not_secure_aggregation(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    recorder.sent(weights(0))
    recorder.received([Reply(client=str(i), arrays=weights(0), examples=4) for i in range(3)])
    recorder.close()
    trace = Trace.open(tmp_path / "run" / "trace")
    assert trace.header.holds_updates and not trace.updates("fc").any()


def test_every_second_round_has_updates_and_every_round_a_model(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "run", rounds=5, every=2)
    assert trace.rounds == 5 and np.bincount(trace.round, minlength=6).tolist() == [0, 0, 4, 0, 4, 0]
    np.testing.assert_array_equal(trace.snapshot(3)["out"], weights(3)["out.weight"].ravel())
    assert trace.aggregate(3)["fc"].any()


def test_layers_that_are_not_recorded_take_no_space(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "run", layers=["out"])
    trace.verify()
    assert trace.header.unrecorded == ("fc",) and not trace.updates("fc").any() and trace.updates("out").any()
    assert (tmp_path / "run" / "trace" / "update-000.bin").stat().st_blocks == 0
    assert trace.snapshot(1)["fc"].any() and trace.aggregate(1)["fc"].any()


def odd(change: Mapping[str, Any]) -> Arrays:
    return {**weights(3), **change}


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (odd({"fc.bias": np.array([1, np.nan, 2], np.float32)}), "not finite"),
        (odd({"fc.bias": np.array([1, np.inf, 2], np.float32)}), "not finite"),
        (odd({"fc.bias": np.zeros(4, np.float32)}), r"'fc.bias' has the shape \(4,\); it was \(3,\) before"),
        (odd({"fc.bias": np.zeros(3, np.int8)}), "no longer an array of weights"),
    ],
)
def test_a_reply_that_is_no_update_is_dropped_with_the_reason(tmp_path: Path, arrays: Arrays, why: str) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    recorder.sent(weights(0))
    recorder.received([Reply(client="odd", arrays=arrays, examples=9), *replies(0, [1, 2])], after=weights(1))
    recorder.close()
    trace = Trace.open(tmp_path / "run" / "trace")
    [dropped] = trace.dropped()
    assert nodes(tmp_path / "run")[dropped.client] == "odd" and np.isfinite(trace.aggregate(1)["fc"]).all()
    assert len(trace.client) == 2
    assert re.search(why, dropped.why)


def test_arrays_that_a_client_does_not_send_did_not_change(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    part = {"out.weight": weights(4)["out.weight"], "lora.A": np.ones(3, np.float32)}
    recorder.sent(weights(0))
    recorder.received([Reply(client="part", arrays=part, examples=9), *replies(0, [1])], after=weights(1))
    recorder.close()
    trace, who = Trace.open(tmp_path / "run" / "trace"), nodes(tmp_path / "run")
    row = [who[trace.header.clients[index]] for index in trace.client].index("part")
    assert not trace.updates("fc")[row].any() and trace.updates("out")[row].any()


def test_buffers_are_marked_and_counts_left_out(tmp_path: Path) -> None:
    extra = {"bn.weight": np.ones(2, np.float32), "bn.running_mean": np.ones(2, np.float32)}
    counted = {**extra, "bn.num_batches_tracked": np.array(7), "q.weight": np.ones(3, np.int8)}
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    recorder.sent({**weights(0), **counted})
    recorder.received([Reply(client="a", arrays={**weights(1), **counted})], after={**weights(2), **counted})
    recorder.close()
    trace = Trace.open(tmp_path / "run" / "trace")
    assert [layer.name for layer in trace.header.layout] == ["fc", "out", "bn", "bn:buffers"]
    assert trace.header.buffers == ("bn:buffers",) and trace.header.settings["weighting"] == "equal"
    assert set(RecorderState.load(tmp_path / "run").left_out) == {"bn.num_batches_tracked", "q.weight"}


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_floats_are_recorded_as_float32(tmp_path: Path, kind: type) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    before: Arrays = {name: array.astype(kind) for name, array in weights(0).items()}
    after: Arrays = {name: array.astype(kind) for name, array in weights(1).items()}
    recorder.sent(before)
    recorder.received([Reply(client="a", arrays=after, examples=1)], after=after)
    recorder.close()
    found = Trace.open(tmp_path / "run" / "trace").updates("out")[0]
    np.testing.assert_allclose(found, (after["out.weight"] - before["out.weight"]).ravel(), atol=2e-3)


def test_a_round_without_replies_is_a_round(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    recorder.sent(weights(0))
    recorder.received([], [("a", "timeout"), ("b", "timeout")])
    recorder.close()
    trace = Trace.open(tmp_path / "run" / "trace")
    assert trace.rounds == 1 and len(trace.client) == 0 and len(list(trace.dropped())) == 2


@pytest.mark.parametrize("what", ["unwritable", "file", "layer", "no weights", "two recorders", "setting"])
def test_a_failure_is_warned_of_once_and_goes_no_further(tmp_path: Path, what: str) -> None:
    folder, settings, first = tmp_path / "run", dict[str, Any](), weights(0)
    if what in ("unwritable", "file"):
        folder.write_text("not a folder")
    if what == "layer":
        settings["layers"] = ["fc2"]
    if what == "setting":
        settings["every"] = 0
    if what == "no weights":
        first = {"q": np.ones(3, np.int8)}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        other = Recorder(folder, origin={"framework": "test"})
        if what == "two recorders":
            a_round(other, 0, [1, 2])
        recorder = Recorder(folder, origin={"framework": "test"}, **settings)
        recorder.sent(first)
        recorder.received(replies(0, [1, 2]), after=weights(1))
        a_round(recorder, 1, [1, 2])
        recorder.close()
        assert not recorder.active
    assert len(found) == 1 and "Fedleak stopped recording" in str(found[0].message)
    assert "Training goes on" in str(found[0].message)
    if what == "two recorders":
        other.close()
        assert Trace.open(folder / "trace").rounds == 1 and RecorderState.load(folder).state == "closed"


def test_another_model_does_not_touch_the_recording(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    recorder.sent({"other.weight": np.ones(3, np.float32)})
    with pytest.warns(UserWarning, match="holds a recording of another model"):
        recorder.received([Reply(client="a", arrays={"other.weight": np.zeros(3, np.float32)})])
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if path.name != ".lock"} == {
        path: data for path, data in before.items() if path.name != ".lock"
    }


def test_a_model_that_changes_its_shape_closes_the_trace_as_partial(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", origin={"framework": "test"})
    a_round(recorder, 0, [1, 2])
    recorder.sent(weights(1))
    with pytest.warns(UserWarning, match=r"'fc.bias' has the shape \(4,\)"):
        recorder.received(replies(1, [1, 2]), after=odd({"fc.bias": np.zeros(4, np.float32)}))
    state, closed = RecorderState.load(tmp_path / "run"), Closed.load(tmp_path / "run" / "trace")
    assert state.state == "partial" and "fc.bias" in state.reason and closed is not None and closed.rounds == 1


_SCRIPT = """
import os, resource, signal, sys, warnings
import numpy as np
from fedleak.record.recorder import Recorder, Reply
rng = np.random.default_rng(0)
recorder = Recorder(sys.argv[1], origin={"framework": "test"})
width = int(sys.argv[3])
def weights(): return {"fc.weight": rng.normal(size=(width, width)).astype(np.float32)}
model = weights()
for number in range(6):
    if number == 3 and sys.argv[2] == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50 * width**2, 50 * width**2))
    recorder.sent(model)
    model = weights()
    recorder.received([Reply(client=str(i), arrays=weights(), examples=4) for i in range(4)], after=model)
    print("round", number, flush=True)
    if number == 3 and sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
recorder.close()
print("trained")
"""


def _run(folder: Path, how: str, width: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(_SCRIPT), str(folder), how, str(width)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)


@pytest.mark.parametrize("width", [100, 501])  # short rows and long ones
def test_a_full_disk_loses_no_finished_round_and_training_goes_on(tmp_path: Path, width: int) -> None:
    done = _run(tmp_path / "run", "full", width)
    assert done.returncode == 0 and done.stdout.endswith("trained\n") and done.stderr.count("stopped recording") == 1
    trace = Trace.open(tmp_path / "run" / "trace")
    trace.verify()
    assert trace.rounds == 3 and RecorderState.load(tmp_path / "run").state == "partial"


@pytest.mark.parametrize("width", [100, 501])  # short rows and long ones
def test_a_killed_server_leaves_its_finished_rounds_and_a_second_start_appends(tmp_path: Path, width: int) -> None:
    done = _run(tmp_path / "run", "kill", width)
    assert done.returncode == -signal.SIGKILL
    trace = Trace.open(tmp_path / "run" / "trace")
    assert trace.rounds == 4 and not trace.finished
    assert json.loads((tmp_path / "run" / "recorder.json").read_text())["state"] == "recording"
    assert _run(tmp_path / "run", "whole", width).returncode == 0
    trace = Trace.open(tmp_path / "run" / "trace")
    trace.verify()
    assert trace.rounds == 4 + 1 + 6 and trace.finished and len(trace.header.clients) == 4

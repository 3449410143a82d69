"""Jobs of NVFlare are recorded as they were, with NVFlare's own processes, and run as if nobody recorded them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from framework_runs import (
    assert_closed,
    assert_private,
    assert_still_open,
    audit,
    flat,
    lost_by_name,
    updates_by_name,
)

from fedleak.record.key import read_key
from fedleak.trace.reader import Trace

EXAMPLE = Path(__file__).parents[3] / "examples" / "nvflare-job"
SMALL = Path(__file__).parent / "small_job.py"
sys.path.insert(0, str(EXAMPLE))

from hospital_task import HOSPITALS, Net, patients, train  # noqa: E402

SITES = ("site-1", "site-2", "site-3")


def run_job(script: Path, workspace: Path, record: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a job in the simulator, and leave no process of it behind."""
    command = [sys.executable, str(script), "--workspace", str(workspace), "--record", str(record), *options]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=script.parent)
    finally:
        deadline = time.monotonic() + 30
        while (left := processes_of(workspace)) and time.monotonic() < deadline:
            time.sleep(0.5)
        for process in left:
            os.kill(process, signal.SIGKILL)


def processes_of(workspace: Path) -> list[int]:
    """Processes that were given this workspace, which no other test has."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str(workspace).encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def locally_trained(weights: Mapping[str, Any], hospital: str) -> dict[str, Any]:
    """What a hospital's training changes of a snapshot, computed with torch alone."""
    net = Net()
    for layer, vector in weights.items():
        done = 0
        for value in (value for name, value in net.named_parameters() if name.startswith(f"{layer}.")):
            value.data = torch.from_numpy(vector[done : done + value.numel()].copy()).reshape(value.shape)
            done += value.numel()
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    train(net, *patients(hospital))
    return flat({name: (value.detach() - before[name]).numpy() for name, value in net.named_parameters()})


def assert_updates_are_what_hospitals_sent(run: Path, number: int) -> None:
    trace = Trace.open(run / "trace")
    sent = updates_by_name(run, number)
    assert set(sent) == set(HOSPITALS)
    for hospital, update in sent.items():
        for layer, values in locally_trained(trace.snapshot(number - 1), hospital).items():
            np.testing.assert_allclose(update[layer], values, atol=1e-6)
            assert np.abs(values).max() > 1e-3, "an update of nothing would prove nothing"
    for layer in ("fc1", "fc2"):
        mean = np.mean([update[layer] for update in sent.values()], axis=0)  # all have 60 patients
        np.testing.assert_allclose(trace.snapshot(number)[layer] - trace.snapshot(number - 1)[layer], mean, atol=1e-6)
        np.testing.assert_allclose(trace.aggregate(number)[layer], mean, atol=1e-6)
    assert set(trace.size[trace.span(number)].tolist()) == {60}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The example, run as its README says."""
    folder = tmp_path_factory.mktemp("nvflare")
    done = run_job(EXAMPLE / "hospital_job.py", folder / "workspace", folder / "fedleak-run", "--rounds", "3")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    yield folder / "fedleak-run"


def test_the_example_records_what_each_hospital_sent(example: Path) -> None:
    for number in (1, 2, 3):
        assert_updates_are_what_hospitals_sent(example, number)
    assert Trace.open(example / "trace").header.origin["framework"] == "nvflare"
    assert lost_by_name(example) == []
    assert_private(example, HOSPITALS)
    assert_closed(example, 3)


def test_the_plan_of_the_example_attacks_every_recorded_update(example: Path, tmp_path: Path) -> None:
    scores = audit(EXAMPLE, example, tmp_path / "example").scores
    [score] = [s for s in scores if s.attack == "reid-knn" and s.metric == "ap" and s.control is None]
    # Four hospitals are too few for a verdict; the attack on every one of their updates is scored all the same.
    assert score.n == 12 and 0 < score.value <= 1
    assert any(s.control == "rotated-owners" for s in scores)


def test_a_second_job_appends_and_differences_are_recorded_like_weights(example: Path, tmp_path: Path) -> None:
    run = tmp_path / "fedleak-run"
    shutil.copytree(example, run)
    key = (run / "key" / "clients.jsonl").read_bytes()
    done = run_job(EXAMPLE / "hospital_job.py", tmp_path / "workspace", run, "--rounds", "2", "--differences")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    # The new job begins with a new model: a round without clients leads there.
    assert updates_by_name(run, 4) == {}
    for number in (1, 2, 3, 5, 6):
        assert_updates_are_what_hospitals_sent(run, number)
    assert (run / "key" / "clients.jsonl").read_bytes() == key, "clients keep their pseudonyms"
    assert_closed(run, 6)


def test_a_killed_server_keeps_its_finished_rounds_with_the_client_that_failed(tmp_path: Path) -> None:
    run = tmp_path / "fedleak-run"
    done = run_job(SMALL, tmp_path / "first", run, "--rounds", "4", "--fail-in", "1", "--kill-at", "2")
    assert done.returncode != 0
    assert_still_open(run, 2)
    assert_private(run, SITES)
    assert set(updates_by_name(run, 1)) == {*SITES} and set(updates_by_name(run, 2)) == {"site-1", "site-2"}
    [(number, client, why)] = lost_by_name(run)
    assert (number, client) == (2, "site-3") and why.startswith("failed: EXECUTION")

    done = run_job(SMALL, tmp_path / "second", run, "--rounds", "2")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert_closed(run, 5)
    assert [len(updates_by_name(run, number)) for number in range(1, 6)] == [3, 2, 0, 3, 3]
    trace = Trace.open(run / "trace")
    node = {known.client: known.node for known in read_key(run / "key")}
    for index, size in zip(trace.client, trace.size, strict=True):
        assert size == 10 * int(node[trace.header.clients[index]].removeprefix("site-"))
    for number in (1, 2, 4, 5):
        sent = trace.snapshot(number - 1)["model"]
        for site, update in updates_by_name(run, number).items():
            # To the last bit: the client's sum and the difference from it are rounded to float32, as here.
            returned = sent + np.float32(site.removeprefix("site-"))
            np.testing.assert_array_equal(update["model"], returned - sent)
        numbers = [int(site.removeprefix("site-")) for site in updates_by_name(run, number)]
        moved = sum(own * own for own in numbers) / sum(numbers)  # weighted by the number of steps
        # Weights reach 20, of which float32 holds the sixth decimal.
        change = trace.snapshot(number)["model"] - sent
        np.testing.assert_allclose(change, moved, atol=4e-6)
        np.testing.assert_allclose(trace.aggregate(number)["model"], moved, rtol=1e-6)


def test_a_folder_that_cannot_be_written_does_not_stop_the_job(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run_job(SMALL, tmp_path / "workspace", tmp_path / "file" / "run", "--rounds", "2")
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-3000:]
    assert "Round 1 finished." in printed and printed.count("Fedleak stopped recording") == 1
    # 1..9, plus 14/6 in each of two rounds: what the job gives without a recorder.
    saved = np.load(tmp_path / "workspace" / "server" / "simulate_job" / "models" / "server.npy")
    np.testing.assert_allclose(saved.reshape(-1), np.arange(1, 10) + 2 * 14 / 6, rtol=1e-6)

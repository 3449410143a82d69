"""A job on a provisioned deployment: a server and four hospitals, each a process of its own, with certificates."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from framework_runs import assert_closed, assert_private, assert_still_open, audit, lost_by_name, updates_by_name
from nvflare_deployment import Deployment, rounds, wait
from test_record_nvflare import EXAMPLE, assert_updates_are_what_hospitals_sent

from fedleak.trace.reader import Trace


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The example's project, provisioned as its README says."""
    found = Deployment(tmp_path_factory.mktemp("deployment"), EXAMPLE / "project.yml")
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's job, written for a deployment."""
    folder = tmp_path_factory.mktemp("jobs")
    command = [sys.executable, "hospital_job.py", "--rounds", "3", "--record", "/srv/run", "--export", str(folder)]
    subprocess.run(command, cwd=EXAMPLE, check=True, capture_output=True, timeout=300)
    return folder / "hospitals"


def with_settings(job: Path, folder: Path, run: Path, count: int) -> Path:
    """A copy of a job that trains so many rounds and is recorded into another folder."""
    copy = Path(shutil.copytree(job, folder))
    path = copy / "app_server" / "config" / "config_fed_server.json"
    config = json.loads(path.read_text())
    config["workflows"][0]["args"]["num_rounds"] = count
    [recorder] = [one for one in config["components"] if one["id"] == "fedleak"]
    recorder["args"]["folder"] = str(run)
    path.write_text(json.dumps(config))
    return copy


def test_a_job_of_a_deployment_is_recorded_and_audited(deployment: Deployment, exported: Path, tmp_path: Path) -> None:
    run = tmp_path / "fedleak-run"
    job = deployment.submit(with_settings(exported, tmp_path / "job", run, 3))
    assert deployment.wait_for_end(job, 400) == "FINISHED:COMPLETED", deployment.job_log(job)[-3000:]
    for number in (1, 2, 3):
        assert_updates_are_what_hospitals_sent(run, number)
    assert Trace.open(run / "trace").header.origin["job"] == job
    assert lost_by_name(run) == []
    assert_private(run, tuple(deployment.sites))
    assert_closed(run, 3)

    scores = audit(EXAMPLE, run, tmp_path / "example").scores
    [score] = [s for s in scores if s.attack == "reid-knn" and s.metric == "ap" and s.control is None]
    assert score.n == 12 and 0 < score.value <= 1


def test_a_killed_job_of_a_deployment_keeps_its_rounds_and_the_next_one_appends(
    deployment: Deployment, exported: Path, tmp_path: Path
) -> None:
    run = tmp_path / "fedleak-run"
    job = deployment.submit(with_settings(exported, tmp_path / "long", run, 10_000))
    wait(lambda: rounds(run) >= 2, 400, "two rounds are recorded")
    deployment.kill_job(job)
    finished = rounds(run)
    assert_still_open(run, finished)
    assert deployment.wait_for_end(job, 200) != "FINISHED:COMPLETED"

    again = deployment.submit(with_settings(exported, tmp_path / "short", run, 2))
    assert deployment.wait_for_end(again, 400) == "FINISHED:COMPLETED", deployment.job_log(again)[-3000:]
    assert updates_by_name(run, finished + 1) == {}  # leads to the first model of the new job
    for number in (1, finished, finished + 2, finished + 3):
        assert_updates_are_what_hospitals_sent(run, number)
    assert_closed(run, finished + 3)

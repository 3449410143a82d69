"""The examples with many users behind a client and with a transformer: recorded on Ray, then audited."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")
from flower_processes import ROOT, Deployment, rounds, wait

from fedleak.record.state import RecorderState

HOSPITALS, USERS = 4, 12


def recorded(name: str, folder: Path, nodes: int, expected: int) -> Iterator[Path]:
    """Run an example on Ray, and give the folder in which it is audited."""
    app = Path(shutil.copytree(ROOT / "examples" / name, folder / "app", ignore=shutil.ignore_patterns("__pycache__")))
    deployment = Deployment(folder, simulation=True)
    try:
        deployment.run(app, "--federation-config", f"num-supernodes={nodes}")
        wait(lambda: rounds(folder / "fedleak-run") >= expected, 240, f"{name} trains {expected} rounds")
        wait(lambda: RecorderState.load(folder / "fedleak-run").state == "closed", 30, "the recording is closed")
    finally:
        deployment.stop()
    shutil.move(folder / "fedleak-run", app / "fedleak-run")
    yield app


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from recorded("cross-silo", tmp_path_factory.mktemp("cross-silo"), HOSPITALS, 8)


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("transformers")
    yield from recorded("flower-hf", tmp_path_factory.mktemp("flower-hf"), USERS, 6)


def fedleak(app: Path, *words: str) -> str:
    command = [sys.executable, "-m", "fedleak.cli.main", *words]
    environment = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=app, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def headlines(app: Path, plan: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    """The headline scores of an audit, by attack and control."""
    fedleak(app, "audit", plan, "--out", "out-" + plan)
    found = json.loads((app / ("out-" + plan) / "results.json").read_text())
    return {(score["attack"], score["control"]): score for score in found["scores"] if score["headline"]}


def test_the_hospital_behind_an_update_is_found_with_too_few_hospitals_for_a_verdict(hospitals: Path) -> None:
    scores = headlines(hospitals, "hospital.toml")
    best = scores["reid-strong", None]
    assert best["value"] > 0.9 > scores["reid-strong", "rotated-owners"]["value"]
    assert (best["unit"], best["users"], best["leaks"]) == ("client", HOSPITALS, None)
    assert best["verdict"] == "no verdict: 4 clients are too few (at least 5)"


def test_the_hospital_of_a_patient_is_found_with_too_few_hospitals_for_a_verdict(hospitals: Path) -> None:
    scores = headlines(hospitals, "patient.toml")
    best = scores["match-strong", None]
    assert best["value"] > 0.8 > scores["match-strong", "rotated-owners"]["value"]
    assert (best["unit"], best["users"], best["clients"], best["leaks"]) == ("user", 200, HOSPITALS, None)


def test_the_run_is_checked_and_a_plan_like_it_written(hospitals: Path) -> None:
    report = json.loads(fedleak(hospitals, "trace", "check", "fedleak-run", "--plan", "patient.toml", "--json"))
    assert report["trace"]["state"] == "closed" and report["trace"]["updates"] == 8 * HOSPITALS
    able = {row["game"] for row in report["attacks"] if not row["missing"]}
    assert able == {"match"}
    fedleak(hospitals, "simulate-like", "hospital.toml")
    assert "valid" in fedleak(hospitals, "check", "hospital-like.toml")


def test_a_transformer_is_audited_with_the_training_of_its_own_clients(transformer: Path) -> None:
    scores = headlines(transformer, "audit.toml")
    best = scores["reid-strong", None]
    assert best["leaks"] is True and best["users"] == USERS
    assert scores["reid-strong", "rotated-owners"]["leaks"] is False

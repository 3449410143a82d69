"""An insider's watermarks from the plan to the report: they change the run, and stay where they belong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run
from fedleak.pipeline.runs import Variant
from fedleak.plan import shipped
from fedleak.plan.read import load_plan
from fedleak.trace.header import Header
from fedleak.trace.prior import Prior
from fedleak.trace.truth import Truth
from pins import pins

MORE = """
audit = { adversaries = ["insider", "eavesdropper"], controls = ["decoys", "shuffled-selection"] }
attack = [{ name = "exposure-baseline" }, { name = "watermark" }, { name = "eavesdrop" }]
inject = { length = 8 }
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "marked.toml"
    path.write_text(pins(tmp_path, MORE))
    return path


def test_a_control_is_played_only_for_an_adversary_that_is_told_something_wrong_by_it(tmp_path: Path) -> None:
    def shuffled(inject: str) -> set[tuple[str, str]]:
        path = tmp_path / "plan.toml"
        path.write_text(pins(tmp_path, MORE.replace("inject = { length = 8 }", inject)))
        plays = Variant(control="shuffled-selection").plays(load_plan(path))
        return {(attack.name, adversary.name) for attack, _, adversary in plays}

    outside = {("exposure-baseline", "eavesdropper"), ("eavesdrop", "eavesdropper")}
    # One record cannot be said to be with another client.
    assert shuffled("inject = { length = 8, victims = 1 }") == outside
    assert shuffled("inject = { length = 8 }") == {*outside, ("exposure-baseline", "insider"), ("watermark", "insider")}


def test_an_insider_attributes_secrets_without_seeing_who_takes_part(fedleak: Run, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fedleak("audit", plan, "--out", out)
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    top1 = {
        (score["attack"], score["adversary"], score["control"]): score
        for score in results["scores"]
        if score["metric"] == "top1"
    }
    assert {key[:2] for key in top1} == {
        ("exposure-baseline", "insider"),
        ("exposure-baseline", "eavesdropper"),
        ("watermark", "insider"),
        ("eavesdrop", "eavesdropper"),
    }
    found = top1["watermark", "insider", None]
    assert found["value"] >= 0.5 and top1["exposure-baseline", "insider", None]["value"] <= 0.25
    for control in ("decoys", "shuffled-selection"):
        missed = top1["watermark", "insider", control]
        assert missed["low"] <= missed["chance"] and missed["value"] < found["value"]

    # Who could not play what, what was done to the run, and what the insider can do, is said.
    untested = {item["what"]: item["why"] for item in results["untested"]}
    assert untested["watermark as eavesdropper"] == "this adversary lacks the capability to inject"
    assert untested["eavesdrop as insider"] == "this adversary lacks selection"
    assert [(item["kind"], item["count"]) for item in results["findings"]] == [("injected", 4)]
    assert results["resolved"]["inject"] == {"victims": None, "insertions": None, "length": 8, "kind": "alphanumeric"}
    capabilities = {threat["name"]: threat["capabilities"] for threat in results["threats"]}
    assert capabilities["insider"] == ["inject a record of its own into a client's data"]
    assert capabilities["eavesdropper"] == []

    # The header says that the run was tampered with and how; the watermarks are the adversary's alone.
    run = out / "runs" / "plain" / "seed-0"
    expected = {"power": "inject", "victims": None, "insertions": None, "length": 8, "kind": "alphanumeric"}
    assert [dict(one) for one in Header.load(run / "trace").tampering] == [expected]
    marks = Prior.load(run / "prior").injected
    assert set(marks) == set(Truth.load(run / "truth").client_user)
    for path in (path for path in (*run.rglob("*"), *out.glob("*.*")) if path.is_file()):
        told = any(mark.encode() in path.read_bytes() for mark in marks.values())
        assert told == (path == run / "prior" / "prior.json"), path


def test_the_same_folder_does_not_hold_runs_with_and_without_watermarks(
    fedleak: Run, plan: Path, tmp_path: Path
) -> None:
    plan.write_text(plan.read_text().replace("rounds = 90", "rounds = 2"))
    assert fedleak("train", plan, "--out", "out").returncode == 0
    text = plan.read_text().replace("inject = { length = 8 }\n", "").replace('{ name = "watermark" }, ', "")
    plan.write_text(text.replace('"insider", ', ""))
    done = fedleak("train", plan, "--out", "out")
    assert done.returncode == 1 and "holds the results of another plan" in done.stderr


def test_data_without_secrets_cannot_be_marked(fedleak: Run, plan: Path, tmp_path: Path) -> None:
    text = plan.read_text()
    start, end = text.index("[dataset]"), text.index("[federation]")
    plan.write_text(text[:start] + '[dataset]\nname = "digits"\nusers = 4\n' + text[end:])
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 1
    assert "[inject]: the data set has no texts with secrets" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_the_shipped_plan_attributes_by_watermarks_what_the_baseline_only_extracts(
    fedleak: Run, tmp_path: Path
) -> None:
    text = shipped.find("record-level/ptb-watermark").read_text().replace("seeds = [0, 1, 2]", "seeds = [0]")
    (tmp_path / "marked.toml").write_text(text)
    done = fedleak("audit", "marked.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    found = {
        (score["attack"], score["control"]): score["value"]
        for score in json.loads((tmp_path / "out" / "results.json").read_text())["scores"]
        if score["metric"] == "top1"
    }
    assert found["watermark", None] >= found["exposure-baseline", None] + 0.4
    assert found["watermark", "decoys"] == 0 and found["watermark", "shuffled-selection"] <= 0.25

"""`fedleak analyse` as a user would use it, before an audit and after one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from fedleak import registry
from fedleak.results.audit import SCHEMA


def results(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    assert found["schema"] == SCHEMA
    return found


def test_an_analysis_before_the_audit_is_reported_and_kept_by_it(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fedleak("analyse", "layers", plan, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "Which layer of an update identifies its sender?" in done.stdout
    assert str(out / "report.html") in done.stdout.replace("\n", "")
    kept = json.loads((out / "analyses" / "layers.json").read_text())
    first = results(out)
    assert first["analyses"] == [kept]
    assert first["scores"] == []
    assert any("not run yet" in item["why"] for item in first["untested"])
    assert (out / "report.html").exists()
    log = out / "runs" / "plain" / "seed-0" / "trace" / "log"
    before = log.stat().st_mtime_ns
    assert fedleak("audit", plan, "--out", out).returncode == 0
    assert log.stat().st_mtime_ns == before
    second = results(out)
    assert second["analyses"] == [kept]
    assert second["scores"]
    assert not any("not run yet" in item["why"] for item in second["untested"])


def test_an_analysis_after_the_audit_keeps_its_scores(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    fedleak("audit", plan, "--out", "out")
    before = results(tmp_path / "out")
    done = fedleak("analyse", "rounds", plan, "--out", "out", "--set", "ranges=2", "--set", "attack=reid-knn")
    assert done.returncode == 0, done.stderr
    after = results(tmp_path / "out")
    assert after["scores"] == before["scores"]
    assert [found["name"] for found in after["analyses"]] == ["rounds"]
    fedleak("analyse", "layers", plan, "--out", "out")
    names = [found["name"] for found in results(tmp_path / "out")["analyses"]]
    assert names == ["layers", "rounds"]
    assert fedleak("report", "out").returncode == 0


def test_an_analysis_that_the_plan_asks_for_takes_its_settings_from_there(plan: Path, fedleak: Run) -> None:
    plan.write_text(plan.read_text() + '\n[[analysis]]\nname = "rounds"\nranges = 20\n')
    assert "the plan has only 30 rounds" in fedleak("analyse", "rounds", plan, "--out", "out").stderr
    done = fedleak("analyse", "rounds", plan, "--out", "out", "--set", "ranges=2", "--set", "attack=reid-knn")
    assert done.returncode == 0, done.stderr


def test_without_a_name_the_analyses_are_listed(fedleak: Run) -> None:
    for listed in (fedleak("analyse").stdout, fedleak("list", "analyses").stdout):
        for name in registry.names("analysis"):
            assert f"  {name} " in listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["layer", "tiny.toml"], "unknown analysis 'layer'; did you mean 'layers'?"),
        (["rounds", "tiny.toml", "--set", "range=2"], "unknown key 'range'; did you mean 'ranges'?"),
        (["rounds", "tiny.toml", "--set", "ranges=one"], "--set ranges = 'one'"),
        (["rounds", "tiny.toml", "--set", "ranges"], "expected KEY=VALUE"),
        (["rounds", "tiny.toml", "--set", "ranges=20"], "the plan has only 30 rounds"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], message: str, plan: Path, fedleak: Run) -> None:
    done = fedleak("analyse", *arguments, "--out", "out")
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_plan_is_asked_for(fedleak: Run) -> None:
    done = fedleak("analyse", "layers")
    assert done.returncode == 2
    assert "PLAN" in done.stderr


def test_a_damaged_analysis_is_named(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    fedleak("analyse", "layers", plan, "--out", "out")
    (tmp_path / "out" / "analyses" / "layers.json").write_text('{"name": 3')
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 1
    assert "layers.json is damaged" in done.stderr


def test_every_analysis_is_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "analyse.md").read_text()
    for name in registry.names("analysis"):
        assert f"**`{name}`**: *{registry.load('analysis', name).summary}*" in " ".join(page.split())
        assert f"fedleak analyse {name} " in page

"""An audit from the command line, from plan to report, as a user would run it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from command_line import TINY, Run
from fedleak.results.audit import SCHEMA


def test_one_command_audits_and_tells_what_it_found(plan: Path, real_fedleak: Run, tmp_path: Path) -> None:
    plan.write_text(TINY + '[[defence]]\nname = "noise"\nsigma = 20.0\nrelative = true\n')
    done = real_fedleak("audit", plan, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "Adversary" in done.stdout
    assert "no defence" in done.stdout
    assert "IID control" in done.stdout
    assert "Report: out/report.html" in done.stdout
    assert "Traceback" not in done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["schema"] == SCHEMA
    found = {(s["control"], (s["defence"] or {}).get("name"), s["metric"]): s for s in results["scores"]}
    assert len(found) == 3 * 3
    leak, noisy, control = found[None, None, "ap"], found[None, "noise", "ap"], found["iid", None, "ap"]
    assert leak["low"] > leak["chance"]
    assert noisy["value"] < leak["value"]
    assert control["low"] <= control["chance"]
    assert leak["utility"]["metric"] == "accuracy"
    assert noisy["utility"]["undefended"] == leak["utility"]["value"]
    for path in (tmp_path / "out").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_steps_give_the_same_results_as_the_audit(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    assert fedleak("audit", plan, "--out", "whole").returncode == 0
    for step in ("train", "attack", "score"):
        done = fedleak(step, plan, "--out", "steps")
        assert done.returncode == 0, done.stderr
        assert "next: fedleak" in done.stdout
    done = fedleak("report", "steps")
    assert done.returncode == 0
    assert "reid-knn" in done.stdout
    whole, steps = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("whole", "steps"))
    assert whole["scores"] == steps["scores"]
    assert (tmp_path / "steps" / "report.html").exists()


def test_a_step_out_of_order_says_what_to_do_first(plan: Path, fedleak: Run) -> None:
    done = fedleak("attack", plan, "--out", "out")
    assert done.returncode == 1
    assert "run `fedleak train` first" in done.stderr
    fedleak("train", plan, "--out", "out")
    done = fedleak("score", plan, "--out", "out")
    assert done.returncode == 1
    assert "run `fedleak attack` first" in done.stderr
    done = fedleak("report", "out")
    assert done.returncode == 1
    assert "results.json" in done.stderr


def test_attacks_added_to_a_plan_are_played_on_the_federation_that_is_there(
    plan: Path, fedleak: Run, tmp_path: Path
) -> None:
    fedleak("audit", plan, "--out", "out")
    log = tmp_path / "out" / "runs" / "plain" / "seed-0" / "trace" / "log"
    before = log.stat().st_mtime_ns
    plan.write_text(TINY + '[[attack]]\nname = "reid-centroid"\n')
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 0
    assert "reid-centroid" in done.stdout
    assert log.stat().st_mtime_ns == before


@pytest.mark.parametrize(("limit", "code"), [("0.05", 3), ("1.0", 0)])
def test_a_limit_that_is_exceeded_fails_the_build(limit: str, code: int, plan: Path, fedleak: Run) -> None:
    plan.write_text(TINY + f"[limits.identify]\nap = {limit}\n")
    assert fedleak("audit", plan, "--out", "out").returncode == code


def test_seeds_are_pooled_and_more_of_them_can_be_added(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    fedleak("audit", plan, "--out", "out")
    plan.write_text(TINY.replace('title = "tiny"', 'title = "tiny"\nseeds = [0, 1, 2]'))
    assert fedleak("audit", plan, "--out", "out").returncode == 0
    score = json.loads((tmp_path / "out" / "results.json").read_text())["scores"][0]
    assert score["seeds"] == [0, 1, 2]
    assert score["users"] == 24  # eight made-up people for each seed


def test_anyones_own_table_is_audited_and_their_names_are_escaped(fedleak: Run, tmp_path: Path) -> None:
    rows = ["who,a,b,label"]
    for user, (a, b) in {"<script>alert(1)</script>": (0, 5), "bob": (5, 0), "eve": (9, 9)}.items():
        rows += [f"{user},{a + i / 7},{b + i % 2},{'yes' if i % 2 else 'no'}" for i in range(20)]
    (tmp_path / "mine.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "mine.toml").write_text(
        TINY[: TINY.index("[dataset]")]
        + '[dataset]\nname = "table"\npath = "mine.csv"\nuser = "who"\nfeatures = ["a", "b"]\nlabel = "label"\n'
        + 'task = "classify"\n'
        + TINY[TINY.index("[model]") :]
    )
    done = fedleak("audit", "mine.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    hidden = (tmp_path / "out" / "report.html").read_text()
    assert fedleak("report", "out", "--names").returncode == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page and "&lt;script&gt;alert(1)" not in hidden
    assert "<script>" not in page


def test_a_model_of_ones_own_is_trained_and_attacked(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def make(signature):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, signature.outputs))\n"
    )
    plan.write_text(TINY.replace('name = "mlp"\nhidden = [8]', 'name = "mine:make"'))
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "no defence" in done.stdout


def test_a_stratified_split_is_warned_of_in_every_output(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    plan.write_text(plan.read_text() + '[population]\nsplit = "stratified"\n')
    said = "It copies each user's class counts, including chance deviations"
    for command in ("check", "audit"):
        done = fedleak(command, plan, *(() if command == "check" else ("--out", tmp_path / "out")))
        assert done.returncode == 0, done.stderr
        assert said in " ".join(done.stderr.split()), command
        if command == "audit":
            text = " ".join(done.stdout.split())
            assert text.index("Warning: The split is stratified") < text.index("Result ")
    audit = json.loads((tmp_path / "out" / "results.json").read_text())
    assert any(said in line for line in audit["warnings"])
    assert audit["population"]["split"] == "stratified"
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.index("Read this first") < page.index("Strongest attack without a defence")
    assert "copies each user&#39;s class counts" in page


def test_another_budget_of_memory_is_another_attack(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    # With less memory an attack sees a sketch of the updates, so what it claimed with more must not stand for that.
    claims = tmp_path / "out" / "runs" / "plain" / "seed-0" / "predictions"
    fedleak("audit", plan, "--out", "out")
    first = set(claims.iterdir())
    fedleak("audit", plan, "--out", "out")
    assert set(claims.iterdir()) == first
    plan.write_text(f"{plan.read_text()}\n[audit]\nmemory = 500\n")
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert len(set(claims.iterdir()) - first) == len(first)

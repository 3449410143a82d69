"""Sweeps and checks of defences from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import TINY, Run
from fedleak.trace.header import Header

SWEPT = (
    TINY.replace("rounds = 30", "rounds = 12") + '[[defence]]\nname = "noise"\nsigma = [1.0, 30.0]\nrelative = true\n'
)


def test_a_sweep_weighs_every_strength(fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SWEPT)
    done = fedleak("sweep", "plan.toml", "--out", "out", "--over", "clip.bound=1000", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    assert "What each defence costs" in done.stdout
    assert "It has no effect here" in done.stdout  # nobody's update is that long
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    (weighed,) = results["tradeoffs"]
    assert [(s["defence"] or {}).get("sigma") for s in weighed["settings"]] == [None, 1.0, 30.0, None]
    assert weighed["settings"][0]["kept"] is None  # so few rounds train nothing that beats a constant prediction
    assert weighed["settings"][2]["value"] < weighed["settings"][1]["value"]
    assert weighed["advice"] in " ".join(done.stdout.split())
    idle = {effect["defence"]["name"]: effect["idle"] for effect in results["effects"]}
    assert idle == {"noise": False, "clip": True}
    assert results["failures"] == []
    known = {
        (s["defence"]["sigma"], s["adaptive"]) for s in results["scores"] if s["defence"] and "sigma" in s["defence"]
    }
    assert known == {(1.0, False), (1.0, True), (30.0, False), (30.0, True)}


def test_a_cell_that_fails_stops_no_other_and_is_tried_again(fedleak: Run, tmp_path: Path) -> None:
    # Noise without end makes updates that no model survives.
    hopeless = SWEPT.replace("sigma = [1.0, 30.0]", "sigma = [1.0, 1e39]")
    (tmp_path / "plan.toml").write_text(hopeless)
    done = fedleak("sweep", "plan.toml", "--out", "out", "--jobs", 1)
    assert done.returncode == 1
    assert "Failed: noise (sigma=1e+39, relative=yes), seed 0: round 2: client" in " ".join(done.stdout.split())
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {f["defence"]["sigma"] for f in results["failures"]} == {1e39}
    assert [(s["defence"] or {}).get("sigma") for s in results["tradeoffs"][0]["settings"]] == [None, 1.0]
    (tmp_path / "plan.toml").write_text(hopeless.replace("lr = 0.1", 'lr = 0.1\non_nan = "stop"'))
    again = fedleak("sweep", "plan.toml", "--out", "out", "--jobs", 1)
    assert again.returncode == 1 and "Sweeping 2 cells" in again.stderr


def test_a_sweep_gives_what_an_audit_gives(fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SWEPT)
    assert fedleak("sweep", "plan.toml", "--out", "swept", "--jobs", 1).returncode == 0
    assert fedleak("audit", "plan.toml", "--out", "audited").returncode == 0
    swept, audited = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("swept", "audited"))
    assert swept["scores"] == audited["scores"]
    assert swept["effects"] == audited["effects"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a sweep needs a defence"),
        (("--over", "noise.sigma"), "expected DEFENCE.KEY=V1,V2"),
        (("--over", "noise.sigma=1,,2"), "empty value"),
        (("--over", "nosie.sigma=1"), "unknown defence 'nosie'"),
        (("--over", "noise.sigma=loud"), "sigma"),
    ],
)
def test_a_sweep_of_nothing_is_explained(arguments: tuple[str, ...], message: str, plan: Path, fedleak: Run) -> None:
    done = fedleak("sweep", plan, *arguments, "--jobs", 1)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_defences_are_checked_without_an_attack(fedleak: Run, tmp_path: Path) -> None:
    table = '[[defence]]\nname = "dp-fedavg"\nnoise = 3.0\nclip = 1.0\n[[defence]]\nname = "clip"\nbound = 1e6\n'
    (tmp_path / "plan.toml").write_text(TINY.replace("rounds = 30", 'rounds = 30\nweighting = "equal"') + table)
    done = fedleak("check-defence", "plan.toml", "--jobs", 1)
    said = " ".join(done.stdout.split())
    assert done.returncode == 3  # one of them does nothing
    assert "dp-fedavg states epsilon" in said and "do not contradict" in said
    assert "clip (bound=1e+06): It has no effect here" in said
    assert not list(tmp_path.glob("fedleak-*"))


def test_a_plan_without_defences_has_none_to_check(plan: Path, fedleak: Run) -> None:
    done = fedleak("check-defence", plan, "--jobs", 1)
    assert done.returncode == 1
    assert "has no [[defence]] to check" in done.stderr


def test_what_a_defence_hides_is_written_into_the_trace_for_every_view_to_heed(fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(TINY.replace("rounds = 30", "rounds = 2") + '[[defence]]\nname = "shuffle"\n')
    assert fedleak("train", "plan.toml", "--out", "out").returncode == 0
    told = {path.parts[-3]: Header.load(path).hidden for path in (tmp_path / "out").glob("runs/*/*/trace")}
    assert {name.partition("-")[0]: hidden for name, hidden in told.items()} == {
        "plain": (),
        "iid": (),
        "shuffle": ("LINKS",),
    }

"""The plans of Gradient-Leaks, made smaller: the shape of what they show must stay so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from fedleak.plan import shipped
from fedleak.plan.read import load_plan

NAMES = [name for name in shipped.names() if name.startswith("gradient-leaks/")]


@pytest.mark.parametrize("name", NAMES)
def test_the_fuller_setting_of_every_plan_is_valid_and_larger(name: str) -> None:
    small, full = load_plan(shipped.find(name)), load_plan(shipped.find(name), full=True)
    assert len(full.seeds) > len(small.seeds) or (full.population.users or 0) > (small.population.users or 0)
    assert small.story and small.title


def audited(name: str, fedleak: Run, folder: Path, **changes: str) -> Mapping[tuple[str, str, str | None], Any]:
    """Scores of the game's first metric, by attack, game and control."""
    text = shipped.find(f"gradient-leaks/{name}").read_text()
    for key, value in {"seeds": "[0]", **changes}.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text, count=1)
        assert count == 1, key
    (folder / f"{name}.toml").write_text(text)
    done = fedleak("audit", f"{name}.toml", "--out", name)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / name / "results.json").read_text())
    return {(s["attack"], s["game"], s["control"]): s for s in found["scores"] if s["headline"]}


def leaks(score: Mapping[str, Any]) -> bool:
    return bool(score["low"] > score["chance"])


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_the_strongest_adversary_is_ahead_and_finds_nothing_where_nothing_is(fedleak: Run, tmp_path: Path) -> None:
    found = audited("table3-writers", fedleak, tmp_path, users="30", rounds="60")
    strong = found["reid-strong", "identify", None]
    for attack in ("reid-mlp", "reid-svm", "reid-knn"):
        assert leaks(found[attack, "identify", None])
        assert strong["low"] > found[attack, "identify", None]["value"]
    assert not any(leaks(score) for (_, _, control), score in found.items() if control == "iid")


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_writers_are_matched_by_what_they_wrote_before(fedleak: Run, tmp_path: Path) -> None:
    # Fewer users than the plan's, or one seed, leave intervals so wide that nothing is shown of the siamese network.
    found = audited("matching-writers", fedleak, tmp_path, seeds="[0, 1]")
    for (attack, game, control), score in found.items():
        if "between=prior" in game:
            assert leaks(score) == (control is None), (attack, control)
        elif attack == "match-cosine":
            # A client trains on the same examples every round: its updates match whether they are personal or not.
            assert leaks(score) == (control != "fresh-data"), control


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_an_older_prior_helps_no_more_than_one_from_the_same_time(fedleak: Run, tmp_path: Path) -> None:
    changes = {"users": "30", "rounds": "40"}
    random = audited("table3-blog", fedleak, tmp_path, **changes)
    chrono = audited("table3-blog-chrono", fedleak, tmp_path, **changes)
    attack = ("reid-mlp (layer=out)", "identify", None)
    assert leaks(random[attack]) and leaks(chrono[attack])
    assert random[attack]["high"] >= chrono[attack]["value"]

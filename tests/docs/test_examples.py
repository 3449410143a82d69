"""The examples are documentation that runs; here they do."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedleak
from fedleak.analyses.analysis import analyse
from fedleak.core import rng_for
from fedleak.errors import PlanError
from fedleak.plan.plan import PopulationPlan
from fedleak.plan.read import parse
from fedleak.population.prepare import prepare
from fedleak.report import results_file
from fedleak.testing import check_attack

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def run(*command: str | Path, cwd: Path, path: Path = EXAMPLES, code: int = 0) -> str:
    """Run Python as a user would, with the examples on its path, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(EXAMPLES), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_needs_nothing_of_fedleak_but_its_public_names(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
            assert node.module != "fedleak" or {alias.name for alias in node.names} <= set(fedleak.__all__)
        assert not any(module.startswith("fedleak.") for module in modules), modules


class Silent:
    """Progress that nobody watches."""

    def stage(self, text: str, units: float) -> None:
        pass

    def tick(self, units: float) -> None:
        pass


def test_the_attack_keeps_the_contract(tmp_path: Path) -> None:
    check_attack(import_module("my_attack").Signs(), tmp_path)


def test_the_defence_sends_signs_only() -> None:
    defence = import_module("my_defence").SignOnly(step=0.5)
    update = {"out": np.asarray([3.0, -0.1, 0.0, 0.2], dtype=np.float32)}
    assert defence.on_update(update, rng_for(0))["out"].tolist() == [0.5, -0.5, 0.0, 0.5]


def test_the_data_set_makes_the_same_users_from_the_same_seed() -> None:
    walkers: Any = import_module("my_dataset").Walkers()
    first, again, other = (prepare(walkers, PopulationPlan(), seed) for seed in (0, 0, 1))
    assert len(first.shares) == 12
    assert [finding.kind for finding in first.findings] == ["split"]
    np.testing.assert_array_equal(first.test.x, again.test.x)
    assert not np.array_equal(first.test.x, other.test.x)


def test_the_analysis_plays_the_attack_with_every_number_of_neighbours(tmp_path: Path) -> None:
    neighbours = import_module("my_analysis").Neighbours
    text = PLUGIN_PLAN.replace("walkers", "digits")
    plan, other = (parse(text, change={"attack": [{"name": name}], "defence": []}) for name in ("reid-knn", "reid-svm"))
    found = analyse(neighbours(counts=(1, 5)), plan, tmp_path / "out", Silent(), jobs=1)
    assert [row[0] for row in found.rows] == ["1", "5"] and found.rows[0][1:] != found.rows[1][1:]
    with pytest.raises(PlanError, match="no attack 'reid-knn'"):
        neighbours().check(other)


PLUGIN_PLAN = """
dataset = {name = "walkers"}
model = {name = "mlp", hidden = [8]}
federation = {rounds = 20, fraction = 0.25, lr = 0.1}
audit = {controls = [], adaptive = false}
attack = [{name = "reid-signs"}]
defence = [{name = "sign-only"}]
"""
GAME_PLAN = """
dataset = {name = "walkers", users = 8, gait = 3.0}
model = {name = "mlp", hidden = [8]}
federation = {rounds = 60, fraction = 0.25, lr = 0.1, centralised = false}
audit = {controls = ["iid"]}
game = [{name = "took-part", pairs = 200}]
attack = [{name = "took-part-cosine"}]
limits = {took-part = {auc = 0.5}}
"""


def test_the_attack_on_the_game_keeps_the_contract_of_the_game(tmp_path: Path) -> None:
    mine = import_module("my_game")
    check_attack(mine.NearestUpdate(), tmp_path, mine.TookPart)


def test_a_game_and_a_section_of_a_package_go_from_the_plan_to_the_page(tmp_path: Path) -> None:
    installed = install(tmp_path)
    (tmp_path / "plan.toml").write_text(GAME_PLAN)
    command = ("-m", "fedleak.cli.main", "audit", "plan.toml", "--out", "out", "--jobs", "1")
    printed = run(*command, cwd=tmp_path, path=installed, code=3)  # the limit is exceeded
    told = "tells which is which in"
    assert "Did this user take part in this round?" in printed and told in " ".join(printed.split())
    assert re.search(r"^\d+ scores in \d+ seconds\.$", printed, re.MULTILINE)
    found = results_file.read_results(tmp_path / "out")
    assert found.games["took-part"].metrics[0].name == "ap" and found.games["took-part"].controls == ["iid"]
    plain = next(score for score in found.scores if score.headline and score.control is None)
    assert plain.low > plain.chance and told in plain.in_words
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert told in page and "How far predictions lie on the right side" in page
    assert "What this audit took" in page and 'href="#what-it-took"' in page


def install(folder: Path) -> Path:
    """An installed package is a folder of metadata on the path; this one is written from CONTRIBUTING itself."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = next(b for b in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "entry-points" in b)
    info = folder / "site" / "fedleak_examples-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fedleak-examples\nVersion: 0.1\n")
    groups = tomllib.loads(shown)["project"]["entry-points"]
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
            for group, entries in groups.items()
        )
    )
    return info.parent


def test_plugins_are_found_by_the_entry_points_that_contributing_shows(tmp_path: Path) -> None:
    installed = install(tmp_path)
    (tmp_path / "plan.toml").write_text(PLUGIN_PLAN)
    run("-m", "fedleak.cli.main", "audit", "plan.toml", "--out", "out", "--jobs", "1", cwd=tmp_path, path=installed)
    scores = results_file.read_results(tmp_path / "out").scores
    assert {score.attack for score in scores} == {"reid-signs"}
    assert [score.defence["name"] if score.defence else None for score in scores if score.metric == "ap"] == [
        None,
        "sign-only",
    ]
    undefended = next(score for score in scores if score.metric == "ap" and score.defence is None)
    assert undefended.low > undefended.chance  # users of the example do have a gait of their own


def test_an_audit_runs_from_python(tmp_path: Path) -> None:
    printed = run(EXAMPLES / "audit_from_python.py", "out", cwd=tmp_path).splitlines()
    assert [line.split(" | ")[0] for line in printed] == ["users' own data", "iid"]
    assert "leaks:" in printed[0]
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("model", ["build", pytest.param("normalised", marks=pytest.mark.slow)])
def test_a_model_of_ones_own_is_audited_on_a_table(model: str, tmp_path: Path) -> None:
    for name in ("own_model.py", "own_model.toml"):
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("own_model:build", f"own_model:{model}"), encoding="utf-8")
    run("own_model.py", cwd=tmp_path)
    run("-m", "fedleak.cli.main", "audit", "own_model.toml", "--out", "out", "--jobs", "1", cwd=tmp_path)
    audit = results_file.read_results(tmp_path / "out")
    assert audit.federation["model"] == "own"
    plain = next(score for score in audit.scores if score.metric == "ap" and score.control is None)
    assert plain.low > plain.chance
    assert plain.utility is not None and plain.utility.chance is not None
    assert plain.utility.value < plain.utility.chance  # an error: lower is better

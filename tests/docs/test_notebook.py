"""The notebook runs from top to bottom, without Jupyter, and no output of anybody's machine is committed with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "audit.ipynb"

# Runs each cell as a notebook does: the value of its last line is shown, as HTML where it can be.
RUNNER = """
import ast, json, sys

namespace = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
        if value is not None:
            print("shown:", value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
"""


def cells() -> list[dict[str, Any]]:
    content: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_committed_without_output() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells())


def test_every_cell_of_the_notebook_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNNER],
        input=json.dumps(["".join(cell["source"]) for cell in cells()]),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    warnings, frame, report, differences = done.stdout.split("shown: ")[1:]
    assert warnings.startswith("[")
    assert "<table" in frame and "reid-knn" in frame
    assert report.startswith("<iframe srcdoc=")
    assert "\nap leaks: " in report  # what the cell after it printed
    assert "<table" in differences and "True" in differences

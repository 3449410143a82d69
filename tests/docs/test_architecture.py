"""The page on the architecture shows the rooms and imports that there are."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from fedleak.reference.rooms import imports, rooms
from fedleak.reference.tables import by_hand

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "fedleak"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| \d+ \|.*\| `([\w/]+\.py)` \| `([\w.]+)` \|$", PAGE, re.MULTILINE)


def listed(place: int) -> dict[str, str]:
    """A column of the table of rooms, by room."""
    table = PAGE.split("<!-- generated: rooms -->")[1].split("<!-- end -->")[0]
    return {room.strip("`"): cell for room, cell in by_hand(table, place).items() if room.startswith("`")}


def test_the_rooms_of_the_page_are_those_of_the_package() -> None:
    there = {path.name.removesuffix(".py") for path in SOURCES.iterdir() if (path / "__init__.py").exists()}
    there |= {path.stem for path in SOURCES.glob("*.py") if path.stem != "__init__"}
    assert set(listed(1)) == there
    drawing = PAGE.split("```")[1]
    assert sorted(re.findall(r"\[(\w+)\]", drawing)) == sorted(there), "the drawing shows each room once"
    assert "?" not in listed(1).values(), "say what is in the new room"


def test_the_imports_of_the_page_are_those_of_the_sources() -> None:
    shown = {room: set(re.findall(r"`(\w+)`", cell)) for room, cell in listed(2).items()}
    assert shown == imports(SOURCES), "run: make reference (or python -m fedleak.reference docs)"


def test_the_rooms_are_in_the_order_that_import_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [name for layer in contracts["contracts"][0]["layers"] for name in layer.split(" | ")]
    # A layer may name a part of a room; a room stands where its first part does.
    order = list(dict.fromkeys(name.split(".")[1] for name in reversed(layers)))
    assert list(listed(1)) == order


def package(folder: Path, **files: str) -> Path:
    """A package of rooms with one file each."""
    for name, text in files.items():
        (folder / "fedleak" / name).mkdir(parents=True)
        (folder / "fedleak" / name / "__init__.py").write_text("")
        (folder / "fedleak" / name / "some.py").write_text(text)
    return folder / "fedleak"


def test_an_import_is_found_wherever_it_stands(tmp_path: Path) -> None:
    nested = "def f():\n    if True:\n        from fedleak import core\n        import fedleak.trace.reader\n"
    for_types = "if TYPE_CHECKING:\n    from fedleak.core.some import T\nelse:\n    from fedleak.plan.some import T\n"
    found = imports(
        package(tmp_path, plan=nested, trace=for_types, core="import json\nfrom fedleak import __version__\n")
    )
    assert found == {"plan": {"core", "trace"}, "trace": {"plan"}, "core": set()}


def test_a_room_that_the_page_does_not_know_comes_last_and_without_words() -> None:
    known = "\n".join(f"| `{room}` | {text} | |" for room, text in listed(1).items() if room != "plan")
    assert rooms(known).splitlines()[-1].startswith("| `plan` | ? | ")


@pytest.mark.parametrize(("file", "function"), STEPS)
def test_every_step_of_an_update_is_in_the_file_that_the_page_names(file: str, function: str) -> None:
    body = ast.parse((SOURCES / file).read_text(encoding="utf-8")).body
    for name in function.split("."):
        found = [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name]
        assert found, f"{file} has no {function}"
        body = found[0].body


def test_the_way_of_an_update_is_told_from_the_user_to_the_report() -> None:
    assert STEPS[0][0].startswith("population/") and STEPS[-1][0].startswith("report/") and len(STEPS) > 10

"""No module of an attack or a view holds the truth, under whatever name it may come."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import fedleak.attacks
import fedleak.views
from fedleak import registry
from fedleak.testing.truth_imports import truth_imports


def modules() -> list[ModuleType]:
    return [
        importlib.import_module(found.name)
        for room in (fedleak.attacks, fedleak.views)
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]


def test_no_attack_and_no_view_imports_the_truth() -> None:
    found = {module.__name__: truth_imports(module) for module in modules()}
    assert len(found) > 50
    assert not {name: taken for name, taken in found.items() if taken}


def written(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of this source, not run: some of these imports fail."""
    file = folder / "plugin_attack.py"
    file.write_text(source)
    spec = spec_from_file_location("plugin_attack", file)
    assert spec is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plugin_attack", module)
    return module


@pytest.mark.parametrize(
    "source",
    [
        "from fedleak.trace.truth import Truth",
        "from fedleak import Truth as T",
        "from fedleak.games.game import Truth",
        "from fedleak.games.identify import Truth as Innocent",
        "from fedleak.pipeline.attack_runner import Truth",
        "from fedleak.trace import truth",
        "from fedleak.trace.evidence import Evidence",
        "from fedleak.metrics.attack_result import Evidence",
        "from fedleak.games.game import GameInstance",
        "import fedleak.trace.truth",
        "import fedleak.games.match as m\nload = m.Truth.load",
        "import fedleak.games.match\nload = fedleak.games.match.Truth.load",
        "from fedleak import games\nimport fedleak.games.link\ndef f():\n    return games.link.Truth",
        "def f():\n    from fedleak.games.match import Truth\n    return Truth",
        "import importlib\ndef f():\n    return importlib.import_module('fedleak.trace.truth')",
    ],
)
def test_a_module_that_gets_hold_of_the_truth_is_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [taken, *_] = truth_imports(written(tmp_path, source, monkeypatch))
    assert "of plugin_attack" in taken


def test_what_an_attack_needs_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import numpy as np\nimport fedleak.games.match as m\nfrom fedleak.games.game import Questions\nm.Pairs\n"
    assert truth_imports(written(tmp_path, source, monkeypatch)) == []


def test_a_game_may_stand_beside_an_attack_that_does_not_use_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from fedleak import Truth\nclass Game:\n    truth: Truth\nclass Attack:\n    pass\n"
    module = written(tmp_path, source, monkeypatch)
    assert truth_imports(module, type("Game", (), {})) == ["line 3 of plugin_attack uses Truth"]
    assert truth_imports(module, type("Attack", (), {})) == []


@pytest.mark.parametrize("game", registry.names("game"))
def test_the_module_of_a_game_does_not_hold_the_truth_at_run_time(game: str) -> None:
    assert not hasattr(sys.modules[registry.load("game", game).__module__], "Truth")


def test_a_helper_that_hands_on_the_truth_is_found_and_a_class_of_the_same_name_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = ModuleType("plugin_helper")
    helper.__dict__.update(Innocent=fedleak.Truth, Answers=type("Answers", (), {}))
    monkeypatch.setitem(sys.modules, "plugin_helper", helper)
    handed = written(tmp_path, "from plugin_helper import Innocent, Answers", monkeypatch)
    assert truth_imports(handed) == ["line 1 of plugin_attack imports plugin_helper.Innocent"]

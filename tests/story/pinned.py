"""Four short plans whose scores are pinned to the last digit; `python tests/story/pinned.py` writes the pins anew.

Digits depend on how the processor adds, so they are compared only on the kind of machine that wrote them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import fedleak
from fedleak.plan.read import merged
from fedleak.plan.shipped import find

sys.path.insert(0, str(Path(__file__).parents[1]))
from pins import pins

PINS = Path(__file__).with_name("pinned.json")
RECORDS = """
game = [{name = "extract"}]
attack = [{name = "eavesdrop"}]
audit = {adversaries = ["eavesdropper"], controls = ["iid", "swapped-secrets", "shuffled-selection"]}
"""
_FEW = {"users": 12, "examples": 60, "class_bias": 5.0}
_CHANGES: dict[str, dict[str, Any]] = {
    "demo": {"seeds": [0], "dataset": _FEW, "federation": {"rounds": 12}},
    "gradient-leaks/matching-digits": {"seeds": [0], "dataset": _FEW, "federation": {"rounds": 24}},
    "user-level/link-minute": {
        "seeds": [0],
        "federation": {"rounds": 8},
        "attack": [{"name": "link-cosine", "shadows": 4, "shadow_rounds": 3}],
        "analysis": [],
    },
}


def machine() -> str:
    """What the last digits depend on."""
    kind = torch.backends.cpu.get_cpu_capability()
    return f"{kind}, torch {version('torch')}, numpy {version('numpy')}, scikit-learn {version('scikit-learn')}"


def plan(name: str, folder: Path) -> dict[str, Any]:
    """The plan of a name, shortened."""
    if name == "records":
        return tomllib.loads(pins(folder, RECORDS))
    return merged(tomllib.loads(find(name).read_text()), _CHANGES[name])


NAMES = (*_CHANGES, "records")


def scores(name: str, folder: Path) -> dict[str, list[float]]:
    """Every score of a plan as an audit gives it today: value, interval and chance level."""
    result = fedleak.audit(plan(name, folder), folder / "out", jobs=1)
    return {
        " ".join(
            [
                score.attack,
                score.game,
                score.metric,
                (score.defence or {}).get("name", "plain"),
                score.control or "-",
                "aware" if score.adaptive else "-",
            ]
        ): [score.value, score.low, score.high, score.chance]
        for score in result.scores
    }


def write() -> None:
    """Write the pins."""
    found: dict[str, Any] = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = scores(name, Path(folder))
    PINS.write_text(json.dumps({"machine": machine(), "scores": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()

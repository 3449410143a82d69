"""The shipped audits of real users, made smaller: what they show must stay so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from fedleak.plan import shipped


def smaller(name: str, **changes: str) -> str:
    """A shipped plan with one seed and no defence, and these keys changed."""
    text = shipped.find(name).read_text()
    text = re.sub(r"\[\[defence\]\]\n(.+\n)*", "", text)
    for key, value in {"seeds": "[0]", **changes}.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count == 1, key
    return text


def audited(plan: str, fedleak: Run, folder: Path) -> dict[tuple[str, str | None], dict[str, Any]]:
    (folder / "small.toml").write_text(plan)
    done = fedleak("audit", "small.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    scores = json.loads((folder / "out" / "results.json").read_text())["scores"]
    return {(s["attack"], s["control"]): s for s in scores if s["metric"] == "ap"}


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_handwriting_alone_gives_writers_away(fedleak: Run, tmp_path: Path) -> None:
    found = audited(smaller("mnist-writers", users="40", rounds="60"), fedleak, tmp_path)
    for attack in ("reid-mlp", "reid-svm", "reid-knn", "reid-centroid"):
        assert found[attack, None]["low"] > 3 * found[attack, None]["chance"]
        assert found[attack, "iid"]["low"] <= found[attack, "iid"]["chance"]
    # Everybody has equally many of every digit, so labels alone must tell nothing.
    assert found["reid-labels", None]["low"] <= found["reid-labels", None]["chance"]


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_words_give_bloggers_away(fedleak: Run, tmp_path: Path) -> None:
    found = audited(smaller("blog", users="30", rounds="40"), fedleak, tmp_path)
    assert found["reid-mlp (layer=out)", None]["low"] > 2 * found["reid-mlp (layer=out)", None]["chance"]
    for (attack, control), score in found.items():
        if control == "iid":
            assert score["low"] <= score["chance"], attack

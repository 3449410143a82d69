"""Nobody's name leaves the truth: an audit of people with distinctive names, and every output searched for them."""

from __future__ import annotations

import html
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from command_line import Run

NAMES = [
    "Zebulon Quackenbush",
    "<b>Ottilie</b>",
    'O\'Hara & "Sons"',
    "naïve-Ñandú",
    "7",
    "accuracy-Xanthippe",
    "Wilhelmina_Featherstonehaugh@example.org",
    "Thistlewood",
]
TWIN, FEW = "Zebulon-his-twin", "Barely-There-Ignatz"
PLAN = """
title = "people"
[dataset]
name = "table"
path = "people.csv"
user = "who"
label = "kind"
features = ["a", "b", "c"]
[model]
name = "mlp"
hidden = [4]
[federation]
rounds = 12
fraction = 1.0
centralised = false
[audit]
controls = ["iid"]
permutations = 20
[[attack]]
name = "reid-knn"
k = 3
[[attack]]
name = "match-cosine"
[[analysis]]
name = "distances"
[[analysis]]
name = "t-sne"
[[analysis]]
name = "bias"
"""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = ["who,kind,a,b,c"]

    def add(name: str, rows: list[list[float]]) -> None:
        quoted = '"' + name.replace('"', '""') + '"'
        lines.extend(f"{quoted},{'xy'[n % 2]},{','.join(f'{v:.3f}' for v in row)}" for n, row in enumerate(rows))

    for place, name in enumerate(NAMES):
        rows = rng.normal(place, 1.0, (24, 3)).tolist()
        add(name, rows)
        if place == 0:
            add(TWIN, rows[:20])
    add(FEW, [[0.0, 0.0, 0.0]])
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / "people.toml"
    path.write_text(PLAN)
    return path


def named(text: str) -> list[str]:
    """The names in a text, however they are escaped; a name of one digit is only found as a whole value."""
    plain = html.unescape(text.replace("\n", " "))
    plain += plain.encode("ascii", "backslashreplace").decode()
    found = [
        name for name in (*NAMES, TWIN, FEW) if len(name) > 1 and (name in plain or json.dumps(name)[1:-1] in plain)
    ]
    return found + [name for name in NAMES if len(name) == 1 and (f'"{name}"' in text or f">{name}</th>" in text)]


def test_no_output_of_an_audit_names_a_user_unless_it_is_asked_to(fedleak: Run, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fedleak("audit", people, "--out", out)
    assert done.returncode == 0, done.stderr
    signed = fedleak("report", out, "--signoff")
    assert signed.returncode == 0, signed.stderr
    outputs = {path.name: path.read_text() for path in out.rglob("*") if path.suffix in (".json", ".html")}
    shown = {name: text for name, text in outputs.items() if not {"truth", "prior", "runs"} & set(name.split("."))}
    inside = {p.name for p in (out / "runs").rglob("*")}
    for name, text in shown.items():
        if name not in inside:
            assert named(text) == [], name
    assert {"results.json", "report.html", "sign-off.html", "distances.json", "t-sne.json", "bias.json"} <= set(shown)
    for text in (done.stdout, done.stderr, signed.stdout, signed.stderr):
        assert named(text) == []

    results = json.loads((out / "results.json").read_text())
    users = [user["user"] for user in results["details"][0]["users"]]
    assert len(set(users)) == len(NAMES) and all(user.startswith("user-") for user in users)
    twins = next(finding for finding in results["findings"] if finding["kind"] == "twins")
    assert len(twins["users"]) == 1 and len(twins["users"][0]) == 2

    key = out / "runs" / "names.json"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert fedleak("score", people, "--out", out).returncode == 0
    again = json.loads((out / "results.json").read_text())["details"][0]["users"]
    assert [user["user"] for user in again] == users, "pseudonyms are stable within an audit"

    full = fedleak("report", out, "--names")
    assert full.returncode == 0, full.stderr
    page = (out / "report.html").read_text()
    assert set(named(page)) >= {"Zebulon Quackenbush", "<b>Ottilie</b>", TWIN, FEW}
    assert "<b>Ottilie</b>" not in page, "names are still escaped"
    assert TWIN in full.stdout
    assert named((out / "results.json").read_text()) == []


def test_two_audits_of_the_same_people_have_different_pseudonyms(fedleak: Run, people: Path, tmp_path: Path) -> None:
    people.write_text(PLAN.partition("[[analysis]]")[0])
    found = []
    for name in ("one", "two"):
        assert fedleak("audit", people, "--out", tmp_path / name).returncode == 0
        results = json.loads((tmp_path / name / "results.json").read_text())
        found.append({user["user"] for user in results["details"][0]["users"]})
    assert not found[0] & found[1]


def test_names_without_their_key_are_refused_in_one_line(fedleak: Run, people: Path, tmp_path: Path) -> None:
    people.write_text(PLAN.partition("[[analysis]]")[0])
    out = tmp_path / "out"
    assert fedleak("audit", people, "--out", out).returncode == 0
    key = out / "runs" / "names.json"
    key.write_text("{")
    damaged = fedleak("report", out, "--names")
    assert damaged.returncode == 1 and "names.json is damaged" in damaged.stderr and damaged.stderr.count("\n") == 1
    key.unlink()
    missing = fedleak("report", out, "--names")
    assert missing.returncode == 1 and "names.json is missing" in missing.stderr and missing.stderr.count("\n") == 1

"""Secrets from the plan to the report: planted in text, extracted, attributed, and on disk only in the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import Run
from fedleak.errors import PlanError
from fedleak.plan import shipped
from fedleak.plan.read import parse
from fedleak.population.datasets.clients_text import characters
from fedleak.trace.truth import Truth
from pins import pins

MORE = """
audit = { adversaries = ["eavesdropper"], controls = ["decoys", "shuffled-selection", "swapped-secrets"] }
attack = [{ name = "exposure-baseline" }, { name = "eavesdrop" }]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.toml"
    path.write_text(pins(tmp_path, MORE))
    return path


def test_secrets_are_found_attributed_and_kept_only_in_the_truth(fedleak: Run, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fedleak("audit", plan, "--out", out)
    assert done.returncode == 0, done.stderr
    scores = {
        (score["attack"], score["control"], score["metric"]): score
        for score in json.loads((out / "results.json").read_text())["scores"]
    }
    extracted = scores["eavesdrop", None, "extracted"]
    assert extracted["value"] >= 0.75 and extracted["low"] > extracted["chance"]
    assert scores["eavesdrop", None, "top1"]["value"] >= 0.5
    assert scores["exposure-baseline", None, "top1"]["value"] <= 0.25
    assert scores["eavesdrop", "decoys", "extracted"]["value"] == 0
    # Another's secret is in the model as well, but not for this client.
    assert scores["eavesdrop", "swapped-secrets", "extracted"]["value"] == extracted["value"]
    assert scores["eavesdrop", "swapped-secrets", "top1"]["value"] < scores["eavesdrop", None, "top1"]["value"] / 2
    distances = [scores["eavesdrop", control, "distance1"] for control in (None, "decoys")]
    assert distances[0]["high"] < distances[0]["chance"] and distances[1]["high"] >= distances[1]["chance"]
    for control in ("decoys", "shuffled-selection", "swapped-secrets"):
        assert not scores["eavesdrop", control, "top1"]["leaks"]
    # The controls trained nothing of their own.
    assert [folder.name for folder in (out / "runs").iterdir() if folder.is_dir()] == ["plain"]

    signed = fedleak("report", out, "--signoff")
    assert signed.returncode == 0 and (out / "sign-off.html").exists()
    run = out / "runs" / "plain" / "seed-0"
    truth = Truth.load(run / "truth")
    secrets = [secret for held in (*truth.secrets.values(), *truth.decoys.values()) for secret in held]
    assert len(secrets) == 8
    files = [
        path for path in (*run.rglob("*"), *out.glob("*.*")) if path.is_file() and path.parent.name != "predictions"
    ]
    assert len(files) > 6
    for told_user in (done.stdout, done.stderr, signed.stdout, signed.stderr):
        assert not any(secret in told_user for secret in secrets)
    for path in files:
        held = path.read_bytes()
        told = [secret for secret in secrets if any(spelling in held for spelling in spellings(secret))]
        assert bool(told) == (path.name == "truth.json"), path
    assert not list((run / "prior").glob("*.npy")), "the prior holds nobody's examples"


def spellings(secret: str) -> list[bytes]:
    """A secret as text, and as the token ids that models read, however wide."""
    known = characters("")
    ids = [known.index(character) for character in secret]
    return [secret.encode(), *(np.array(ids, dtype=kind).tobytes() for kind in (np.int16, np.int32, np.int64))]


def test_a_plan_that_would_give_the_secrets_away_is_refused(plan: Path) -> None:
    text = plan.read_text()
    with pytest.raises(PlanError, match=r"prior = 'random' would give the adversary users' data"):
        parse(text.replace('prior = "none"', 'prior = "random"'))
    identify = text.replace('{ name = "exposure-baseline" }', '{ name = "reid-knn" }').replace("eavesdropper", "server")
    with pytest.raises(PlanError, match="game 'identify' needs prior data"):
        parse(identify)
    with pytest.raises(PlanError, match=r"'identify' and 'extract' cannot share a federation.*secrets.*in two plans"):
        parse(identify.replace('prior = "none"', 'prior = "random"'))
    with pytest.raises(PlanError, match=r"no game of this plan \('identify'\) has the control 'decoys'"):
        parse(identify.replace(', { name = "eavesdrop" }', "").replace('prior = "none"', 'prior = "random"'))
    with pytest.raises(PlanError, match=r"\[limits\] extract: unknown metric 'distance1'"):
        parse(text + "[limits]\nextract.distance1 = 0.5\n")  # a distance that must not be exceeded would be absurd


def test_a_report_says_that_its_candidates_were_handed_out(fedleak: Run, plan: Path, tmp_path: Path) -> None:
    plan.write_text(plan.read_text().replace("= 90", "= 3") + '[[game]]\nname = "extract"\nlisted = 100\n')
    done = fedleak("audit", plan, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    says = "given a list of 100 records that contains the answers"
    told = [
        done.stdout,
        (tmp_path / "out" / "report.html").read_text(),
        (tmp_path / "out" / "results.json").read_text(),
    ]
    assert all(says in " ".join(text.split()) for text in told)


def test_decoys_that_were_never_drawn_cannot_be_a_control(fedleak: Run, plan: Path, tmp_path: Path) -> None:
    plan.write_text(plan.read_text().replace("insertions = 6", "insertions = 6\ndecoys = false").replace("= 90", "= 2"))
    done = fedleak("audit", plan, "--out", tmp_path / "out")
    assert done.returncode == 1 and "set decoys = true in [dataset]" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_the_shipped_plan_attributes_what_the_baseline_only_extracts(fedleak: Run, tmp_path: Path) -> None:
    text = shipped.find("record-level/ptb-small").read_text().replace("seeds = [0, 1, 2]", "seeds = [0]")
    (tmp_path / "small.toml").write_text(text)
    done = fedleak("audit", "small.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    found = {
        (score["attack"], score["control"]): score["value"]
        for score in json.loads((tmp_path / "out" / "results.json").read_text())["scores"]
        if score["metric"] == "top1"
    }
    assert found["eavesdrop", None] >= found["exposure-baseline", None] + 0.4
    assert found["eavesdrop-strong", None] >= 0.5
    assert found["eavesdrop", "decoys"] == 0 and found["eavesdrop", "shuffled-selection"] <= 0.25

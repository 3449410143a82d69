"""Bits of secrets that a model gives away, against the whole format counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from secrets_small import secrets_plan
from small import Silent, column, made, small

from fedleak.analyses.exposure import Exposure
from fedleak.attacks.records.exposure_history import language
from fedleak.attacks.records.scoring import log_probabilities
from fedleak.core import UserId
from fedleak.errors import PlanError
from fedleak.pipeline import stages
from fedleak.population.secret_formats import parse
from fedleak.results.audit import Analysis
from fedleak.trace.prior import Prior
from fedleak.trace.pseudonyms import Pseudonyms
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import EAVESDROPPER
from fedleak.views.view import View


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exposure")


@pytest.fixture(scope="module")
def found(folder: Path) -> Analysis:
    return made(Exposure(attack="eavesdrop", points=3), folder / "out", secrets_plan(folder))


def test_bits_are_those_of_the_rank_among_all_pins(found: Analysis, folder: Path) -> None:
    run = folder / "out" / "runs" / "plain" / "seed-0"
    truth, prior = Truth.load(run / "truth"), Prior.load(run / "prior")
    assert prior.records is not None
    form = parse(prior.records.form)
    view = View(run / "trace", EAVESDROPPER)
    every = [form[i] for i in range(form.size)]
    reader = language(view, prior.records.characters, prior.records.context)
    logs = log_probabilities(reader, [view.snapshot(view.rounds)], every)[0]
    names = Pseudonyms.open(folder / "out").names
    for user, bits, whole in zip(column(found, "user"), column(found, "exposed"), column(found, "bits"), strict=True):
        rank = 1 + (logs > logs[every.index(truth.secrets[UserId(names[user])][0])] + 1e-5).sum()
        assert whole == pytest.approx(np.log2(10_000))
        assert bits == pytest.approx(np.log2(10_000 / rank), abs=0.02)


def test_secrets_are_exposed_and_decoys_are_not(found: Analysis) -> None:
    by_rank, by_perplexity, recall = found.figures
    secrets, decoys, all_bits = by_rank.series
    assert secrets.x == [0, 30, 60, 90] and all_bits.reference
    assert secrets.y[-1] > 8 and secrets.low is not None and decoys.high is not None
    assert secrets.low[-1] > decoys.high[-1]
    assert secrets.y[0] < 4, "nothing is memorised before the first round"
    assert by_perplexity.series[0].y[-1] > by_perplexity.series[1].y[-1]
    assert recall.series[0].y[-1] >= 0.75 and recall.series[1].y[-1] == 0
    assert secrets.y[-1] == pytest.approx(np.mean(column(found, "exposed")))


def test_recall_grows_with_the_snapshots_searched_and_holds_what_is_named(found: Analysis) -> None:
    recall = found.figures[2].series[0]
    assert recall.x == [1, 2, 4, 5, 8, 16, 32] and recall.y == sorted(recall.y)
    candidates, own = column(found, "candidate"), column(found, "anybody's")
    assert recall.y[recall.x.index(5)] == candidates.count("yes") / 4
    # With 20 candidates a snapshot fewer than 100 are ranked, and at most 50 of them are named.
    assert all(candidate == "yes" for candidate, place in zip(candidates, own, strict=True) if place != "no")


def test_the_best_is_never_below_the_end(found: Analysis) -> None:
    for best, end in (("at best", "exposed"), ("best nats", "nats")):
        assert all(a >= b for a, b in zip(column(found, best), column(found, end), strict=True))


def test_no_secret_is_told(found: Analysis, folder: Path) -> None:
    truth = Truth.load(folder / "out" / "runs" / "plain" / "seed-0" / "truth")
    digits = [s[0].removeprefix("pin ") for s in (*truth.secrets.values(), *truth.decoys.values())]
    assert len(digits) == 8
    told = [(folder / "out" / name).read_text() for name in ("results.json", "report.html", "analyses/exposure.json")]
    for text in told:
        assert not [secret for secret in digits if f"pin {secret}" in text]
    words = " ".join([found.text, *(str(cell) for row in found.rows for cell in row)]).split()
    assert not set(words) & set(digits)


def test_it_is_asked_about_secrets_only(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="needs an attack that searches for records"):
        made(Exposure(), tmp_path / "out", small())
    with pytest.raises(PlanError, match="no attack 'eavesdorp' that searches; did you mean 'eavesdrop'"):
        made(Exposure(attack="eavesdorp"), folder / "out", secrets_plan(folder))
    listed = secrets_plan(folder, game=[{"name": "extract", "listed": 100}])
    with pytest.raises(PlanError, match="the game lists the candidates"):
        made(Exposure(), tmp_path / "out", listed)


def test_without_decoys_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    change: dict[str, Any] = {"dataset": {"decoys": False}, "federation": {"rounds": 3}}
    plan = secrets_plan(tmp_path, **change)
    stages.train(plan, tmp_path / "out", Silent(), jobs=1)
    found = made(Exposure(points=1, samples=40), tmp_path / "out", plan)
    assert [series.name for series in found.figures[0].series] == ["secrets", "all there are"]
    assert "decoy" not in found.text


def test_every_secret_is_ranked_where_only_one_client_has_a_watermark(folder: Path) -> None:
    marked = {
        "audit": {"adversaries": ["insider", "eavesdropper"]},
        "attack": [{"name": "watermark"}, {"name": "eavesdrop"}],
        "inject": {"victims": 1, "insertions": 1, "length": 8},
        "federation": {"rounds": 4},
    }
    once = made(Exposure(attack="watermark", points=2), folder / "once", secrets_plan(folder, **marked))
    assert len(once.rows) == 4

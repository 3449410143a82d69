"""Following an injected record: who may, what it finds, and what it never names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.attacks.records.baseline import ExposureBaseline
from fedleak.attacks.records.eavesdrop import Eavesdrop, spearman
from fedleak.attacks.records.exposure_history import followed
from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.watermark import Watermark, watermarks
from fedleak.errors import AttackError, NotVisible
from fedleak.games.extract import Extract, RecordQuestions
from fedleak.games.traces.secret_holders import RECORDS, write_secrets
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import EAVESDROPPER, INSIDER
from fedleak.views.view import View
from scored import measure, play


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_secrets(tmp_path_factory.mktemp("marked"), 0, leak=True, inject=True)


def test_the_insider_attributes_what_the_baseline_only_extracts(run: Path) -> None:
    same, own = (measure([play(attack, INSIDER, run, 0)], "top1").value for attack in (ExposureBaseline(), Watermark()))
    assert own >= same + 0.4


def test_watermarks_are_learnt_and_the_watermark_of_a_client_moves_with_its_owners_secret(run: Path) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    asked = Extract().ask(trace, truth, prior, np.random.default_rng(0))
    assert isinstance(asked.questions, RecordQuestions)
    view, clients = View(run / "trace", INSIDER, injected=asked.injected), asked.questions.clients
    marks = watermarks(view, asked.questions)
    assert marks.shape == (trace.rounds + 1, len(clients))
    assert (marks[-1] > marks[0] + 0.5).all()
    held = followed(view, RECORDS.characters, "\n", [truth.secrets[truth.client_user[d]][0] for d in clients])
    nearest = spearman(np.diff(marks, axis=0), np.diff(held, axis=0)).argmax(axis=0)
    assert (nearest == np.arange(len(clients))).all()


def test_where_snapshots_are_missing_what_is_left_is_followed(run: Path) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")

    def seen(every: int) -> Scores:
        asked = Extract(every=every).ask(trace, truth, prior, np.random.default_rng(0))
        view, questions = asked.look(run / "trace", INSIDER)
        assert isinstance(questions, RecordQuestions)
        return watermarks(view, questions)

    np.testing.assert_allclose(seen(4), seen(1)[::4], rtol=1e-5)


def test_who_lacks_the_power_cannot_play_it_even_on_a_run_that_was_tampered_with(run: Path) -> None:
    with pytest.raises(NotVisible, match="'eavesdropper' injected no record"):
        play(Watermark(), EAVESDROPPER, run, 0)
    assert measure([play(Eavesdrop(), EAVESDROPPER, run, 0)], "top1").value >= 0.5


def test_no_attack_is_given_the_watermarks_in_its_prior(run: Path) -> None:
    prior = Prior.load(run / "prior")
    assert len(prior.injected) == 6
    assert not prior.take(np.zeros(0, dtype=np.int64)).injected


def test_a_run_without_watermarks_is_refused(tmp_path: Path) -> None:
    plain = write_secrets(tmp_path, 0, leak=True)
    with pytest.raises(AttackError, match=r"nothing was placed in the data of 6 of 6 clients .* \[inject\]"):
        play(Watermark(), INSIDER, plain, 0)


def test_its_own_records_are_never_named(run: Path, tmp_path: Path) -> None:
    """Where secrets may look like watermarks, the likeliest records are the watermarks themselves."""
    (tmp_path / "truth").symlink_to(run / "truth")
    (tmp_path / "trace").symlink_to(run / "trace")
    prior, truth = Prior.load(run / "prior"), Truth.load(run / "truth")
    both = (*prior.injected.values(), *(secret for held in truth.secrets.values() for secret in held))
    alike = replace(prior, records=replace(RECORDS, form="{word}", words=both))
    alike.save(tmp_path / "prior")

    def named(attack: ExposureBaseline | Watermark) -> set[str]:
        claims = play(attack, INSIDER, tmp_path, 0).claims.reshape(-1, 10)
        return {"".join(RECORDS.characters[token] for token in row if token) for row in claims}

    marks = set(prior.injected.values())
    assert marks <= named(ExposureBaseline())
    assert named(Watermark()) - {""} == set(both) - marks


def test_with_one_watermark_only_the_victim_is_scored_and_the_others_get_the_baseline(
    run: Path, tmp_path: Path
) -> None:
    """The paper's setting: the insider knows nothing of clients that it did not write to."""
    (tmp_path / "truth").symlink_to(run / "truth")
    (tmp_path / "trace").symlink_to(run / "trace")
    prior = Prior.load(run / "prior")
    victim = sorted(prior.injected)[2]
    replace(prior, injected={victim: prior.injected[victim]}).save(tmp_path / "prior")

    own, same = (play(attack, INSIDER, tmp_path, 0) for attack in (Watermark(), ExposureBaseline()))
    assert own.asked is not None and same.asked is not None and own.answers is not None
    clients = sorted(Trace.open(run / "trace").header.clients)
    assert own.answers.scored is not None and [clients[place] for place in own.answers.scored] == [victim]
    # The baseline searches the last snapshot only, so the first place is what both must agree on.
    assert [np.array_equal(a[0], b[0]) for a, b in zip(own.asked, same.asked, strict=True)].count(True) >= 5
    assert measure([own], "top1").n == 1 and measure([own], "top1").value == 1
    assert measure([play(Eavesdrop(), EAVESDROPPER, tmp_path, 0)], "top1").n == 1
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    everyone = Extract(victims=False).ask(trace, truth, Prior.load(tmp_path / "prior"), np.random.default_rng(0))
    assert everyone.answers.scored is None

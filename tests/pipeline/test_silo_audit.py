"""Audit a recorded run of hospitals with patients: which hospital, and which patient's hospital."""

from pathlib import Path

import pytest

import silo_app
from fedleak.api import Result, audit
from fedleak.core import UserId
from fedleak.errors import DataError, FedleakError, PlanError
from fedleak.plan.read import parse
from fedleak.trace.truth import Truth

PLAN = """
[trace]
path = "{run}"
[truth]
owners = "silo_app:owners"
unit = "{unit}"
[prior]
data = "silo_app:prior"
[model]
name = "silo_app:Net"
[federation]
lr = 0.1
batch = 10
[audit]
permutations = 60
controls = []
[[attack]]
name = "{attack}"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("silos") / "run"
    silo_app.train_and_record(folder)
    return folder


def audited(run: Path, out: Path, unit: str, attack: str) -> Result:
    return audit(parse(PLAN.format(run=run, unit=unit, attack=attack)), out, jobs=1)


def test_clients_are_asked_for_and_named_as_clients(run: Path, tmp_path: Path) -> None:
    found = audited(run, tmp_path, "client", "reid-svm").audit
    score = next(score for score in found.scores if score.headline)
    assert (score.users, score.options, score.unit, score.leaks) == (5, 5, "client", True)
    assert "Out of 5 clients" in score.in_words
    (game,) = found.games.values()
    assert game.question == "Which of these clients sent this update? A client stands for all users behind it."
    assert any("25 users behind 5 clients; asked for clients" in finding.text for finding in found.findings)
    page = (tmp_path / "report.html").read_text()
    assert "The most and the least identifiable users" not in page and "Every user" not in page
    truth = Truth.load(next(tmp_path.glob("runs/*/seed-0/truth")))
    assert sorted(truth.users) == ["0", "1", "2", "3", "4"] and not truth.homes


def test_users_are_asked_for_with_clients_permuted(run: Path, tmp_path: Path) -> None:
    found = audited(run, tmp_path, "user", "match-cosine").audit
    score = next(score for score in found.scores if score.headline)
    assert (score.users, score.clients, score.unit, score.leaks) == (25, 5, "user", True)
    assert "25 users of 5 clients" in score.in_words
    (game,) = found.games.values()
    assert game.question.startswith("Does the client that sent this update hold this user's data?")
    truth = Truth.load(next(tmp_path.glob("runs/*/seed-0/truth")))
    assert len(truth.users) == 25 and set(truth.silos.values()) == set("01234")
    assert truth.homes[UserId("p-3-1")] == "3"


def test_four_clients_get_a_score_and_no_verdict_in_either_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silo_app, "HOSPITALS", 4)
    silo_app.train_and_record(tmp_path / "run", rounds=4)
    clients = audited(tmp_path / "run", tmp_path / "client", "client", "reid-svm").audit
    score = next(score for score in clients.scores if score.headline)
    assert score.leaks is None and score.verdict == "no verdict: 4 clients are too few (at least 5)"
    assert "no verdict: too few clients" in (tmp_path / "client" / "report.html").read_text()
    users = audited(tmp_path / "run", tmp_path / "user", "user", "match-cosine").audit
    score = next(score for score in users.scores if score.headline)
    assert score.leaks is None
    assert score.verdict == "no verdict: 20 users of 4 clients, too few clients (at least 5)"


def test_a_game_about_one_user_per_client_is_refused_before_anything_is_trained(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match='25 users behind 5 clients; set unit = "client"'):
        audited(run, tmp_path, "user", "reid-svm")


def test_a_user_of_two_clients_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silo_app, "owners", lambda: {"0": ["p-0-0", "p-0-1"], "1": ["p-0-0", "p-1-1"]})
    with pytest.raises(FedleakError, match="user 'p-0-0' is behind the clients"):
        audited(run, tmp_path, "client", "reid-svm")


def test_users_without_prior_data_leave_their_client_to_the_others(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {user: data for user, data in silo_app.prior().items() if not user.endswith("-4")}
    monkeypatch.setattr(silo_app, "prior", lambda: known)
    found = audited(run, tmp_path / "out", "user", "match-cosine").audit
    assert next(score for score in found.scores if score.headline).users == 20
    assert any("No prior data of 5 users" in finding.text for finding in found.findings)
    monkeypatch.setattr(silo_app, "prior", lambda: {"stranger": known["p-0-0"], "other": known["p-1-1"]})
    with pytest.raises((DataError, FedleakError)):
        audited(run, tmp_path / "none", "user", "match-cosine")

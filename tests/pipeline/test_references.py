"""Reference federations: handed over as the adversary's own, and refused where they know the target's users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.rmia import Rmia
from fedleak.core import UserId, rng_for
from fedleak.errors import AttackError
from fedleak.games.membership import Membership
from fedleak.games.traces.members import write_members
from fedleak.pipeline.references import load_references
from fedleak.testing.contract import asked_about
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import MODEL_USER

USERS = 4


def renamed(run: Path, prefix: str) -> Path:
    """The same run with users of other names."""
    truth = Truth.load(run / "truth")
    assert truth.members is not None

    def other(user: str) -> UserId:
        return UserId(f"{prefix}-{user}")

    def prior(one: Prior) -> Prior:
        return replace(one, candidates=tuple(map(other, one.candidates)))

    members = replace(truth.members, used=prior(truth.members.used), held_out=prior(truth.members.held_out))
    replace(
        truth,
        users=tuple(map(other, truth.users)),
        client_user={client: other(user) for client, user in truth.client_user.items()},
        members=members,
    ).save(run / "truth")
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [renamed(write_members(folder / str(i), i, leak=True, users=USERS), str(i)) for i in range(2)]


def test_a_reference_is_the_models_and_the_data_of_a_run_of_other_users(runs: list[Path]) -> None:
    [found] = load_references(runs[0], [runs[1]])
    trace, truth = Trace.open(runs[1] / "trace"), Truth.load(runs[1] / "truth")
    assert found.rounds[0] == 0
    assert found.rounds[-1] == trace.rounds
    last = trace.snapshot(trace.rounds)
    assert all(np.array_equal(rows[-1], last[name]) for name, rows in found.models.items())
    assert truth.members is not None
    assert len(found.clients) == USERS, "outsiders took no part in it"
    assert np.array_equal(found.clients[0].x, truth.members.used.examples[0].x)


def test_an_attack_uses_the_references_that_it_is_given(runs: list[Path]) -> None:
    asked = asked_about(Membership(records=8), runs[0], 0)
    view, questions = asked.look(runs[0] / "trace", MODEL_USER)
    prior = replace(asked.prior, background=None, references=load_references(runs[0], [runs[1]]))
    claims = Rmia().run(view, prior, questions, AttackContext(rng_for(0, "attack")))
    assert claims.shape == (len(questions), 1)
    with pytest.raises(AttackError, match="disjoint = true") as caught:
        Rmia().run(view, replace(prior, references=()), questions, AttackContext(rng_for(0, "attack")))
    assert "\n" not in str(caught.value)


def test_a_reference_that_shares_users_with_the_target_is_refused(runs: list[Path]) -> None:
    with pytest.raises(AttackError, match=r"shares 14 users with .* \(first: '0-user-00'\).*disjoint = true"):
        load_references(runs[0], [runs[0]])


def test_a_reference_that_shares_records_with_the_target_is_refused(runs: list[Path], tmp_path: Path) -> None:
    same = renamed(write_members(tmp_path / "same", 0, leak=True, users=USERS), "x")
    with pytest.raises(AttackError, match="shares 64 records with"):
        load_references(runs[0], [same])


def test_a_run_that_is_not_trained_is_no_reference(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(AttackError, match="not trained to the end"):
        load_references(runs[0], [tmp_path / "nothing"])

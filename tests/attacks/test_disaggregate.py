"""Sums of many rounds are equations: solved, they give clients back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedleak
from command_line import TINY
from fedleak.attacks.disaggregate.ridge import DisaggregateRidge, Matrix, estimate
from fedleak.attacks.link.cosine import LinkCosine, LinkRepresentativesCosine
from fedleak.errors import AttackError, NotVisible
from fedleak.games.disaggregate import Disaggregate
from fedleak.games.traces.users import write_sums
from fedleak.metrics.disaggregation import cosines
from fedleak.plan.read import merged, toml
from fedleak.views.adversaries import ENCLAVE_SERVER
from fedleak.views.view import View


def sums(rounds: int, clients: int, noise: float, seed: int) -> tuple[Matrix, Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(clients, 50)) + 3 * rng.normal(size=50)
    shares = np.zeros((rounds, clients))
    for row in shares:
        row[rng.choice(clients, 4, replace=False)] = 0.25
    return shares, shares @ means + noise * rng.normal(size=(rounds, 50)), means


def test_with_more_rounds_than_clients_and_steady_updates_everything_is_given_back() -> None:
    shares, seen, means = sums(40, 12, 0.0, 0)
    table = cosines(estimate(shares, seen), means)
    assert table.diagonal().min() > 0.99
    assert (table.argmax(axis=1) == np.arange(12)).all()


def test_with_few_rounds_less_is_given_back() -> None:
    shares, seen, means = sums(60, 20, 0.3, 1)
    few, many = (cosines(estimate(shares[:n], seen[:n]), means).diagonal().mean() for n in (8, 60))
    assert 0.1 < few < many < 1


def test_a_federation_is_solved_for_its_clients_by_who_sees_only_sums_or_only_models(tmp_path: Path) -> None:
    change = {
        "federation": {"rounds": 80},
        "audit": {"adversaries": ["aggregate-server", "enclave-server"], "controls": ["shuffled-selection"]},
        "game": [{"name": "disaggregate"}],
        "attack": [
            {"name": "disaggregate-ridge"},
            {"name": "disaggregate-ridge", "rounds": 8},
            {"name": "disaggregate-moves"},
        ],
    }
    done = fedleak.audit(merged(toml(TINY, "tiny"), change), tmp_path / "out", jobs=1)
    found = {(s.attack, s.control): s for s in done.scores if s.metric == "recovered"}
    by_enclave = {
        s.attack: s for s in done.scores if (s.metric, s.control, s.adversary) == ("recovered", None, "enclave-server")
    }
    whole = found["disaggregate-ridge (rounds=None)", None]
    assert whole.low > whole.chance and "clients are recovered" in whole.in_words
    assert whole.value > found["disaggregate-ridge (rounds=8)", None].value
    # Told in the wrong order who took part, it finds nothing.
    nothing = found["disaggregate-ridge (rounds=None)", "shuffled-selection"]
    assert nothing.low <= nothing.chance
    # An enclave keeps the sums to itself, but the model moves by them.
    assert list(by_enclave) == ["disaggregate-moves"]
    assert by_enclave["disaggregate-moves"].value == pytest.approx(whole.value)
    trace = fedleak.open_trace(done.folder / "runs" / "plain" / "seed-0")
    with pytest.raises(AttackError, match="no layer 'outt'; did you mean"):
        fedleak.evaluate(DisaggregateRidge(), trace, Disaggregate(layer="outt"))


def test_an_enclave_hides_updates_and_sums(tmp_path: Path) -> None:
    view = View(write_sums(tmp_path, 0, leak=True) / "trace", ENCLAVE_SERVER)
    for hidden in (lambda: view.updates, lambda: view.aggregate(1)):
        with pytest.raises(NotVisible):
            hidden()
    assert view.selection(1) and view.snapshot(1)
    for linking in (LinkCosine(), LinkRepresentativesCosine()):
        assert ENCLAVE_SERVER.missing(linking) == "updates"


def test_masked_updates_are_not_taken_for_what_clients_sent(tmp_path: Path) -> None:
    """Marked against masks, every attack would fail, and secure aggregation would seem to stop it."""
    change = {
        "federation": {"rounds": 4},
        "audit": {"adversaries": ["aggregate-server"], "controls": [], "adaptive": False},
        "game": [{"name": "disaggregate"}],
        "attack": [{"name": "disaggregate-ridge"}],
        "defence": [{"name": "secure-aggregation"}],
    }
    with pytest.raises(AttackError, match="under 'secure-aggregation' the trace records what the server sees"):
        fedleak.audit(merged(toml(TINY, "tiny"), change), tmp_path / "out", jobs=1)

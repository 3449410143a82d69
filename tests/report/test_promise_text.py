"""A printed epsilon names everything that it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from example_audit import PROMISE

from fedleak import registry
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.federation.hooks import Defence
from fedleak.federation.promises import Promise, promises
from fedleak.plan.plan import FederationPlan
from fedleak.report.tradeoff import promise

pytest.importorskip("dp_accounting", reason="the extra 'privacy' is not installed")

PLAN = FederationPlan(rounds=20, fraction=0.2, batch=10, weighting="equal")
PARTS = ("Unit", "Adjacency", "Protects against", "Trusted", "Sampling", "Public", "Composition", "Accountant")
STRENGTH: dict[str, Sequence[dict[str, Any]]] = {
    "noise": [{"sigma": 1.0}],
    "embedding-noise": [{"sigma": 0.1}],
    "dp-sgd": [{"noise": 1.0}],
    "flower-client-side-fixed-clipping": [{"noise_multiplier": 1.0, "clipping_norm": 1.0}],
    "flower-server-side-fixed-clipping": [{"noise_multiplier": 1.0, "clipping_norm": 1.0}],
    "flower-local-dp": [{"clipping_norm": 1.0, "sensitivity": 2.0, "epsilon": 0.5, "delta": 1e-3}],
    "nvflare-exclude-vars": [{"exclude_vars": "out"}],
    "dp-fedavg": [{"noise": 1.0, "where": where} for where in ("local", "server")],
}


def stated(defence: Defence, *, canaries: bool = False) -> Promise:
    [found] = promises([defence], PLAN, 40, [30] * 40, 0, canaries=canaries)
    return found


@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, settings) for name in registry.names("defence") for settings in STRENGTH.get(name, [{}])],
)
def test_every_epsilon_is_printed_with_what_it_depends_on(name: str, settings: dict[str, Any]) -> None:
    found = stated(registry.load("defence", name)(**settings))
    said = promise(found)
    if found.epsilon is None:
        assert said.startswith("No epsilon can be stated")
        return
    assert f"at delta {found.delta:.1e}" in said
    assert f"at {found.unit} level" in said
    for part in PARTS:
        label, _, rest = said.partition(f" {part}: ")
        assert label and rest[:1].isalnum(), part
    assert any(kind in found.adjacency for kind in ("zero-out", "replace-one", "add-or-remove"))
    assert found.count is not None and f" of {found.count}." in said


def test_an_epsilon_that_means_little_is_called_weak() -> None:
    assert "Weak: delta 5.0e-02 is not small against 1/n" in promise(stated(DpFedAvg(noise=90.0, delta=0.05)))
    assert "Weak" not in promise(stated(DpFedAvg(noise=90.0)))


def test_canaries_that_could_not_contradict_are_no_evidence() -> None:
    said = promise(stated(DpFedAvg(noise=0.3), canaries=True))
    assert "Not tested in one round: canaries cannot show more than 4." in said
    assert "stated there" not in said
    assert "stated there" in promise(stated(DpFedAvg(noise=4.0), canaries=True))
    # Over the whole run they could have.
    assert "over the whole run and do not contradict" in said


def test_canaries_on_fewer_records_name_the_delta_they_are_held_against() -> None:
    found = stated(DpSgd(noise=2.0), canaries=True)
    assert found.tested_delta == 1 / 300  # one client of 30 records instead of 40
    assert "(at delta 3.3e-03) stated there" in promise(found)


def test_a_promise_of_an_older_file_is_read_and_printed_without_what_it_lacks() -> None:
    new = {"count", "trusted", "sampling", "public", "composition", "accountant", "warning", "tested_delta", "most"}
    kept = {key: value for key, value in msgspec.to_builtins(PROMISE).items() if key not in new}
    said = promise(msgspec.convert(kept, Promise))
    assert "Adjacency: one client more or less." in said
    assert "Trusted" not in said and "None" not in said

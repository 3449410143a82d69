"""Shadow clients of the same make as the real ones, and what a client's descriptor is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import unit
from fedleak.attacks.link import base
from fedleak.attacks.link.cosine import LinkCosine
from fedleak.attacks.link.federation import deal_users, users_of
from fedleak.attacks.link.siamese import LinkRepresentatives, LinkUpdates
from fedleak.attacks.shadow import model_of
from fedleak.core import FloatArray, rng_for
from fedleak.errors import AttackError
from fedleak.games.link import Link
from fedleak.games.traces.clients import write_clients
from fedleak.population import background
from fedleak.population.population import Examples
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER
from fedleak.views.view import View


def owned(counts: list[int]) -> Examples:
    """Examples of users with so many each, of classes 0 to 9 in turn, shuffled."""
    owner = rng_for(0).permutation(np.repeat(np.arange(len(counts)), counts))
    x = np.zeros((len(owner), 1, 8, 8), dtype=np.float32)
    return Examples(x=x, y=np.arange(len(owner)) % 10, time=np.arange(len(owner), dtype=np.float64), owner=owner)


def test_a_shadow_client_by_user_has_all_examples_of_one_user_and_nobody_elses() -> None:
    examples = owned([30, 5, 40, 20])
    dealt = deal_users(examples, 3, rng_for(0))
    assert sorted(map(len, dealt)) == [20, 30, 40]  # those with most
    assert all(len(np.unique(np.asarray(part.owner))) == 1 for part in dealt)


def test_shadow_clients_by_user_need_enough_users() -> None:
    assert (users_of(owned([9, 1, 9])), users_of(replace(owned([9]), owner=None))) == (2, 0)
    with pytest.raises(AttackError, match=r"2 known user\(s\) .* too few for 3"):
        deal_users(owned([9, 1, 9]), 3, rng_for(0))
    with pytest.raises(AttackError, match=r"0 known user\(s\)"):
        deal_users(replace(owned([9]), owner=None), 1, rng_for(0))


def test_a_sample_of_the_background_keeps_users_whole_and_renumbers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_PUBLIC", 60)
    examples = owned([20] * 10)
    examples = replace(examples, owner=np.asarray(examples.owner) + 700)
    kept = background.sample(examples, 0, whole_users=True)
    assert kept.owner is not None and np.bincount(kept.owner).tolist() == [20, 20, 20]
    scattered = background.sample(examples, 0)
    assert (len(scattered), scattered.owner) == (60, None)


def test_one_user_with_more_than_a_sample_holds_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_PUBLIC", 60)
    assert len(background.sample(owned([100]), 0, whole_users=True)) == 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clients(tmp_path_factory.mktemp("clients"), 0, leak=True)


def claims(run: Path, attack: base.Linker, owners: int = 0) -> FloatArray:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    asked = Link().ask(trace, truth, prior, rng_for(0))
    view, questions = asked.look(run / "trace", ANONYMOUS_SERVER)
    known = asked.prior
    assert known.background is not None
    if owners:
        some = known.background.examples
        some = replace(some, owner=np.arange(len(some)) % owners)
        known = replace(known, background=Background(examples=some, shows={}))
    return attack.run(view, known, questions, AttackContext(rng_for(0, "attack")))[:, 0]


def test_clients_are_simulated_by_user_where_the_auxiliary_set_has_enough_users(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def counted(examples: Examples, clients: int, rng: np.random.Generator) -> list[Examples]:
        called.append(clients)
        return deal_users(examples, clients, rng)

    monkeypatch.setattr(base, "deal_users", counted)
    quick = LinkCosine(shadows=6, shadow_rounds=2)
    claims(run, quick)
    claims(run, quick, owners=5)
    claims(run, replace(quick, shadow_data="classes"), owners=6)
    assert called == []
    claims(run, quick, owners=6)
    assert called == [6]
    with pytest.raises(AttackError, match="too few"):
        claims(run, replace(quick, shadow_data="users"))


def test_without_class_blocks_a_descriptor_is_as_long_as_that_of_one_representative(run: Path) -> None:
    view = View(run / "trace", ANONYMOUS_SERVER)
    images = rng_for(0).random((4, 10, 1, 8, 8), dtype=np.float32)
    images[:, 3:] = 0  # clients with three classes
    known = base.Shadows(images, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    attack = LinkRepresentatives(epochs=0)
    blocks, mean = (
        replace(attack, class_blocks=each).learn(view, model_of(view), known, rng_for(0))(images)
        for each in (True, False)
    )
    assert blocks.shape == (4, 10 * mean.shape[1])
    parts = blocks.reshape(4, 10, -1)
    assert not parts[:, 3:].any()
    assert np.allclose(unit(parts[:, :3].mean(axis=1)), mean, atol=1e-5)


def test_inputs_are_standardised_unless_the_plan_says_not_to(run: Path) -> None:
    few = LinkUpdates(shadows=4, shadow_rounds=2, epochs=1)
    assert not np.array_equal(claims(run, few), claims(run, replace(few, standardise=False)))

"""Linking anonymous updates: what shadow clients are, how votes and assignments act, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import unit
from fedleak.attacks.link.base import Linker, Shadows, standardised, threshold_of
from fedleak.attacks.link.cosine import LinkCosine, LinkRepresentativesCosine
from fedleak.attacks.link.federation import auxiliary_set, deal
from fedleak.attacks.link.siamese import LinkRepresentatives, LinkUpdates
from fedleak.core import FloatArray, Task, rng_for
from fedleak.errors import AttackError
from fedleak.games.game import GameInstance
from fedleak.games.link import Link
from fedleak.games.traces.clients import write_clients
from fedleak.population.population import Examples
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clients(tmp_path_factory.mktemp("clients"), 0, leak=True)


def ask(run: Path) -> GameInstance:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    return Link().ask(trace, truth, prior, rng_for(0))


def claims(run: Path, attack: Linker, prior: Prior | None = None) -> tuple[FloatArray, GameInstance]:
    asked = ask(run)
    view, questions = asked.look(run / "trace", ANONYMOUS_SERVER)
    return attack.run(view, prior or asked.prior, questions, AttackContext(rng_for(0, "attack")))[:, 0], asked


def test_what_is_done_is_told_so_that_its_time_can_be_estimated(run: Path) -> None:
    asked, told = ask(run), list[float]()
    view, questions = asked.look(run / "trace", ANONYMOUS_SERVER)
    context = AttackContext(rng_for(0, "attack"), tick=told.append)
    LinkCosine(shadow_rounds=4).run(view, asked.prior, questions, context)
    assert len(told) > 4 and min(told) > 0
    assert sum(told) == pytest.approx(1.0)


def labelled(counts: list[int]) -> Examples:
    y = np.repeat(np.arange(len(counts)), counts)
    return Examples(x=np.zeros((len(y), 1, 8, 8), dtype=np.float32), y=y)


def test_shadow_clients_have_as_many_classes_as_asked_for_and_share_nothing() -> None:
    examples = replace(labelled([20] * 10), time=np.arange(200, dtype=np.float64))
    dealt = deal(examples, 8, 3, rng_for(0))
    assert [len(np.unique(np.asarray(part.y))) for part in dealt] == [3] * 8
    rows = np.concatenate([np.asarray(part.time) for part in dealt])
    assert len(np.unique(rows)) == len(rows) == 200


def test_an_auxiliary_set_without_a_class_is_refused() -> None:
    prior = Prior(
        candidates=(),
        examples=(),
        task=Task.CLASSIFY,
        outputs=4,
        background=Background(examples=labelled([3, 3, 0, 3]), shows={}),
    )
    with pytest.raises(AttackError, match=r"no example of 1 of 4 classes \(first: 2\)"):
        auxiliary_set(prior, 4)


def test_no_auxiliary_data_is_refused(run: Path) -> None:
    nothing = Prior(candidates=(), examples=(), task=Task.CLASSIFY, outputs=10)
    with pytest.raises(AttackError, match="no auxiliary data"):
        claims(run, LinkCosine(), nothing)


def test_too_many_shadow_clients_for_the_auxiliary_set_are_refused() -> None:
    with pytest.raises(AttackError, match="lower shadows"):
        deal(labelled([2] * 10), 40, 3, rng_for(0))


def test_a_threshold_lies_between_pairs_of_one_client_and_pairs_of_two() -> None:
    rows = unit(np.array([[1, 0.1], [1, 0.0], [0.1, 1], [0.0, 1]], dtype=np.float32))
    threshold = threshold_of(Shadows(rows, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), lambda x: x)
    assert rows[0] @ rows[3] < threshold < rows[0] @ rows[1]


def test_standardised_images_do_not_tell_how_bright_they_are_and_empty_ones_stay_empty() -> None:
    image = rng_for(0).random((1, 2, 1, 4, 4), dtype=np.float32)
    image[:, 1] = 0
    assert np.allclose(standardised(0.2 + 0.5 * image)[:, 0], standardised(image)[:, 0], atol=1e-5)
    assert not standardised(image)[:, 1].any()


def test_an_assignment_gives_every_update_at_most_one_partner(run: Path) -> None:
    got, asked = claims(run, LinkCosine(shadows=6, assign=True))
    number = np.asarray(Trace.open(run / "trace").round)[asked.questions.updates]
    for rounds in np.unique(number, axis=0):
        here = (number == rounds).all(axis=1)
        yes = asked.questions.updates[here & (got > 0)]
        assert len(np.unique(yes[:, 0])) == len(np.unique(yes[:, 1])) == len(yes)


def test_representatives_are_sought_once_for_attacks_that_look_at_the_same(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"shadows": 4, "shadow_rounds": 2, "iterations": 2}
    first, _ = claims(run, LinkRepresentativesCosine(**few))  # type: ignore[arg-type]

    def never(*_: object, **__: object) -> None:
        raise AssertionError("sought again")

    monkeypatch.setattr("fedleak.attacks.link.representative_features.representatives", never)
    again, _ = claims(run, LinkRepresentativesCosine(**few))  # type: ignore[arg-type]
    assert np.array_equal(first, again)


@pytest.mark.parametrize(
    "attack", [LinkRepresentatives(shadows=8, shadow_rounds=3, iterations=5), LinkUpdates(shadows=8)]
)
def test_practice_changes_what_is_claimed(attack: LinkRepresentatives | LinkUpdates, run: Path) -> None:
    unpractised, _ = claims(run, replace(attack, epochs=0))
    practised, _ = claims(run, attack)
    assert not np.array_equal(unpractised, practised)

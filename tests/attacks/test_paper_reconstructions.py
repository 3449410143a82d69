"""The reconstruction attacks whose names end in `-paper` are what the text of Song et al. (2020) says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.gradient_inversion import RepresentativesPaper
from fedleak.attacks.reconstruct.inversion import ModelInversionPaper
from fedleak.attacks.reconstruct.mgan import _criticise, _until, _wanted
from fedleak.attacks.reconstruct.mgan_ai import MganActive, MganActivePaper, MganPassive, MganPassivePaper
from fedleak.attacks.reconstruct.victim_context import Portraits
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, Observation, Task, rng_for
from fedleak.errors import AttackError
from fedleak.federation.utility import evaluate
from fedleak.games.reconstruct import ImageQuestions, Reconstruct
from fedleak.games.traces.portraits import CLASSES, write_images
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ACTIVE_SERVER, GLOBAL_MODEL_CLIENT, Adversary
from fedleak.views.view import View


def look(folder: Path, adversary: Adversary) -> tuple[View, Prior, ImageQuestions]:
    trace, truth, prior = Trace.open(folder / "trace"), Truth.load(folder / "truth"), Prior.load(folder / "prior")
    asked = Reconstruct(victims=2, samples=20).ask(trace, truth, prior, rng_for(3, "game"))
    view, questions = asked.look(trace.folder, adversary)
    assert isinstance(questions, ImageQuestions)
    return view, asked.prior, questions


def test_model_inversion_has_the_shared_model_and_nothing_else(tmp_path: Path) -> None:
    attack = ModelInversionPaper(steps=150)
    assert attack.needs == Observation.SNAPSHOTS and attack.capabilities == Capability.NONE
    view, prior, questions = look(write_images(tmp_path, 0, leak=True), GLOBAL_MODEL_CLIENT)
    claims = np.asarray(attack.run(view, prior, questions, AttackContext(rng_for(0))))
    assert np.array_equal(claims[0], claims[1]), "it sees nobody's updates, so all victims are alike to it"
    classes = np.arange(20) % CLASSES
    # From noise, the shared model comes to take more images for the class that they are meant to show.
    noise = rng_for(0).random(claims[0].shape, dtype=np.float32)
    before, after = (
        evaluate(model_of(view), view.snapshot(view.rounds), Examples(x=x, y=classes), Task.CLASSIFY)
        for x in (noise, claims[0])
    )
    assert after > before


PORTRAITS = Portraits(
    images=np.arange(6, dtype=np.float32).reshape(6, 1, 1, 1),
    who=np.array([7, 8, 7, 8, 7, 8]),
    labels=np.zeros(6, dtype=np.int64),
    round=np.array([1, 1, 2, 2, 3, 3]),
)


def test_the_identity_task_is_fed_the_representatives_of_the_round() -> None:
    alone, so_far = (_until(PORTRAITS, 7, 2, alone=alone) for alone in (True, False))
    assert alone is not None and so_far is not None
    assert [part.flatten().tolist() for part in alone] == [[2.0], [3.0]]
    assert [part.flatten().tolist() for part in so_far] == [[0.0, 2.0], [1.0, 3.0]]
    assert _until(PORTRAITS, 7, 4, alone=True) is None, "a round in which the victim sent nothing"
    literal, ours = MganPassivePaper(), MganPassive()
    assert literal.rate == literal.critic_rate == 2e-4 and literal.momentum == 0.5 and literal.width == 1.0
    assert literal.rounds == literal.early > 150 and ours.early < 150


class Told:
    """A discriminator that answers the same to everything, and remembers no gradient."""

    outputs = 3

    def __init__(self) -> None:
        self.level = torch.tensor(0.0, requires_grad=True)

    def __call__(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        same = self.level.expand(len(images))
        return self.level.expand(len(images), 3), same, same


class Blank:
    def draw(self, category: torch.Tensor, rng: np.random.Generator, victim: bool = True) -> torch.Tensor:
        return torch.zeros(len(category), 1, 1, 1)


@pytest.mark.parametrize(("loop", "wanted"), [(MganPassivePaper(), 0.0), (MganPassive(), 0.1)])
def test_targets_are_smoothed_in_our_variant_only(loop: MganPassive, wanted: float) -> None:
    critic, rng = Told(), rng_for(0)
    real = torch.ones(4, 1, 1, 1), torch.zeros(4, dtype=torch.int64)
    adam = torch.optim.SGD([critic.level], 1.0)
    _criticise(critic, adam, Blank(), real, None, torch.zeros(4, dtype=torch.int64), rng, loop)  # type: ignore[arg-type]
    # Real and generated images pull an undecided answer alike, unless the target of real ones is less than 1.
    assert critic.level.item() == pytest.approx(-wanted, abs=1e-6)


def test_categories_are_drawn_at_random() -> None:
    mine = np.array([4])
    counts = [
        np.bincount(_wanted(10, mine, loop, rng_for(n)).numpy(), minlength=10)
        for loop in (MganPassivePaper(batch=1000), MganPassive(batch=1000))
        for n in (0,)
    ]
    assert counts[0].max() < 150 and counts[1][4] > 400


def test_the_active_attack_says_that_it_needs_a_run_with_a_discriminator(tmp_path: Path) -> None:
    view, prior, questions = look(write_images(tmp_path, 0, leak=True, power=Capability.ISOLATE), ACTIVE_SERVER)
    with pytest.raises(AttackError, match="set sent = 'discriminator'"):
        MganActivePaper().run(view, prior, questions, AttackContext(rng_for(0)))


def test_the_active_attack_draws_the_victims_classes_from_the_generator_of_the_run(tmp_path: Path) -> None:
    folder = write_images(tmp_path, 0, leak=True, power=Capability.ISOLATE, discriminator=2)
    view, prior, questions = look(folder, ACTIVE_SERVER)
    first, again = (MganActivePaper().run(view, prior, questions, AttackContext(rng_for(0))) for _ in range(2))
    assert np.array_equal(np.asarray(first), np.asarray(again))
    assert np.asarray(first).shape == (len(questions), 20, 1, 8, 8)
    # Others on the same run start from what was sent, too.
    small = {"rounds": 1, "steps": 1, "width": 0.05}
    for attack in (RepresentativesPaper(rounds=2, iterations=2), MganActive(**small)):  # type: ignore[arg-type]
        assert np.isfinite(np.asarray(attack.run(view, prior, questions, AttackContext(rng_for(0))))).all()

"""The `recover` game: what it asks, how images are matched to examples, and its chance level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.core import Capability, FloatArray, Observation, Task, rng_for
from fedleak.errors import AttackError
from fedleak.games.game import Predictions, Questions
from fedleak.games.recover import ExampleQuestions, Recover
from fedleak.games.traces.examples import write_examples
from fedleak.metrics import recovery
from fedleak.metrics.attack_result import AttackResult
from fedleak.testing import ContractBroken, check_attack
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.view import View


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_examples(tmp_path_factory.mktemp("examples"), 0, leak=True, power=Capability.CHOOSE_MODEL)


def asked(run: Path, game: Recover) -> tuple[ExampleQuestions, AttackResult]:
    found = game.ask(Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior"), rng_for(0))
    questions = found.questions
    assert isinstance(questions, ExampleQuestions)
    blank = np.zeros((questions.samples, *questions.shape), dtype=np.float32)
    return questions, AttackResult.of(0, blank, "recover", (), questions.choices, found.answers)


def of(result: AttackResult, claims: FloatArray) -> AttackResult:
    return replace(result, claims=claims)


def test_every_example_of_the_round_is_asked_for(run: Path) -> None:
    questions, result = asked(run, Recover())
    assert len(questions) == 1 and questions.samples == len(result.right) == 32
    assert questions.labels == ()


def test_labels_are_told_as_counts_where_the_plan_says_so(run: Path) -> None:
    questions, result = asked(run, Recover(labels="known"))
    assert np.asarray(questions.labels).shape == (8, 10)
    assert np.array_equal(np.sum(questions.labels, axis=0), np.bincount(recovery.labels_of(result), minlength=10))


def test_true_examples_in_any_order_are_exact_and_beyond_chance(run: Path) -> None:
    _, result = asked(run, Recover())
    real = recovery.examples_of(result)
    found = recovery.exact([of(result, real[rng_for(0).permutation(len(real))])], level=0.95, permutations=200)
    assert found.value == 1 and found.chance < 0.05
    found = recovery.psnr([of(result, real)], level=0.95, permutations=200)
    assert found.value == recovery.TOP
    assert recovery.ssim([of(result, real)], level=0.95, permutations=50).value == pytest.approx(1)


def test_one_image_serves_one_example_only(run: Path) -> None:
    _, result = asked(run, Recover())
    real = recovery.examples_of(result)
    found = recovery.exact([of(result, np.repeat(real[:1], len(real), axis=0))], level=0.95, permutations=50)
    assert found.value == pytest.approx(1 / len(real))


def test_images_of_other_people_are_at_chance(run: Path) -> None:
    from fedleak.score.score import decide

    _, result = asked(run, Recover())
    public = Prior.load(run / "prior").background
    assert public is not None
    claims = public.examples.x[: len(result.right)]
    for measure in (recovery.exact, recovery.psnr, recovery.ssim):
        found = measure([of(result, claims)], level=0.95, permutations=500)
        assert not decide(found, level=0.95).leaks


def test_a_single_example_recovered_of_many_shows_in_the_users_tail(run: Path) -> None:
    _, result = asked(run, Recover())
    claims = np.zeros_like(result.claims)
    claims[0] = recovery.examples_of(result)[0]
    names, table = recovery.each_user(of(result, claims))
    assert len(names) == 8 and sorted(table.diagonal().tolist()) == [0.0] * 7 + [0.25]


def test_examples_are_told_apart_by_whether_their_label_repeats(run: Path) -> None:
    _, result = asked(run, Recover())
    [row] = recovery.by_label([of(result, recovery.examples_of(result))]).rows  # four digits of four classes each
    assert row[:2] == ["occurs once", 32] and row[-1] == 1.0


def test_a_round_that_was_not_trained_is_refused(run: Path) -> None:
    with pytest.raises(AttackError, match="round = 3, but the run has 1 round"):
        asked(run, Recover(round=3))


@pytest.mark.parametrize("wrong", [np.zeros((3, 1, 8, 8)), np.full((32, 1, 8, 8), 2.0), np.full((32, 1, 8, 8), np.nan)])
def test_wrong_predictions_are_refused(run: Path, wrong: FloatArray) -> None:
    questions, _ = asked(run, Recover())
    with pytest.raises(AttackError, match="attack 'mine'"):
        Recover().check(wrong, questions, "mine")


@dataclass(frozen=True)
class Noise:
    """Draws images without looking."""

    name: ClassVar[str] = "noise"
    summary: ClassVar[str] = "draws noise"
    game: ClassVar[str] = "recover"
    needs: ClassVar[Observation] = Observation.AGGREGATE
    capabilities: ClassVar[Capability] = Capability.CHOOSE_MODEL
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        assert isinstance(questions, ExampleQuestions)
        return context.rng.random((questions.samples, *questions.shape), dtype=np.float32)


def test_noise_fails_the_contract(tmp_path: Path) -> None:
    with pytest.raises(ContractBroken, match="a planted leak was not found"):
        check_attack(Noise(), tmp_path)

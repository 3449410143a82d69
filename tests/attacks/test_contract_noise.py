"""Noise breaks the contract of every game, whatever an attack needs, and so does the same prediction for everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from fedleak import registry
from fedleak.attacks.context import AttackContext
from fedleak.core import Capability, Observation, Task
from fedleak.games.disaggregate import MeanQuestions
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Predictions, Questions
from fedleak.games.reconstruct import ImageQuestions
from fedleak.games.recover import ExampleQuestions
from fedleak.games.tokens import TokenQuestions
from fedleak.population.secret_records import draw_secrets
from fedleak.testing import ContractBroken, check_attack
from fedleak.trace.prior import Prior
from fedleak.views.view import View

DECLARED = sorted(
    {
        (attack.game, attack.needs, attack.capabilities)
        for attack in (registry.load("attack", name) for name in registry.names("attack"))
    },
    key=str,
)


def guesses(questions: Questions, rng: np.random.Generator) -> Predictions:
    """Random predictions in the format of a game."""
    if isinstance(questions, RecordQuestions):
        drawn = [
            questions.records.spell(draw_secrets(questions.form, questions.most, rng), questions.form.longest)
            for _ in questions.clients
        ]
        return np.stack(drawn)
    if isinstance(questions, ImageQuestions):
        return rng.random((len(questions), questions.samples, *questions.shape)).astype(np.float32)
    if isinstance(questions, ExampleQuestions):
        return rng.random((questions.samples, *questions.shape)).astype(np.float32)
    width = questions.size if isinstance(questions, MeanQuestions) else len(questions.options)
    if isinstance(questions, TokenQuestions):
        width = questions.vocabulary
    return rng.normal(size=(len(questions), width)).astype(np.float32)


def blind(game: str, needs: Observation, power: Capability, kind: Literal["noise", "constant"]) -> Any:
    """An attack with these needs that looks at nothing."""

    class Blind:
        name: ClassVar[str] = kind
        summary: ClassVar[str] = "looks at nothing"
        tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

        def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
            drawn = guesses(questions, context.rng)
            return drawn if kind == "noise" else np.broadcast_to(drawn[:1], drawn.shape).copy()

    attack: Any = Blind()
    attack.game, attack.needs, attack.capabilities = game, needs, power
    return attack


@pytest.mark.parametrize("kind", ["noise", "constant"])
@pytest.mark.parametrize(("game", "needs", "power"), DECLARED, ids=str)
def test_an_attack_that_looks_at_nothing_breaks_the_contract(
    game: str, needs: Observation, power: Capability, kind: Literal["noise", "constant"], tmp_path: Path
) -> None:
    with pytest.raises(ContractBroken, match=r"a planted leak was not found|do not depend on what was observed"):
        check_attack(blind(game, needs, power, kind), tmp_path)


def test_every_game_is_among_them() -> None:
    assert {game for game, _, _ in DECLARED} == set(registry.names("game"))

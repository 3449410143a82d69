"""Metrics by name, and attacks played on the contract's traces, for tests of games and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedleak import registry
from fedleak.attacks.attack import Attack
from fedleak.games.game import Game
from fedleak.metrics.attack_result import AttackResult, Measured
from fedleak.metrics.metric import Metric
from fedleak.score.score import metric_of
from fedleak.testing import contract
from fedleak.views.adversaries import Adversary


def metric_named(played: Sequence[AttackResult], name: str) -> Metric:
    """The metric of the game that was played; `identify`, where a test does not say which."""
    return metric_of(registry.load("game", played[0].game or "identify"), name)


def measure(played: Sequence[AttackResult], name: str, *, level: float = 0.999, permutations: int = 200) -> Measured:
    """A metric by its name; wide enough by default that luck does not fail a test."""
    return metric_named(played, name).measure(played, level=level, permutations=permutations)


def applies(played: Sequence[AttackResult], name: str) -> bool:
    """Whether a metric has a meaning as the game was played."""
    return metric_named(played, name).applies(played) is True


def play(attack: Attack, adversary: Adversary, run: Path, seed: int, **how: Any) -> AttackResult:
    """Play an attack as the contract does."""
    game: Game = registry.load("game", attack.game).contract(attack).game
    return contract.play(attack, game, adversary, run, seed, **how)

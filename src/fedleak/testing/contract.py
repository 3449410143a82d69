"""The contract of every attack, for Fedleak's own tests and for those of plugin authors.

    from fedleak.testing import check_attack

    def test_my_attack_keeps_the_contract(tmp_path):
        check_attack(MyAttack(), tmp_path)

It has two kinds of trace. In a *null trace* the updates of each client resemble each other, but an anonymous client has
nothing in common with its user's prior data, so there is nothing to find. In a *planted-leak trace* both carry the
user's signature, class mix and style, which the prior's images show, so an attack that finds nothing is broken. Attacks
that train the shared model further are tested on a real federation of synthetic users; attacks on records, on one of
users who hold secrets (`games.traces.secret_holders`); attacks that link updates, on one of clients with few classes
each (`fedleak.games.traces.clients`). Reconstructed images are scored against the data of the clients or of other users
(`fedleak.games.traces.portraits`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedleak import registry
from fedleak.attacks.attack import Attack
from fedleak.attacks.context import AttackContext
from fedleak.core import Capability, Observation, rng_for
from fedleak.games.game import Contract, Game, GameInstance, Predictions, Questions
from fedleak.games.traces.users import write_run
from fedleak.score.score import AttackResult, Measured, metric_of
from fedleak.testing.truth_imports import truth_imports
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import Adversary, weakest
from fedleak.views.view import View

__all__ = ["ContractBroken", "check_attack", "null_trace", "planted_trace"]


class ContractBroken(AssertionError):
    """An attack broke the contract; the message says which part."""


def check_attack(attack: Attack, folder: Path, game: type[Game] | None = None) -> None:
    """Test an attack against the contract, on traces that its game writes below `folder`; `game` if not registered.

    Same seed, same predictions; the trace is not changed; every question is answered with finite scores; at chance
    on null traces, above chance on planted leaks. Where an attack with these needs cannot tell one user from another,
    its predictions must at least show which federation it observed. An attack that needs to know which clients took
    part, or which of its records stands where, must find nothing where that is told in the wrong order. Its
    class uses nothing that holds the truth, under whatever name it was imported.
    """
    adversary = weakest(attack)
    if adversary is None:
        raise ContractBroken(f"{attack.name}: no registered adversary can run it")
    for kind in type(attack).__mro__:
        if taken := truth_imports(sys.modules[kind.__module__], kind):
            raise ContractBroken(f"{attack.name}: {'; '.join(taken)}; an attack never reads the truth")
    held: Contract = (game or registry.load("game", attack.game)).contract(attack)
    metric = metric_of(held.game, held.metric)

    def measured(played: list[AttackResult]) -> Measured:
        # An interval wide enough that a sound attack does not fail by chance.
        return metric.measure(played, level=0.999, permutations=200)

    def above_chance(found: Measured) -> bool:
        # Of users alone: two planted runs say next to nothing of how runs vary.
        return (found.within.low if found.within else found.low) > found.chance

    def told(found: Measured) -> str:
        return f"{metric.name} {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], chance {found.chance:.2f}"

    planted = [held.write(folder / f"planted-{seed}", seed, True) for seed in range(held.seeds)]
    before = digest(planted[0])
    first, again = (play(attack, held.game, adversary, planted[0], 0) for _ in range(2))
    if not np.array_equal(first.claims, again.claims):
        raise ContractBroken(f"{attack.name}: the same seed gave different predictions")
    if digest(planted[0]) != before:
        raise ContractBroken(f"{attack.name}: the trace was changed")
    rest = [play(attack, held.game, adversary, planted[seed], seed) for seed in range(1, held.seeds)]
    found = measured([first, *rest])
    if held.finds and not (above_chance(found) and found.value >= held.least):
        raise ContractBroken(f"{attack.name}: a planted leak was not found ({told(found)})")
    if not held.finds:
        if above_chance(found):
            raise ContractBroken(
                f"{attack.name}: a leak was found that an attack with these needs cannot find ({told(found)}); it "
                "knows more than it declares"
            )
        recognised = federations_recognised(attack, held.game, adversary, planted)
        if recognised < len(planted):
            raise ContractBroken(
                f"{attack.name}: the predictions do not depend on what was observed (only {recognised} of "
                f"{len(planted)} federations can be recognised by them)"
            )
    nulls = [held.write(folder / f"null-{seed}", seed, False) for seed in range(4)]
    nothing = measured([play(attack, held.game, adversary, run, seed) for seed, run in enumerate(nulls)])
    if above_chance(nothing):
        raise ContractBroken(f"{attack.name}: a leak was found on a null trace ({told(nothing)})")
    if Observation.SELECTION in attack.needs or Capability.INJECT in attack.capabilities:
        nothing = measured(
            [play(attack, held.game, adversary, run, seed, shuffled=True) for seed, run in enumerate(planted)]
        )
        if above_chance(nothing):
            raise ContractBroken(
                f"{attack.name}: a leak was found with selection and watermarks in the wrong order ({told(nothing)})"
            )


def planted_trace(folder: Path, seed: int) -> Path:
    """A run whose clients, shadow and anonymous alike, carry their user's signature."""
    return write_run(folder, seed, leak=True)


def null_trace(folder: Path, seed: int) -> Path:
    """A run whose anonymous clients carry their own signatures, unrelated to any prior data."""
    return write_run(folder, seed, leak=False)


def play(
    attack: Attack, game: Game, adversary: Adversary, run: Path, seed: int, *, shuffled: bool = False
) -> AttackResult:
    """Run an attack once and combine its predictions with the truth."""
    asked = asked_about(game, run, seed)
    order = rng_for(seed, "contract", "shuffled") if shuffled else None
    view, questions = asked.look(run / "trace", adversary, shuffled=order)
    claims = answered(attack, game, view, asked.prior, questions, rng_for(seed, "contract"))
    # Users of different seeds are different users, even with equal names.
    options, users = (tuple(f"{seed}/{name}" for name in names) for names in (questions.options, asked.answers.users))
    return AttackResult.of(seed, claims, game.name, options, questions.choices, replace(asked.answers, users=users))


def asked_about(game: Game, run: Path, seed: int) -> GameInstance:
    """The questions of a game about a run."""
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    return game.ask(trace, truth, prior, rng_for(seed, "game"))


def answered(
    attack: Attack, game: Game, view: View, prior: Prior, questions: Questions, rng: np.random.Generator
) -> Predictions:
    """The checked predictions of an attack."""
    return game.check(np.asarray(attack.run(view, prior, questions, AttackContext(rng))), questions, attack.name)


def federations_recognised(attack: Attack, game: Game, adversary: Adversary, runs: Sequence[Path]) -> int:
    """How many federations are recognised by predictions about them, made twice with different random numbers.

    The questions and everything else that the adversary was given are those of the first federation, so predictions
    can differ only by what is observed. Predictions that do not depend on it recognise one federation on average; two
    equal ones recognise none.
    """
    asked = asked_about(game, runs[0], 0)
    made = []
    for part in ("first", "again"):
        views = [asked.look(run / "trace", adversary) for run in runs]
        claims = [answered(attack, game, v, asked.prior, q, rng_for(0, "contract", part)) for v, q in views]
        made.append(np.stack([one.reshape(-1) for one in claims]).astype(np.float64))
    gap = ((made[0][:, None] - made[1][None]) ** 2).sum(axis=2)
    return int(((gap <= gap.diagonal()[:, None]).sum(axis=1) == 1).sum())


def digest(run: Path) -> str:
    """A fingerprint of every file of a run."""
    total = hashlib.sha256()
    for path in sorted(run.rglob("*")):
        if path.is_file():
            total.update(str(path.relative_to(run)).encode() + path.read_bytes())
    return total.hexdigest()

"""The contract that every attack is held to, for Fedleak's own tests and for those of plugin authors.

    from fedleak.testing import check_attack

    def test_my_attack_keeps_the_contract(tmp_path):
        check_attack(MyAttack(), tmp_path)

Two kinds of trace are made for it. In a *null trace* every client's updates resemble each other, but an anonymous
client has nothing in common with its owner's prior data, so nothing can be found. In a *planted-leak trace* both carry
the owner's signature, class mix and style, which the prior's images show, so an attack that finds nothing is broken.
For attacks that train the shared model any further, the same is done with a real federation of made-up people; for
attacks on records, with one of users who hold secrets (`fedleak.testing.secrets`), and for attacks that link
updates, with one of clients with few classes each (`fedleak.testing.clients`). Reconstructed images are marked
against the data of the clients or of strangers (`fedleak.testing.portraits`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedleak import registry
from fedleak.attacks.attack import Attack
from fedleak.core import Capability, Observation, rng_for
from fedleak.games.game import GameInstance
from fedleak.score.score import AttackResult, Measured, measure
from fedleak.testing.clients import write_clients
from fedleak.testing.portraits import VICTIMS, write_images
from fedleak.testing.secrets import write_secrets
from fedleak.testing.users import write_federation, write_run
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import Adversary, everyone

__all__ = ["ContractBroken", "check_attack", "null_trace", "planted_trace"]

# What games ask that cannot be played without being told, or with half of so few users.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "attribute": {"attribute": "group"},
    "profile": {"trait": "marked"},
    "cross-modal": {"learn_from": "everyone"},
    "reconstruct": {"victims": VICTIMS, "samples": 8},
}


class ContractBroken(AssertionError):
    """An attack broke the contract; the message says which part."""


def check_attack(attack: Attack, folder: Path) -> None:
    """Hold an attack to the contract, on traces written below `folder`.

    Same seed, same claims; the trace is left as it was; every question is answered with finite scores; at chance on
    null traces, above chance on planted leaks. Whoever needs to know which clients took part, or which of its records
    stands where, must find nothing where that is told in the wrong order.
    """
    adversary = weakest(attack)
    write = write_federation if Observation.SNAPSHOTS in attack.needs else write_run
    metric = "ap"
    attributes = Observation.SELECTION in attack.needs or Capability.INJECT in attack.capabilities
    if attack.game == "extract":
        write = partial(write_secrets, inject=Capability.INJECT in attack.capabilities)
        metric = "top1" if attributes else "extracted"
    if attack.game == "link":
        write, metric = write_clients, "gap1"
    if attack.game == "reconstruct":
        write, metric = partial(write_images, power=attack.capabilities), "nearest"
    # Few users are asked for images, and each of them scores anything between nothing and everything.
    seeds = 5 if attack.game == "reconstruct" else 2
    planted = [write(folder / f"planted-{seed}", seed, leak=True) for seed in range(seeds)]
    before = digest(planted[0])
    first, again = play(attack, adversary, planted[0], 0), play(attack, adversary, planted[0], 0)
    if not np.array_equal(first.claims, again.claims):
        raise ContractBroken(f"{attack.name}: the same seed gave other claims")
    if digest(planted[0]) != before:
        raise ContractBroken(f"{attack.name}: the trace was changed")
    found = measured([first, *(play(attack, adversary, planted[seed], seed) for seed in range(1, seeds))], metric)
    # Who sees nobody's update cannot tell one client's data from another's, and must not seem to.
    blind = attack.game == "reconstruct" and Observation.UPDATES not in attack.needs
    if (found.low <= found.chance) != blind:
        raise ContractBroken(f"{attack.name}: a planted leak was not found ({told(found, metric)})")
    nulls = [write(folder / f"null-{seed}", seed, leak=False) for seed in range(4)]
    nothing = measured([play(attack, adversary, trace, seed) for seed, trace in enumerate(nulls)], metric)
    if nothing.low > nothing.chance:
        raise ContractBroken(f"{attack.name}: something was found where nothing is ({told(nothing, metric)})")
    if attributes:
        nothing = measured([play(attack, adversary, run, i, shuffled=True) for i, run in enumerate(planted)], metric)
        if nothing.low > nothing.chance:
            raise ContractBroken(
                f"{attack.name}: as much was found with selection and watermarks in the wrong order "
                f"({told(nothing, metric)})"
            )


def planted_trace(folder: Path, seed: int) -> Path:
    """A run whose clients, shadow and anonymous alike, carry their owner's signature."""
    return write_run(folder, seed, leak=True)


def null_trace(folder: Path, seed: int) -> Path:
    """A run whose anonymous clients carry signatures of their own, unrelated to anybody's prior data."""
    return write_run(folder, seed, leak=False)


def weakest(attack: Attack) -> Adversary:
    """The adversary who sees least and can still play the attack."""
    able: list[Any] = [adversary for adversary in everyone() if not adversary.missing(attack)]
    if not able:
        raise ContractBroken(f"{attack.name}: no registered adversary can play it")
    chosen: Adversary = min(able, key=lambda adversary: len(list(adversary.observations)))
    return chosen


def play(attack: Attack, adversary: Adversary, run: Path, seed: int, *, shuffled: bool = False) -> AttackResult:
    """Play an attack once and pair its claims with the truth."""
    game = registry.load("game", attack.game)(**SETTINGS.get(attack.game, {}))
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    asked: GameInstance = game.ask(trace, truth, prior, rng_for(seed, "game"))
    answers = asked.answers
    order = rng_for(seed, "contract", "shuffled") if shuffled else None
    view, questions = asked.look(run / "trace", adversary, shuffled=order)
    claims = attack.run(view, asked.prior, questions, rng_for(seed, "contract"))
    claims = game.check(np.asarray(claims), questions, attack.name)
    # Users of different seeds are different users, whatever they are called.
    options, users = (tuple(f"{seed}/{name}" for name in names) for names in (questions.options, answers.users))
    return AttackResult(
        seed,
        claims,
        answers.right,
        options,
        attack.game,
        answers.who,
        users,
        questions.choices,
        gallery=answers.gallery,
        evidence=answers.evidence,
        judged=answers.judged,
    )


def measured(played: list[AttackResult], metric: str) -> Measured:
    """A metric with an interval wide enough that a sound attack is not failed by accident."""
    return measure(played, metric, level=0.999, permutations=200)


def told(found: Measured, metric: str) -> str:
    """A metric for a message."""
    return f"{metric} {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], chance {found.chance:.2f}"


def digest(run: Path) -> str:
    """A fingerprint of every file of a run."""
    total = hashlib.sha256()
    for path in sorted(run.rglob("*")):
        if path.is_file():
            total.update(str(path.relative_to(run)).encode() + path.read_bytes())
    return total.hexdigest()

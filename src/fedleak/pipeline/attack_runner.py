"""Run attacks on trained runs through an adversary's view; their predictions are in the run's `claims/`."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.core import UserId, rng_for
from fedleak.errors import AttackError, TraceError
from fedleak.games.game import GameInstance, Predictions
from fedleak.pipeline.jobs import Tick
from fedleak.pipeline.runs import Run, digest, facts
from fedleak.score.assemble import settings_key
from fedleak.score.permutation import derangement
from fedleak.score.score import AttackResult
from fedleak.trace.files import private_folder, read_whole, write_atomic
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["build_questions", "play", "attack_run", "is_played", "played"]


def claims_path(run: Run, attack: Any, game: Any, adversary: Any) -> Path:
    """The file of an attack's predictions; different settings of the attack or of its game have a different file.

    So does a different memory budget: with less of it, an attack may see only a sketch of the updates.
    """
    key = digest([settings_key(attack, game, adversary), run.memory])[:8]
    # Other controls are only scored differently: the predictions are the same.
    control = "-shuffled" if run.variant.control == "shuffled-selection" else ""
    known = "-known" if run.variant.adaptive == "machine" else ""  # with shadow clients it has its own folder
    return run.folder / "claims" / f"{attack.name}-{key}@{adversary.name}{control}{known}.npy"


def build_questions(run: Run, game: Any) -> GameInstance:
    """The questions of a game about a run, drawn deterministically."""
    trace, truth = Trace.open(run.folder / "trace"), Truth.load(run.folder / "truth")
    if run.variant.control == "decoys":
        if not truth.decoys:
            raise AttackError(
                f"{run.folder}: control 'decoys' needs decoys, but none were drawn; set decoys = true in [dataset]"
            )
        truth = replace(truth, secrets=truth.decoys)
    if run.variant.control == "swapped-secrets":
        truth = replace(truth, secrets=exchanged(truth.secrets, rng_for(run.seed, "another")))
    found: GameInstance = game.ask(trace, truth, Prior.load(run.folder / "prior"), rng_for(run.seed, "game", game.name))
    return found


def exchanged(secrets: Mapping[UserId, tuple[str, ...]], rng: np.random.Generator) -> dict[UserId, tuple[str, ...]]:
    """Give every user the secrets of another user."""
    owners = sorted(secrets)
    order = derangement(len(owners), rng) if len(owners) > 1 else range(len(owners))
    return {owner: secrets[owners[other]] for owner, other in zip(owners, order, strict=True)}


def play(
    run: Run,
    attack: Any,
    game: Any,
    adversary: Any,
    *,
    workers: int = 1,
    tick: Tick | None = None,
) -> AttackResult:
    """Let an attack answer a game's questions about a run, through an adversary's view."""
    given = build_questions(run, game)
    view, questions = given.look(
        run.folder / "trace",
        adversary,
        shuffled=rng_for(run.seed, "permuted") if run.variant.control == "shuffled-selection" else None,
        defences=run.variant.defences if run.variant.adaptive else (),
        memory=run.memory,
        workers=workers,
        tick=tick,
    )
    rng = rng_for(run.seed, "attack", attack.name, adversary.name)
    claims = game.check(np.asarray(attack.run(view, given.prior, questions, rng)), questions, attack.name)
    view.progress(1)
    return with_answers(run, claims, game, given)


def with_answers(run: Run, claims: Predictions, game: Any, given: GameInstance) -> AttackResult:
    """Combine predictions with the true answers."""
    return AttackResult(
        seed=run.seed,
        claims=claims,
        right=given.answers.right,
        options=given.questions.options,
        game=game.name,
        who=given.answers.who,
        users=given.answers.users,
        choices=given.questions.choices,
        gallery=given.answers.gallery,
        evidence=given.answers.evidence,
        judged=given.answers.judged,
    )


def attack_run(run: Run, attack: Any, game: Any, adversary: Any, tick: Tick, *, workers: int = 1) -> None:
    """Run one attack on one trained run and save its predictions; `tick` gets shares of the work that add up to 1."""
    if facts(run) is None:
        raise TraceError(f"{run.folder} is not trained to the end; run `fedleak train` first")
    path = claims_path(run, attack, game, adversary)
    if path.exists():
        tick(1)
        return
    private_folder(path.parent)
    buffer = io.BytesIO()
    claims = play(run, attack, game, adversary, workers=workers, tick=tick).claims
    np.save(buffer, claims, allow_pickle=False)
    write_atomic(path, buffer.getvalue())


def is_played(run: Run, attack: Any, game: Any, adversary: Any) -> bool:
    """Whether an attack's predictions for a run are on disk."""
    return claims_path(run, attack, game, adversary).exists()


def played(run: Run, attack: Any, game: Any, adversary: Any) -> AttackResult:
    """An attack's predictions with the true answers."""
    path = claims_path(run, attack, game, adversary)
    if not path.exists():
        raise TraceError(f"attack '{attack.name}' has not run on {run.name}; run `fedleak attack` first")
    given = build_questions(run, game)
    try:
        kept = np.load(io.BytesIO(read_whole(path)), allow_pickle=False)
        claims = game.check(kept, given.questions, attack.name)
    except (ValueError, EOFError, AttackError) as error:
        raise TraceError(f"{path} is damaged ({error}); delete it and run `fedleak attack` again") from error
    return with_answers(run, claims, game, given)

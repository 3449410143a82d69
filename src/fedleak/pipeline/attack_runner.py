"""Run attacks on trained runs through an adversary's view; their predictions are in the run's `predictions/`."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from fedleak.attacks.attack import Attack
from fedleak.attacks.context import AttackContext
from fedleak.core import UserId, counted, rng_for
from fedleak.errors import AttackError, TraceError
from fedleak.games.game import Game, GameInstance, Predictions
from fedleak.metrics.permutation import derangement
from fedleak.pipeline.jobs import Tick, deserialise_plan
from fedleak.pipeline.references import load_references
from fedleak.pipeline.runs import Run, digest, facts, runs
from fedleak.plan.given import code_of
from fedleak.sandbox.encode import CannotEncode
from fedleak.sandbox.process import UNCONFINED, Budget, Isolated, attack_in_process, rename
from fedleak.score.labels import settings_key
from fedleak.score.score import AttackResult
from fedleak.trace.files import private_folder, read_whole, write_atomic
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import Adversary

__all__ = ["build_questions", "play", "predict", "attack_run", "attack_job", "is_played", "how_it_ran", "played"]


# Controls with predictions of their own, beside those of the run.
_SUFFIX = {"shuffled-selection": "-shuffled", "rotated-owners": "-rotated", "other-federation": "-other"}


class HowItRan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the process in which an attack made its predictions."""

    isolation: str  # what confined it; a sentence where nothing did
    seconds: float | None = None  # of computing


def predictions_path(run: Run, attack: Attack, game: Game, adversary: Adversary) -> Path:
    """The file of an attack's predictions; different settings of the attack or of its game have a different file.

    So does a different memory budget: with less of it, an attack may see only a sketch of the updates. And so does an
    attack given as an object, once its code changes.
    """
    code = [*code_of("attack", attack), *code_of("game", game)]
    if game.needs_members:  # another set of references is another adversary
        code += [folder.name for folder in run.handed_over]
    key = digest([settings_key(attack, game, adversary), run.memory, *code])[:8]
    # Other controls are only scored differently: the predictions are the same.
    control = _SUFFIX.get(run.variant.control or "", "")
    known = "-known" if run.variant.adaptive == "machine" else ""  # with shadow clients it has its own folder
    return run.folder / "predictions" / f"{attack.name}-{key}@{adversary.name}{control}{known}.npy"


def build_questions(run: Run, game: Game) -> GameInstance:
    """The questions of a game about a run, drawn deterministically."""
    trace, truth = Trace.open(run.attacked / "trace"), Truth.load(run.attacked / "truth")
    seed = truth.seed or run.seed
    if run.variant.control == "decoys":
        if game.needs_members and truth.members is not None:
            truth = replace(truth, members=replace(truth.members, decoys=True))
        elif not truth.decoys:
            raise AttackError(
                f"{run.folder}: control 'decoys' needs decoys, but none were drawn; set decoys = true in [dataset], "
                "or remove the control"
            )
        else:
            truth = replace(truth, secrets=truth.decoys)
    refuse_many_users(truth, game)
    if run.variant.control == "swapped-secrets":
        truth = replace(truth, secrets=exchanged(truth.secrets, rng_for(seed, "another")))
    if run.variant.control == "rotated-owners":
        truth = rotated(trace, truth, rng_for(seed, "rotated-owners"))
    found: GameInstance = game.ask(trace, truth, Prior.load(run.attacked / "prior"), rng_for(seed, "game", game.name))
    if run.variant.control == "other-federation":
        return game.elsewhere(found, trace, Trace.open(run.observed / "trace"), rng_for(seed, "other federation"))
    return found


def refuse_many_users(truth: Truth, game: Game) -> None:
    """Reject a game that needs one user per client where clients hold the data of many."""
    if truth.homes and not game.behind_question:
        clients = len(set(truth.silos.values()))
        raise AttackError(
            f"game '{game.name}' asks whose client sent an update, but {counted(len(truth.homes), 'user')} are behind "
            f'{counted(clients, "client")}; set unit = "client" in [truth] to ask for clients, or ask for users with '
            'the game `match` and between = "prior"'
        )


def rotated(trace: Trace, truth: Truth, rng: np.random.Generator) -> Truth:
    """Say of every client that it is another user's; shadow clients stay whose they are, which the adversary knows.

    Where many users are behind one client, all of them move together.
    """
    if truth.homes:
        names = sorted(set(truth.silos.values()))
        order = derangement(len(names), rng) if len(names) > 1 else range(len(names))
        moved = {name: names[place] for name, place in zip(names, order, strict=True)}
        return replace(truth, silos={client: moved[silo] for client, silo in truth.silos.items()})
    own = {name for name, shadow in zip(trace.header.clients, trace.header.shadow, strict=True) if shadow >= 0}
    users = sorted({user for client, user in truth.client_user.items() if client not in own})
    order = derangement(len(users), rng) if len(users) > 1 else range(len(users))
    other = {user: users[place] for user, place in zip(users, order, strict=True)}
    moved = {client: user if client in own else other[user] for client, user in truth.client_user.items()}
    return replace(truth, client_user=moved)


def exchanged(secrets: Mapping[UserId, tuple[str, ...]], rng: np.random.Generator) -> dict[UserId, tuple[str, ...]]:
    """Give every user the secrets of another user."""
    owners = sorted(secrets)
    order = derangement(len(owners), rng) if len(owners) > 1 else range(len(owners))
    return {owner: secrets[owners[other]] for owner, other in zip(owners, order, strict=True)}


def play(run: Run, attack: Attack, game: Game, adversary: Adversary) -> AttackResult:
    """Let an attack answer a game's questions about a run, through an adversary's view."""
    given = build_questions(run, game)
    return with_answers(run, predict(run, attack, game, adversary, given).predictions, game, given)


def predict(
    run: Run,
    attack: Attack,
    game: Game,
    adversary: Adversary,
    given: GameInstance,
    workers: int = 1,
    tick: Tick | None = None,
) -> Isolated:
    """The predictions of an attack for all questions, those that are not scored included; and what it used.

    What cannot be built again in another process (an object of a class that only the running script or notebook has)
    runs in this one, and so could look at anything here.
    """
    secret = Truth.load(run.attacked / "truth").seed or run.seed
    view, questions = given.look(
        run.observed / "trace",
        adversary,
        shuffled=rng_for(secret, "permuted") if run.variant.control == "shuffled-selection" else None,
        defences=run.variant.defences if run.variant.adaptive else (),
        own_model=run.own_model,
        own_training=run.own_training,
    )
    seed = int(rng_for(secret, "attack", attack.name, adversary.name).integers(1 << 63))
    budget = Budget(memory=run.memory, minutes=run.minutes, workers=workers)
    context = AttackContext(rng_for(seed, "attack"), memory=run.memory, workers=workers, tick=tick)
    prior = given.prior
    if run.variant.adaptive == "clients":  # it knows the defence, and the public examples that the defence mixes in
        prior = replace(prior, background=Prior.load(run.attacked / "prior").background)
    if game.needs_members:
        prior = replace(prior, references=load_references(run.attacked, run.handed_over))
    try:
        done = attack_in_process(
            attack, view, prior, questions, seed, run.attacked, budget, context.progress, run.withheld
        )
        done = replace(done, confined=done.confined or UNCONFINED)
    except CannotEncode as error:
        started = time.process_time()
        claims = np.asarray(attack.run(view, *rename(prior, questions), context))
        done = Isolated(claims, f"none: {error}", time.process_time() - started)
    claims = game.check(done.predictions, questions, attack.name)
    context.progress(1)
    return replace(done, predictions=claims)


def with_answers(run: Run, claims: Predictions, game: Game, given: GameInstance) -> AttackResult:
    """Combine predictions with the true answers."""
    questions = given.questions
    return AttackResult.of(run.seed, claims, game.name, questions.options, questions.choices, given.answers)


def attack_run(run: Run, attack: Attack, game: Game, adversary: Adversary, tick: Tick, *, workers: int = 1) -> None:
    """Run one attack on one trained run and save its predictions; `tick` gets shares of the work that add up to 1."""
    if facts(run) is None:
        raise TraceError(f"{run.folder} is not trained to the end; run `fedleak train` first")
    path = predictions_path(run, attack, game, adversary)
    if path.exists():
        tick(1)
        return
    private_folder(path.parent)
    buffer = io.BytesIO()
    done = predict(run, attack, game, adversary, build_questions(run, game), workers, tick)
    np.save(buffer, done.predictions, allow_pickle=False)
    ran = HowItRan(isolation=done.confined, seconds=done.seconds)
    write_atomic(path.with_suffix(".json"), msgspec.json.encode(ran))
    write_atomic(path, buffer.getvalue())


def attack_job(text: str, change: bytes, out: str, index: int, play: int, workers: int, tick: Tick) -> None:
    """Run one attack on one run, in a worker process."""
    plan = deserialise_plan(text, change)
    run = runs(plan, Path(out))[index]
    attack_run(run, *run.variant.plays(plan)[play], tick, workers=workers)


def is_played(run: Run, attack: Attack, game: Game, adversary: Adversary) -> bool:
    """Whether an attack's predictions for a run are on disk."""
    return predictions_path(run, attack, game, adversary).exists()


def how_it_ran(run: Run, attack: Attack, game: Game, adversary: Adversary) -> HowItRan | None:
    """How an attack was confined when it made its predictions, and how long it took; None if that is not recorded."""
    path = predictions_path(run, attack, game, adversary).with_suffix(".json")
    try:
        return msgspec.json.decode(read_whole(path), type=HowItRan)
    except (TraceError, msgspec.DecodeError):
        return None


def played(run: Run, attack: Attack, game: Game, adversary: Adversary) -> AttackResult:
    """An attack's predictions with the true answers."""
    path = predictions_path(run, attack, game, adversary)
    if not path.exists():
        raise TraceError(f"attack '{attack.name}' has not run on {run.name}; run `fedleak attack` first")
    given = build_questions(run, game)
    try:
        try:
            kept = np.load(io.BytesIO(read_whole(path)), allow_pickle=False)
        except (ValueError, EOFError) as error:  # whose message recommends to load it unsafely
            raise AttackError("not an array of numbers") from error
        claims = game.check(kept, given.questions, attack.name)
    except AttackError as error:
        raise TraceError(f"{path} is damaged ({error}); delete it and run `fedleak attack` again") from error
    return with_answers(run, claims, game, given)

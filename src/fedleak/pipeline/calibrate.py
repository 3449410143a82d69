"""Time the parts of an audit on the plan's own data, in seconds rather than minutes: a few rounds, and small attacks.

All times are seconds of computing, not of the clock: on a busy machine the clock says more about the others.
"""

from __future__ import annotations

import itertools
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedleak.core import counted, rng_for
from fedleak.errors import AttackError, AttackStopped, FedleakError
from fedleak.federation.federation import Round, initial, train
from fedleak.federation.monitor import Monitor
from fedleak.federation.utility import centralised, evaluate, nearest
from fedleak.pipeline.attack_runner import build_questions, predict, with_answers
from fedleak.pipeline.prepare import PreparedRun, prepare_run
from fedleak.pipeline.record import header
from fedleak.pipeline.runs import Run, Variant, runs, variants
from fedleak.plan.plan import Plan, Play
from fedleak.population.population import Examples
from fedleak.sandbox.fork_server import single_threaded
from fedleak.score.score import measure_all
from fedleak.trace.writer import TraceWriter

__all__ = ["Calibration", "Sample", "AttackSamples", "calibrate"]

_TRAINING = 3.0  # seconds of rounds
_ROUNDS = 400  # rounds at most: an attack on more of them would not be small any more
_TURNS = 8  # updates of every client in the larger of two small runs, on average: games ask for several
_BYTES = 300e6  # of disk for it, at most
_DEFENDED = 2  # rounds under each defence
_ATTACK = 8.0  # seconds after which a small run of an attack is stopped, and its progress taken for the rest


@dataclass(frozen=True, slots=True)
class Sample:
    """What a small run took."""

    rounds: int
    seconds: float
    memory: int = 0  # bytes


@dataclass(frozen=True, slots=True)
class AttackSamples:
    """Small runs of one attack, the smaller first, and of scoring it; or why there are none."""

    play: Play
    attacked: tuple[Sample, ...] = ()
    scored: tuple[Sample, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What each part took."""

    prepared: PreparedRun
    ready: float  # reading and dividing the data, building the model
    per_round: float
    defended: Mapping[str, float] = field(default_factory=dict)  # per round, by the label of a variant
    central: float  # training on one machine, and the other baselines, of the undefended run
    tested: float  # utility, of every run
    sampled: int  # rounds trained
    fixed_bytes: float  # per run
    round_bytes: float
    memory: int  # bytes that training holds
    attacks: tuple[AttackSamples, ...]


def calibrate(plan: Plan, folder: Path, say: Callable[[str], None], least: float = 0.0) -> Calibration | None:
    """Train a few rounds of the plan's own federation and run its attacks on them, in an empty folder.

    None where training would take less than `least` seconds of computing: then nobody asks how long.
    """
    single_threaded()  # as in the processes of an audit
    run = runs(plan, folder)[0]
    say("Reading the data and building the model")
    with _Timer() as ready:
        prepared = prepare_run(plan, run)
    say("Training a few rounds")
    rounds, seconds = _train(plan, run.variant, prepared, _TRAINING)
    per_round = _per_round(seconds)
    federations = len(plan.seeds) * sum(variant.trained for variant in variants(plan))
    if federations * (ready.seconds + plan.federation.rounds * per_round) < least:
        return None
    sampled = len(rounds)
    rounds = _repeated(plan, prepared, rounds)
    sizes = sorted({max(1, len(rounds) // 2), len(rounds)})
    small = [_write(plan, run, prepared, rounds[:size], folder / f"rounds-{size}") for size in sizes]
    bytes_of = [_disk(one.folder / "trace") for one in small]
    grown = (bytes_of[-1] - bytes_of[0]) / (sizes[-1] - sizes[0]) if len(sizes) > 1 else float(bytes_of[0])
    weights = rounds[-1].weights
    del rounds
    defended = dict(_defended(plan, folder, prepared, per_round, say))
    say("Testing the model")
    task, test = prepared.population.task, prepared.population.test
    with _Timer() as tested:
        evaluate(prepared.model, weights, test, task, spelt=prepared.population.records is not None)
    return Calibration(
        prepared=prepared,
        ready=ready.seconds,
        per_round=per_round,
        defended=defended,
        central=_central(plan, prepared) if plan.federation.centralised else 0.0,
        tested=tested.seconds,
        sampled=sampled,
        fixed_bytes=_disk(run.folder) + max(0.0, bytes_of[-1] - sizes[-1] * grown),
        round_bytes=grown,
        memory=_peak(),
        attacks=tuple(_attacks(plan, small, sizes, say)),
    )


class _Timer:
    """Seconds of computing of this process."""

    seconds = 0.0

    def __enter__(self) -> _Timer:
        self._since = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._since


def _train(
    plan: Plan, variant: Variant, ready: PreparedRun, budget: float, most: int | None = None
) -> tuple[list[Round], list[float]]:
    """Rounds of the real engine, and the seconds of each; at least two, unless the first takes far too long."""
    monitor = None
    if ready.validation is not None:
        monitor = Monitor(ready.model, ready.validation, plan.federation)
        monitor.see(initial(ready.model, ready.seed))
    made = train(
        ready.model,
        ready.clients,
        plan.federation,
        variant.defences,
        ready.population.background,
        ready.seed,
        tampering=ready.tampering,
        monitor=monitor,
    )
    rounds, seconds = list[Round](), list[float]()
    with closing(made):  # type: ignore[type-var]
        since = time.process_time()
        for done in itertools.islice(made, _ROUNDS if most is None else most):
            now = time.process_time()
            rounds.append(done)
            seconds.append(now - since)
            since = now
            if sum(seconds) > (budget if len(seconds) > 1 else 4 * budget):
                break
    return rounds, seconds


def _repeated(plan: Plan, ready: PreparedRun, rounds: list[Round]) -> list[Round]:
    """These rounds and, where they are too few for a game, the same updates once more as if others had sent them.

    What an attack takes depends on how many updates there are, not on what is in them.
    """
    if plan.isolate is not None or plan.join is not None:  # whose rounds are of certain clients
        return rounds
    size = sum(values.nbytes for one in rounds for values in (*one.updates.values(), *one.weights.values()))
    wanted = min(_TURNS / plan.federation.fraction, _BYTES / max(1.0, size / len(rounds)), plan.federation.rounds)
    more, rng = list[Round](), rng_for(0, "calibrate")
    for number in range(len(rounds) + 1, int(wanted) + 1):
        source = rounds[number % len(rounds)]
        chosen = rng.choice(len(ready.clients), len(source.clients), replace=False)
        sizes = np.array([len(ready.clients[client].data) for client in chosen], dtype=np.int64)
        more.append(replace(source, number=number, clients=chosen, sizes=sizes, dropped=()))
    return [*rounds, *more]


def _per_round(seconds: Sequence[float]) -> float:
    """The mean round; the first one also sets things up."""
    later = seconds[1:] or seconds
    return sum(later) / len(later)


def _write(plan: Plan, run: Run, ready: PreparedRun, rounds: Sequence[Round], folder: Path) -> Run:
    """A trained run of these rounds, beside the same truth and prior."""
    short = replace(plan, federation=replace(plan.federation, rounds=len(rounds), patience=None))
    writer = TraceWriter.open(folder / "trace", header(short, run, ready))
    writer.start(initial(ready.model, ready.seed))
    for done in rounds:
        writer.append(done)
    for part in ("truth", "prior"):
        shutil.copytree(run.folder / part, folder / part)
    return replace(run, folder=folder, minutes=_ATTACK / 60)


def _defended(
    plan: Plan, folder: Path, ready: PreparedRun, per_round: float, say: Callable[[str], None]
) -> Iterator[tuple[str, float]]:
    """Seconds of a round under each defence; of several strengths of one, the first stands for all."""
    known: dict[tuple[str, ...], float] = {}
    for variant in variants(plan):
        if not variant.defences or not variant.trained:
            continue
        names = tuple(defence.name for defence in variant.defences)
        if names not in known:
            say(f"Training rounds with {' and '.join(names)}")
            _, seconds = _train(plan, variant, ready, 0.0, most=_DEFENDED)
            known[names] = max(per_round, _per_round(seconds))
        yield variant.label, known[names]


def _central(plan: Plan, ready: PreparedRun) -> float:
    """Seconds of the baselines: one epoch on all data, times how many there would be, and the nearest neighbours."""
    shares, settings = ready.population.shares, plan.federation
    pooled = Examples.concat(part for share in shares for part in (share.private, share.prior))
    epochs = max(1, round(settings.rounds * settings.fraction * settings.epochs))
    once = replace(settings, rounds=1, fraction=1.0, epochs=1)
    with _Timer() as neighbours:
        nearest(pooled, ready.population.test, ready.population.task)
    with _Timer() as epoch:
        centralised(ready.model, pooled, once, 0)
    return neighbours.seconds + epochs * epoch.seconds


def _attacks(
    plan: Plan, small: Sequence[Run], sizes: Sequence[int], say: Callable[[str], None]
) -> Iterator[AttackSamples]:
    """Every attack of the plan on the small runs, as the first adversary that can run it."""
    seen = []
    for play in plan.plays:
        attack, game, _ = play
        if (attack, game) in seen:
            continue
        seen.append((attack, game))
        say(f"Running {attack.name}")
        attacked, scored, why = list[Sample](), list[Sample](), ""
        for run, rounds in zip(small, sizes, strict=True):
            try:
                one, two = _attack(plan, run, play, rounds)
            except FedleakError as error:  # perhaps there are too few updates to ask about: try the larger run
                why = f"{error} (in a calibration of {counted(rounds, 'round')})"
                continue
            attacked.append(one)
            if two is None:  # stopped: a larger run would be, too
                break
            scored.append(two)
            if one.seconds > _ATTACK / 2:
                break
        yield AttackSamples(play, tuple(attacked), tuple(scored), "" if attacked else why)


def _attack(plan: Plan, run: Run, play: Play, rounds: int) -> tuple[Sample, Sample | None]:
    """What one attack on a small run took, and what scoring it took; None if it was stopped."""
    attack, game, adversary = play
    done = 0.0

    def tick(share: float) -> None:
        nonlocal done
        done += share

    try:
        with _Timer() as here:
            given = build_questions(run, game)
            found = predict(run, attack, game, adversary, given, tick=tick)
    except AttackStopped as error:
        if not done:
            raise AttackError(f"it takes more than {_ATTACK:g} s and does not report progress") from error
        return Sample(rounds, _ATTACK / done), None
    with _Timer() as scoring:
        result = with_answers(run, found.predictions, game, given)
        measure_all([result], game, level=plan.audit.level, permutations=plan.audit.permutations)
    used = found.seconds + (here.seconds if found.memory else 0.0)
    return Sample(rounds, used, found.memory), Sample(rounds, scoring.seconds)


def _disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _peak() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * (1 if sys.platform == "darwin" else 1024)

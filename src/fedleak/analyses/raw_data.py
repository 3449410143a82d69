"""Would the raw data identify users better than their updates do?

The data is put in the place of the updates: instead of an update each client sends the mean of some of its examples,
and the same attack plays the same game on the record of that. So the two differ in what is sent and in nothing else.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import SingleAttackAnalysis, closing, measured, play, vary, with_settings
from fedleak.analyses.curves import COLUMNS, Point, curve, doubling, format_measured, line, numbers
from fedleak.analyses.feature_space import Raw
from fedleak.core import IntArray, Layer, rng_for
from fedleak.errors import TraceError
from fedleak.federation.federation import Round, make_clients
from fedleak.games.identify import Identify
from fedleak.pipeline.attack_runner import play as answer
from fedleak.pipeline.jobs import Progress, Tick, cores, deserialise_plan, run_jobs, serialise_plan
from fedleak.pipeline.runs import Run, Variant, digest
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.population.prepare import Prepared, prepare, salted_seed
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure
from fedleak.score.labels import settings_key
from fedleak.score.score import AttackResult
from fedleak.trace.files import private_folder, read_whole, write_atomic
from fedleak.trace.header import Header
from fedleak.trace.lock import locked
from fedleak.trace.prior import Prior
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter

__all__ = ["RawData"]

_PREFIX = ".raw-"

AP = Identify.metrics[0]  # average precision


@dataclass(frozen=True, kw_only=True)
class RawData(SingleAttackAnalysis):
    """Attack sets of raw examples as if they were updates (first version of Orekondy et al., 2020, Figure 10)."""

    name: ClassVar[str] = "raw-data"
    summary: ClassVar[str] = "Would the raw data identify users better than their updates do?"
    needs_layer: ClassVar[bool] = True

    sizes: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="examples in a set, each in turn; 1, 2, ... if empty")
    ] = ()
    sets: Annotated[int, Meta(ge=1, description="sets of each user and side")] = 20

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Average precision over the size of the sets, beside that of the attack on updates."""
        attack = self.chosen(plan)
        updates = measured(plan, play(vary(plan, attacks=[attack], games=[Identify()]), out, progress, jobs)[0], AP)
        # The record of raw data has one layer.
        varied = vary(plan, attacks=[with_settings(attack, layer="last")], games=[Identify()])
        most = int(np.median([len(share.private) for share in prepare_first(plan).shares]))
        # Everything that a user has makes one set only, which is too little to learn from and to ask about.
        sizes = self.sizes or tuple(doubling(most))
        folder = out / "analyses" / self.name
        key = digest([settings_key(*varied.plays[0]), self.sets])[:8]
        paths = {(size, seed): folder / f"{key}-{size}-seed-{seed}.npz" for size in sizes for seed in plan.seeds}
        with locked(out):
            private_folder(folder)
            for left in folder.glob(f"{_PREFIX}*"):  # by an attempt that was killed
                shutil.rmtree(left)
            todo = [place for place, path in paths.items() if not path.exists()]
            progress.stage(f"Attacking {len(todo)} records of raw data", len(todo))
            run_jobs(
                [
                    (job, (*serialise_plan(varied), seed, size, self.sets, str(paths[size, seed])))
                    for size, seed in todo
                ],
                jobs or cores(),
                progress.tick,
            )
        points = [
            Point(float(size), f"{size} example{'s' if size > 1 else ''}", one)
            for size in sizes
            for one in [measured(plan, [kept(paths[size, seed], seed) for seed in plan.seeds], AP)]
        ]
        given = [*((point.label, point.measured) for point in points), ("an update", updates)]
        raw, chance = curve("raw data", points)
        level = [(x, updates.value, updates.low, updates.high) for x in raw.x]
        ahead = [all(later.measured.value > updates.value for later in points[i:]) for i in range(len(points))]
        beside = points[ahead.index(True)] if any(ahead) else None
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "Instead of updates the same attack gets the mean of some raw examples (pixels, columns, or how "
                f"often each word occurs): {self.sets} sets of each user's prior data to learn from and of their "
                f"private data to name. One example gives average precision {format_measured(points[0].measured)}; "
                f"{points[-1].label} {format_measured(points[-1].measured)}; an update {format_measured(updates)}. "
                + (
                    f"Raw data scores higher than updates from {beside.label} on. "
                    if beside
                    else "Raw data does not score higher than updates. "
                )
                + closing(plan, attack.name)
            ),
            columns=["what the attack is given", *COLUMNS],
            rows=[[label, *numbers(one)] for label, one in given],
            figures=[
                Figure(
                    kind="lines",
                    title="Average precision over the number of raw examples",
                    x_label="examples in a set",
                    y_label="average precision",
                    series=[
                        raw,
                        line(f"updates, layer '{to_dict(attack)['layer']}'", level, reference=True),
                        chance,
                    ],
                    log_x=True,
                )
            ],
        )


def prepare_first(plan: Plan) -> Prepared:
    """The users of the first seed."""
    return prepare(plan.dataset, plan.population, plan.seeds[0])


def job(text: str, change: bytes, seed: int, size: int, sets: int, path: str, tick: Tick) -> None:
    """Record sets of raw data, attack the record and keep the claims, in a worker process.

    The record itself holds private examples, which no folder of an audit does, so it lives only for the attack.
    """
    plan = deserialise_plan(text, change)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=Path(path).parent) as folder:
        run = Run(Variant(), seed, Path(folder), "raw data", plan.audit.memory)
        record(prepare(plan.dataset, plan.population, seed), run, size, sets)
        found = answer(run, *plan.plays[0])
    buffer = io.BytesIO()
    np.savez(buffer, claims=found.claims, right=found.right, options=np.array(found.options))
    write_atomic(Path(path), buffer.getvalue())
    tick(1)


def kept(path: Path, seed: int) -> AttackResult:
    """Claims that an earlier attempt kept."""
    try:
        with np.load(io.BytesIO(read_whole(path)), allow_pickle=False) as found:
            claims, right, options = found["claims"], found["right"], tuple(map(str, found["options"]))
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise TraceError(f"{path} is damaged ({error}); delete it and run the analysis again") from error
    return AttackResult(seed, claims, right, options, Identify.name, right, options)


def record(prepared: Prepared, run: Run, size: int, sets: int) -> None:
    """Write a run in which every client sends means of its own examples."""
    seed = salted_seed(prepared, run.seed)
    clients = make_clients(prepared.shares, seed)
    users = tuple(share.user.id for share in prepared.shares)
    Truth(
        users=users,
        client_user={client.id: client.user for client in clients},
        attributes={user: {} for user in users},
        seed=seed,
    ).save(run.folder / "truth")
    Prior(
        candidates=users,
        examples=tuple(share.prior for share in prepared.shares),
        task=prepared.task,
        outputs=prepared.outputs,
    ).save(run.folder / "prior")
    raw = Raw(prepared)
    drawn = [draw_sets(len(client.data), size, sets, rng_for(seed, "sets", client.id)) for client in clients]
    width = raw.rows(clients[0].data.take([0])).shape[1]
    rounds = max(map(len, drawn))
    header = Header(
        fingerprint=run.fingerprint,
        rounds=rounds,
        task=prepared.task,
        model="raw data",
        layout=(Layer("raw", (("mean", (width,)),)),),
        clients=tuple(client.id for client in clients),
        shadow=tuple(client.shadow for client in clients),
    )
    writer = TraceWriter.open(run.folder / "trace", header)
    nothing = {"raw": np.zeros(width, dtype=np.float32)}
    writer.start(nothing)
    for number in range(rounds):
        here = [place for place, chosen in enumerate(drawn) if len(chosen) > number]
        # As in a federation, the order says nothing about who sent what.
        present = rng_for(seed, "order", number).permutation(np.asarray(here, dtype=np.int64))
        means = [raw.rows(clients[place].data.take(drawn[place][number])).mean(axis=0) for place in present]
        writer.append(
            Round(
                number=number + 1,
                clients=present,
                sizes=np.full(len(present), size, dtype=np.int64),
                updates={"raw": np.stack(means)},
                aggregate=nothing,
                weights=nothing,
            )
        )


def draw_sets(count: int, size: int, sets: int, rng: np.random.Generator) -> list[IntArray]:
    """Which of a client's examples each set holds; no example twice in one, and no single example twice at all.

    >>> [len(rows) for rows in draw_sets(6, 4, 3, rng_for(0))], len(draw_sets(6, 1, 20, rng_for(0)))
    ([4, 4, 4], 6)
    """
    if size == 1:
        return [*rng.permutation(count)[:sets, None]]
    return [rng.permutation(count)[:size] for _ in range(sets if count > size else 1)]

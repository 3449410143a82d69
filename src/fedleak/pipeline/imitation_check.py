"""How well the auditor imitates clients: what it trains from prior data, beside what the same users really sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, format_value, rng_for
from fedleak.federation.engines.batches import steps_of
from fedleak.federation.engines.engine import Engine
from fedleak.pipeline.recorded_model import RecordedModel
from fedleak.pipeline.recorded_users import RecordedUsers
from fedleak.plan.plan import Plan
from fedleak.population.data_quality import Finding
from fedleak.record.recording import Recording

__all__ = ["ImitationFit", "imitation_fit", "imitation_findings"]

_ROUNDS, _CLIENTS = 6, 12  # looked at: medians of so many updates are stable, and cost little
_FACTOR = 2.0  # by which real updates may be longer or shorter than imitated ones of as many steps
_LEAST_COSINE = 0.1
_NOTHING = 1e6  # by which real updates are longer than imitated ones where these are zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationFit:
    """Medians over pairs of an imitated and a real update of the same round."""

    pairs: int
    own: float  # cosine with the update of the same user's client
    others: float | None  # with those of other clients
    length: float  # of real updates, in units of imitated ones
    steps: float  # local steps of real clients by their number of examples, in the same units

    @property
    def suspicious(self) -> str:
        """Why the settings seem wrong, in words; empty where they do not."""
        if self.length > _NOTHING:
            return "the imitated training changes nothing; a `train` of your own must change the module itself"
        # More data means more steps, but steps that undo each other in part: the length lies between both.
        low, high = sorted((1.0, self.steps))
        if self.length > _FACTOR * high:
            return "real updates are much longer, so clients may train with a higher lr, or for more epochs"
        if self.length < low / _FACTOR:
            return "real updates are much shorter, so clients may train with a lower lr, or for fewer epochs"
        if self.own < _LEAST_COSINE:
            return "they have little in common, so the data, its preprocessing, the loss or the optimizer may differ"
        return ""


def imitation_findings(
    plan: Plan, recording: Recording, users: RecordedUsers, built: RecordedModel, engine: Engine, seed: int
) -> list[Finding]:
    """The fit in words, as a warning where the settings seem wrong."""
    fit = imitation_fit(plan, recording, users, built, engine, seed)
    if fit is None:
        return []
    beside = "" if fit.others is None else f", with those of others {format_value(fit.others)}"
    text = (
        f"Imitated against real updates of the same round ({fit.pairs} pairs): cosine with the own client's update "
        f"{format_value(fit.own)}{beside}; real updates are {format_value(fit.length)} times as long (medians)."
    )
    if why := fit.suspicious:
        text += f" The imitation does not fit: {why}. Check [federation]: attacks that imitate clients are weaker so."
    return [Finding(kind="imitation", count=fit.pairs, action="warn" if why else "keep", text=text)]


def imitation_fit(
    plan: Plan, recording: Recording, users: RecordedUsers, built: RecordedModel, engine: Engine, seed: int
) -> ImitationFit | None:
    """Train prior data on some recorded models and compare; None where no user with prior data took part."""
    trace, place = recording.trace, {user.id: i for i, user in enumerate(users.users)}
    names, clients, sizes = trace.header.clients, np.asarray(trace.client), np.asarray(trace.size)
    columns = {layer.name: trace.updates(layer.name) for layer in trace.header.layout}
    seen = [layer.name for layer in built.fit.layout if layer.name not in built.fit.unrecorded]
    rounds = recording.rounds_with_updates
    own: list[float] = []
    others: list[float] = []
    lengths: list[float] = []
    steps: list[float] = []
    for number in rounds[np.unique(np.linspace(0, len(rounds) - 1, _ROUNDS).round().astype(np.int64))].tolist():
        span = trace.span(number)
        here = [row for row in range(span.start, span.stop) if users.client_user.get(names[int(clients[row])]) in place]
        here = rng_for(seed, "imitation", number).permutation(here)[:_CLIENTS].astype(np.int64).tolist()
        if not here:
            continue
        who = [place[users.client_user[names[int(clients[row])]]] for row in here]
        start = built.fit.model(trace.snapshot(number - 1))
        made = engine.updates(start, who, lambda stage, c, n=number: rng_for(seed, "imitation", stage, n, c))  # type: ignore[misc]
        mine = np.concatenate([made[name].numpy() for name in seen], axis=1).astype(np.float64)
        real = np.stack([_flat(built.fit.row(columns, row), seen) for row in here])
        table = _cosines(mine, real)
        same = np.equal.outer(who, who)
        own += table.diagonal().tolist()
        others += table[~same].tolist()
        lengths += (np.linalg.norm(real, axis=1) / np.maximum(np.linalg.norm(mine, axis=1), 1e-12)).tolist()
        batch, epochs = plan.federation.batch, plan.federation.epochs
        for row, candidate in zip(here, who, strict=True):
            known = len(users.users[candidate].examples)
            told = int(sizes[row]) or known
            steps.append(steps_of(told, batch, epochs) / steps_of(known, batch, epochs))
    if not own:
        return None
    return ImitationFit(
        pairs=len(own),
        own=float(np.nanmedian(own)),
        others=float(np.nanmedian(others)) if others else None,
        length=float(np.nanmedian(lengths)) if np.isfinite(lengths).any() else 0.0,  # where all imitated ones diverge
        steps=float(np.median(steps)),
    )


def _flat(update: dict[str, FloatArray], layers: list[str]) -> npt.NDArray[np.float64]:
    return np.concatenate([update[name] for name in layers]).astype(np.float64)


def _cosines(mine: npt.NDArray[np.float64], real: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(imitated, real); 0 where one of them is all zeros or not finite."""
    a, b = (_unit(np.nan_to_num(rows)) for rows in (mine, real))
    return np.asarray(a @ b.T, dtype=np.float64)


def _unit(
    rows: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float64)

"""From the plan of a recorded run to a plan that trains a federation like it, so that defences can be compared."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedleak import registry
from fedleak.core import Task, counted
from fedleak.errors import FedleakError, PlanError
from fedleak.federation.model import Signature
from fedleak.federation.models.own import Own
from fedleak.pipeline.layout_fit import matched, outputs_hint
from fedleak.plan.plan import Plan
from fedleak.plan.read import component, parse
from fedleak.plan.recorded_run import TRAINING
from fedleak.plan.together import check_together
from fedleak.plan.toml_text import toml_table, toml_value
from fedleak.record.owners import Owners
from fedleak.record.recording import Recording

__all__ = ["similar_plan"]

_AVERAGING = ("FedAvg", "FedAvgBattery", "InplaceFedAvg")  # strategies whose model moves by the mean of the updates
# Settings of defences that have none by default, or whose scale depends on the updates; `norm` is their median norm.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "clip": {"bound": "norm"},
    "dp-fedavg": {"noise": 1.0, "clip": "norm"},
    "dp-sgd": {"noise": 1.0},
    "noise": {"sigma": 1.0, "relative": True},
}
_COMPARED = ("clip", "dp-fedavg", "sparsify", "quantise", "mm-aug")  # written as they are; all others as comments


def similar_plan(plan: Plan, recording: Recording, owners: Owners | None) -> str:
    """The text of a plan that trains a federation with the recorded run's settings, on the auditor's data."""
    raw = tomllib.loads(plan.text)
    if plan.trace is None:
        raise PlanError(f"{plan.source}: has no table [trace], so it trains a federation of its own already")
    lost: list[str] = []
    lines = [
        f"title = {toml_value(f'Like the recorded run: {plan.title}')}",
        f"story = {toml_value(_story(recording))}",
        "seeds = [0]",
        "",
        *toml_table("dataset", _dataset(plan, raw, recording, lost)),
        *toml_table("population", {"prior": "random" if _needs_prior(plan) else "none"}),
        *toml_table("model", _model(plan, raw, lost)),
        *toml_table("federation", _federation(plan, raw, recording, lost)),
        *(["[inject]", ""] if plan.prior.watermarks is not None else []),
        *toml_table("audit", {key: value for key, value in raw.get("audit", {}).items() if key != "controls"}),
        *_lists(plan, raw, lost),
    ]
    if raw.get("limits"):
        lines += [line for game, limits in raw["limits"].items() for line in toml_table(f"limits.{game}", limits)]
    lines += _defences(plan, recording)
    if owners is not None and owners.behind:
        users = len({user for users in owners.behind.values() for user in users})
        lost.append(
            f"{counted(users, 'user')} were behind {counted(len(owners.behind), 'client')}; here every user has a "
            "client of their own, so updates give away more of each"
        )
    head = [
        f"# Written by `fedleak simulate-like` from {plan.source}: a federation that Fedleak trains itself, with the",
        "# settings of the recorded run and the auditor's data, so that defences can be compared.",
        *(["#", "# What the recorded run has and this plan does not:"] if lost else []),
        *(f"# - {what}" for what in lost),
        "",
    ]
    text = "\n".join([*head, *lines]).rstrip() + "\n"
    parse(text, f"the plan that trains a run like {plan.source}")
    return text


def _story(recording: Recording) -> str:
    origin = recording.origin.get("framework", "a recorded federation")
    return (
        f"Trained by Fedleak with the settings of a run of {origin}: other random choices, and prior data in the place "
        "of the clients' own. Scores are those of such a federation, not of the recorded run."
    )


def _dataset(plan: Plan, raw: Mapping[str, Any], recording: Recording, lost: list[str]) -> dict[str, Any]:
    if "dataset" in raw:
        return dict(raw["dataset"])
    if plan.truth.secrets is not None:
        lost.append(
            "the clients' own texts and secrets: made-up secrets of the same format are planted in pieces of the Penn "
            "Treebank; set source to a text file of yours"
        )
        words = {"words": list(plan.prior.words)} if plan.prior.words else {}
        clients = int((recording.participations > 0).sum())
        return {"name": "text-clients", "source": "ptb", "clients": clients, "secret": plan.prior.secret, **words}
    data = plan.prior.data or plan.truth.data
    if data is None:
        raise PlanError(
            f'{plan.source} [prior]: the plan names no data to train on; add data = "module:callable", which returns '
            "{user: (x, y)}, or a table [dataset]"
        )
    return {"name": data, **({"background": plan.prior.background} if plan.prior.background else {})}


def _model(plan: Plan, raw: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    if plan.truth.secrets is not None and isinstance(plan.model, Own):
        lost.append(f"the model {plan.model.target}: char-lm reads the alphabet of these texts; set its size to match")
        return {"name": "char-lm"}
    return dict(raw["model"])


def _needs_prior(plan: Plan) -> bool:
    return any(game.needs_prior for game in plan.games)


def _federation(plan: Plan, raw: Mapping[str, Any], recording: Recording, lost: list[str]) -> dict[str, Any]:
    trace = recording.trace
    took_part = np.bincount(np.asarray(trace.round), minlength=trace.rounds + 1)
    with_clients = took_part[took_part > 0]
    rounds = len(with_clients) * trace.header.every
    many = int((recording.participations > 0).sum())
    if not many:
        raise PlanError(
            f"{recording.folder}: no client took part in any recorded round, so there is nothing to imitate"
        )
    given = {key: value for key, value in raw.get("federation", {}).items() if key in TRAINING and key != "train"}
    if plan.federation.train is not None:
        lost.append(f"local training by {plan.federation.train}: clients train by epochs, batch, lr and optimizer")
    strategy = recording.origin.get("strategy", "")
    if strategy and strategy not in _AVERAGING:
        lost.append(f"the strategy {strategy}: the server adds the mean of the updates (federated averaging)")
    return {
        "rounds": max(1, rounds),
        "fraction": round(min(1.0, float(with_clients.mean()) / many), 4),
        **given,
        "weighting": trace.header.settings.get("weighting", "examples"),
        "centralised": False,
    }


def _lists(plan: Plan, raw: Mapping[str, Any], lost: list[str]) -> list[str]:
    """[[attack]] and [[game]]; one plan cannot have games with prior data and games without."""
    both = _needs_prior(plan)
    games = {game.name: game for game in plan.games}
    lines: list[str] = []
    for kind in ("attack", "game"):
        for table in raw.get(kind, []):
            game = table["name"] if kind == "game" else registry.load("attack", table["name"]).game
            if both and games[game].needs_prior is False:
                if kind == "attack":
                    lost.append(f"attack {table['name']}: game '{game}' needs a plan of its own, with prior = \"none\"")
                continue
            lines += toml_table(kind, table, twice=True)
    return lines


def _buffers(plan: Plan, recording: Recording) -> tuple[set[str], bool]:
    """The recorded layers that hold buffers, and whether the plan's model has running statistics.

    Where arrays were sent as a plain list, only the model tells which of them are buffers.
    """
    header = recording.trace.header
    found = set(header.buffers)
    if not isinstance(plan.model, Own):
        return found, False
    signature = Signature(header.task or Task.CLASSIFY, (1,), outputs_hint(header.layout))
    try:
        parts = plan.model.imitated(signature).parts
    except FedleakError:
        return found, bool(found)  # it needs the shape of the data: the recorded run tells
    running = [part.path for part in parts if part.kind == "buffer" and part.home[1].startswith("running_")]
    try:
        arrays = matched(header.layout, parts, f"model '{plan.model.target}'")
    except FedleakError:
        return found, bool(running)
    return found | {arrays[path].layer for path in running if path in arrays}, bool(running)


def _defences(plan: Plan, recording: Recording) -> list[str]:
    """Every defence that fits the model and the data: the usual ones as tables, the others as comments."""
    buffers, running = _buffers(plan, recording)
    norm, lines = _median_norm(recording, buffers), ["# Defences to compare; each is one more federation to train."]
    background = plan.prior.background is not None
    for name in sorted(registry.names("defence"), key=lambda name: name not in _COMPARED):
        cls = registry.load("defence", name)
        settings = {key: norm if value == "norm" else value for key, value in _SETTINGS.get(name, {}).items()}
        if (cls.needs_background and not background) or (cls.no_buffers and running):
            continue
        try:
            check_together((component("defence", {"name": name, **settings}, name),), name, plan.model)
        except FedleakError:
            continue  # it acts on a layer that the model does not have
        table = toml_table("defence", {"name": name, **settings}, twice=True)
        lines += table if name in _COMPARED else [f"# {line}" if line else "" for line in table]
    return lines


def _median_norm(recording: Recording, buffers: set[str]) -> float:
    """The median norm of the recorded updates, to two digits; 1 where only sums are recorded."""
    trace = recording.trace
    if not trace.header.holds_updates or not len(trace.client):
        return 1.0
    squares = np.zeros(len(trace.client))
    for layer in trace.header.layout:
        if layer.name not in (*trace.header.unrecorded, *buffers):
            rows = [np.einsum("ud,ud->u", block, block, dtype=np.float64) for block in trace.blocks(layer.name)]
            squares += np.concatenate(rows)
    found = float(np.sqrt(np.median(squares)))
    return float(f"{found:.2g}") if found > 0 else 1.0

"""Retraining: the server trains each user's prior data on the models it sent out.

A shadow client takes part in few rounds. But an adversary with the snapshots can train the same data on any of them, on
the whole prior and on its halves: the whole shows what a user's updates look like, the halves how much they depend on
which of the user's examples are used, which is the difference between the prior and the data on the client.

A defence-aware adversary trains the halves with the defence, too. Naming a defended half is then a trial of the real
task, in which it finds out whether updates of users are better compared with raw or with defended ones of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from fedleak import registry
from fedleak.core import FloatArray, IntArray, rng_for
from fedleak.errors import AttackError, PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import one_thread
from fedleak.federation.engines.engine import engine_for
from fedleak.federation.hooks import Defence, PublicData
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.imprint import Imprinted
from fedleak.federation.update_pipeline import apply_update_defences as leaving
from fedleak.lazy import torch
from fedleak.plan.configure import configure
from fedleak.plan.plan import FederationPlan, ImprintPlan
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import OwnModel, View

__all__ = [
    "Retrained",
    "Halves",
    "rebuilt",
    "model_of",
    "settings",
    "retrain",
    "train_once",
    "imitable",
    "divide",
    "defend",
    "defend_halves",
    "apply_known_defences",
    "halves",
    "WHOLE",
]

WHOLE = -1

Reduce = Callable[[Mapping[str, FloatArray]], FloatArray]
Halves = Sequence[Sequence[tuple[Examples, Examples]]]
"""By candidate, then by division: both halves of the candidate's prior data."""


@dataclass(frozen=True, slots=True)
class Retrained:
    """Updates that the server made itself, one row each."""

    rows: FloatArray
    who: IntArray  # candidate
    part: IntArray  # WHOLE, or 2 s and 2 s + 1 for the two halves of the s-th division
    round: IntArray  # the round whose starting model was trained
    defended: npt.NDArray[np.bool_]  # with the defences that the adversary knows of


def rebuilt(view: View) -> Model | None:
    """Build the model from what every client is sent; None where that does not say how.

    Code that a trace names is never run: a model of the user's own is only built where the plan has handed it over.
    Neither is one rebuilt that a defence changed so that its layers are others.
    """
    if view.own_model is not None:
        return _handed_over(view, view.own_model)
    recipe = view.settings.get("architecture")
    if not isinstance(recipe, Mapping) or recipe.get("name") not in registry.names("model") or "target" in recipe:
        return None
    try:
        architecture = configure(
            registry.load("model", recipe["name"]), {k: v for k, v in recipe.items() if k != "name"}, "trace"
        )
        signature = Signature(view.task, tuple(view.settings["input_shape"]), int(view.settings["outputs"]))
        model: Model = architecture.build(signature)
        if "imprint" in view.settings:  # every client is told how to build the layers that it trains
            plan = configure(ImprintPlan, dict(view.settings["imprint"]), "trace [imprint]")
            model = Imprinted(model, signature.input_shape, plan)
    except PlanError:
        return None
    return model if model.layout == view.layout else None


def _handed_over(view: View, own: OwnModel) -> Model | None:
    """The user's own model, as the plan names it."""
    signature = Signature(view.task, tuple(view.settings["input_shape"]), int(view.settings["outputs"]))
    try:
        model: Model = own.imitated(signature, view.layout)
    except PlanError as error:
        raise AttackError(
            f"the attack cannot build your model in its own process: {error}. That process reads modules which were "
            "imported before the attack began; import what the model needs at the top of its module"
        ) from error
    return model


def model_of(view: View) -> Model:
    """The same, for attacks that cannot do without."""
    model = rebuilt(view)
    if model is None:
        raise AttackError(
            "this trace does not say how the model is built (or it is your own model, or a defence changed it), so "
            "attacks cannot train it or invert its updates; choose one of Fedleak's models"
        )
    return model


def imitable(view: View) -> tuple[Defence, ...]:
    """The defences that the adversary knows of and can apply to data and updates of its own."""
    hooks = ("on_data", "on_loss", "on_step", "on_update")
    return tuple(defence for defence in view.defences if any(defence.overrides(hook) for hook in hooks))


def divide(prior: Prior, divisions: int, seed: int) -> Halves:
    """Halve every candidate's prior data in several ways."""
    return [
        [halves(examples, rng_for(seed, "halves", c, s)) for s in range(divisions)]
        for c, examples in enumerate(prior.examples)
    ]


def defend_halves(view: View, model: Model, prior: Prior, divided: Halves, seed: int) -> Halves:
    """The halves as clients would train on them under the known defences; each twice, as `retrain` takes them."""
    flat = [Examples.concat([half, half]) for cuts in divided for cut in cuts for half in cut]
    flat = defend(view, model, prior, flat, seed)
    pairs = iter(zip(flat[::2], flat[1::2], strict=True))
    return [[next(pairs) for _ in cuts] for cuts in divided]


def defend(view: View, model: Model, prior: Prior, data: Sequence[Examples], seed: int) -> list[Examples]:
    """What clients with this data would train on under the known defences.

    A defence that needs public examples draws them from those that the adversary has, and is left out where it has
    none.
    """
    flat, public = list(data), None
    if prior.background is not None:
        rng = rng_for(seed, "on_background")
        public = PublicData(prior.background.examples, model, settings(view), rng)
    for place, defence in enumerate(imitable(view)):
        if defence.overrides("on_data") and (public is not None or not defence.needs_background):
            rngs = [rng_for(seed, "on_data", place, i) for i in range(len(flat))]
            flat = list(defence.on_data(flat, public, rngs))
    return flat


def retrain(
    view: View,
    model: Model,
    prior: Prior,
    snapshots: int,
    divided: Halves,
    reduce: Reduce,
    seed: int,
    workers: int = 1,
    *,
    defended: Halves | None = None,
    progress: Callable[[float], None] | None = None,
) -> Retrained:
    """Train every candidate's data on evenly spaced snapshots; each update is reduced before the next snapshot.

    The divisions take turns, so that a half meets several snapshots, as a client does. The halves are trained once more
    with the known defences where they are given as `defended`.
    """
    rounds = np.unique(np.linspace(1, view.rounds, min(snapshots, view.rounds)).round().astype(np.int64))
    made: list[Retrained] = []
    for turn, number in enumerate(rounds.tolist()):
        s = turn % len(divided[0])
        data: list[Examples] = []
        for whole, cut in zip(prior.examples, divided, strict=True):
            # A half comes twice, so that it makes as many steps as a whole does.
            data += [whole, *(Examples.concat([half, half]) for half in cut[s])]
        raw = reduce(train_once(view, model, data, number, seed, workers))
        made.append(_labelled(raw, [WHOLE, 2 * s, 2 * s + 1], number, defended=False))
        if defended is not None:
            data = [half for cut in defended for half in cut[s]]
            rows = reduce(train_once(view, model, data, number, seed, workers, imitable(view)))
            made.append(_labelled(rows, [2 * s, 2 * s + 1], number, defended=True))
        if progress is not None:
            progress((turn + 1) / len(rounds))
    return Retrained(*(np.concatenate([getattr(one, column.name) for one in made]) for column in fields(Retrained)))


def _labelled(rows: FloatArray, parts: Sequence[int], number: int, *, defended: bool) -> Retrained:
    """Updates of one round: of every candidate in turn, one of each part."""
    users = len(rows) // len(parts)
    return Retrained(
        rows,
        np.repeat(np.arange(users), len(parts)),
        np.tile(parts, users),
        np.full(len(rows), number),
        np.full(len(rows), defended),
    )


def train_once(
    view: View,
    model: Model,
    data: Sequence[Examples],
    number: int,
    seed: int,
    workers: int = 1,
    defences: Sequence[Defence] = (),
) -> dict[str, FloatArray]:
    """What clients with this data would send in a round: layer -> (clients, size)."""
    pool = Pool.of(data, [str(i) for i in range(len(data))])
    engine = engine_for(model, view.task, settings(view), pool, defences, workers, [True] * len(data))

    def rngs(stage: str, i: int) -> np.random.Generator:
        return rng_for(seed, "retrain", stage, number, i)

    try:
        with one_thread():
            made = engine.updates(view.snapshot(number - 1), range(len(data)), rngs)
    finally:
        engine.close()
    for name in view.unrecorded:  # nobody sees the updates of these layers
        made[name].zero_()
    return apply_known_defences(defences, made, rngs)


def apply_known_defences(
    defences: Sequence[Defence], rows: Mapping[str, torch.Tensor], rngs: Callable[[str, int], np.random.Generator]
) -> dict[str, FloatArray]:
    """What clients would send of these updates under the defences that the adversary knows of.

    What diverges on the adversary's machine says nothing, and must not spoil the rest.
    """
    made = {name: torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0) for name, values in rows.items()}
    count = len(next(iter(made.values())))
    leaving(
        made,
        [str(i) for i in range(count)],
        [True] * count,
        defences,
        lambda place, row: rngs(f"on_update/{place}", row),
        "on the adversary's machine",
    )
    return {name: values.numpy() for name, values in made.items()}


def settings(view: View) -> FederationPlan:
    """How clients train, as every client is told."""
    known = {f.name for f in fields(FederationPlan)}
    # Code is named by the plan, never by a trace.
    table = {key: value for key, value in view.settings.items() if key in known - {"train"} and value is not None}
    return replace(configure(FederationPlan, table, "trace"), train=view.own_training)


def halves(examples: Examples, rng: np.random.Generator) -> tuple[Examples, Examples]:
    """Divide examples as the prior is divided from the private data: by document, else evenly in every class."""
    if len(examples) < 2:
        return examples, examples
    if examples.document is not None and len(found := np.unique(examples.document)) > 1:
        first = np.isin(examples.document, rng.permutation(found)[: len(found) // 2])
        return examples.take(np.flatnonzero(first)), examples.take(np.flatnonzero(~first))
    order = rng.permutation(len(examples))
    if examples.y is not None and examples.y.ndim == 1:  # of several labels per example, none is its class
        order = order[np.argsort(examples.y[order], kind="stable")]
    start = int(rng.integers(2))
    return examples.take(order[start::2]), examples.take(order[1 - start :: 2])

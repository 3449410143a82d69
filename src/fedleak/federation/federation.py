"""Federated averaging: clients, selection, the server's step, and the record of each round.

Algorithm 1 of Orekondy et al. (Gradient-Leaks, 2020), which is FedAvg (McMahan et al., 2017): each round the server
sends its model to a random share of the clients, each trains it on its own data, and the server moves by the mean of
what they send back, weighted by how many examples each has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedleak.core import FloatArray, IntArray, Params, UserId, rng_for
from fedleak.errors import PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, Rngs, one_thread
from fedleak.federation.hooks import Defence
from fedleak.federation.loss import task_of
from fedleak.federation.model import Model
from fedleak.federation.tampering import NOTHING, Isolation, Tampering
from fedleak.federation.update_pipeline import apply_update_defences, finite
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples, Share

__all__ = ["Client", "Round", "make_clients", "defended", "initial", "train"]


@dataclass(frozen=True, slots=True)
class Client:
    """A client in the federation: a pseudonym, and data that belongs to one user."""

    id: str
    user: UserId
    shadow: int  # -1: an anonymous client; otherwise the candidate whose prior data the adversary put here
    data: Examples
    defended: bool = True  # whether the defences act on this client


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Everything that happened in one round; what of it an adversary sees is decided elsewhere."""

    number: int  # from 1
    clients: IntArray  # client indices, in an order that means nothing
    sizes: IntArray  # how many examples each of them trained on
    updates: Params  # layer -> (present, size), as the server receives them
    aggregate: Params  # the weighted mean, by which the server moves
    weights: Params  # the global model after the round
    dropped: tuple[tuple[str, str], ...] = ()  # (client id, why its update was left out)


def make_clients(shares: Sequence[Share], seed: int, *, adaptive: bool = False) -> tuple[Client, ...]:
    """Give each user an anonymous client with their private data and a shadow client with their prior data.

    Without prior data there are no shadow clients. A defence-aware adversary applies the defences to its shadow clients
    too.

    All of them train together, as in the paper. Pseudonyms and order are drawn at random, so that neither reveals the
    user.
    """
    rng = rng_for(seed, "devices")
    kinds = 2 if any(len(share.prior) for share in shares) else 1
    count = kinds * len(shares)
    names = [f"d-{number:06x}" for number in rng.choice(16**6, count, replace=False)]
    found = []
    for name, place in zip(names, rng.permutation(count).tolist(), strict=True):
        candidate, is_shadow = divmod(place, kinds)
        share = shares[candidate]
        found.append(
            Client(name, share.user.id, candidate, share.prior, defended=adaptive)
            if is_shadow
            else Client(name, share.user.id, -1, share.private)
        )
    return tuple(found)


def defended(model: Model, defences: Sequence[Defence]) -> Model:
    """The model that the clients train: the plan's, as the defences change it."""
    for defence in defences:
        model = defence.on_model(model)
        for place in defence.places:
            if place not in getattr(model, "places", ()):
                raise PlanError(
                    f"defence '{defence.name}' acts on the output of the {place} layer, but this model has no such "
                    "layer; choose another model (char-lm, word-lm and rating have both)"
                )
    return model


def initial(model: Model, seed: int) -> Params:
    """The weights that the first round starts from."""
    return model.init(rng_for(seed, "weights"))


def train(
    model: Model,
    clients: Sequence[Client],
    settings: FederationPlan,
    defences: Sequence[Defence],
    background: Examples | None,
    seed: int,
    *,
    start: int = 0,
    weights: Params | None = None,
    workers: int = 1,
    tampering: Tampering = NOTHING,
    isolation: Isolation | None = None,
    fresh_data: bool = False,
) -> Iterator[Round]:
    """Yield the rounds after `start`, which left these weights.

    Every draw is named by round and client, so a resumed run and a run on more workers yield the same bytes.
    `model` is the plan's: on_model is applied here. A run in which clients are isolated resumes from the models that
    these have by then, too; its updates are recorded like all others, and do not move the shared model.

    With `fresh_data` all examples are redistributed before every round, and so are the numbers of examples: a control
    in which no client repeats anything.
    """
    if start and (weights is None or (tampering.isolated and isolation is None)):
        raise ValueError("a run resumes from the weights of the round it stopped after")
    model = defended(model, defences)
    now = initial(model, seed) if weights is None else weights
    backgrounds = [
        background
        if background is None
        else defence.on_background(background, model, settings, rng_for(seed, "on_background", place))
        for place, defence in enumerate(defences)
    ]
    data = [_guarded(client, defences, backgrounds, seed) for client in clients]
    engine = Embedded(
        model,
        task_of(data[0]),
        settings,
        Pool.of(data, [d.id for d in clients]),
        defences,
        workers,
        [d.defended for d in clients],
    )
    sizes = engine.pool.sizes
    everything = engine.pool.copy() if fresh_data else None
    slots = np.arange(len(clients))  # whose place in the pool each client trains on
    isolation = isolation or Isolation(now, tampering.isolated)
    adder = next((defence for defence in defences if defence.overrides("on_aggregation")), None)
    if adder is not None and tampering.isolated:
        raise PlanError(f"a client cannot be isolated with '{adder.name}', which hides single updates")
    alone = np.isin(np.arange(len(clients)), tampering.isolated)
    past: list[list[int]] = []
    for _ in range(start):
        past.append(_select(clients, settings.fraction, defences, past, seed))
    try:
        for number in range(start + 1, settings.rounds + 1):
            selected = _select(clients, settings.fraction, defences, past, seed)
            past.append(selected)
            with one_thread():
                if everything is not None:
                    rng = rng_for(seed, "fresh-data", number)
                    engine.pool.redeal(everything, rng)
                    slots = rng.permutation(len(clients))
                    if tampering.newcomer is not None:  # whose data is its own
                        mine = tampering.newcomer.client
                        slots[slots == mine], slots[mine] = slots[mine], mine
                if tampering.newcomer is not None:
                    engine.pool.replace(tampering.newcomer.client, tampering.newcomer.data(number, now))
                rows = _computed(
                    engine,
                    now,
                    isolation,
                    selected,
                    slots,
                    lambda stage, d, n=number: rng_for(seed, stage, n, clients[d].id),  # type: ignore[misc]
                )
                ids = [clients[d].id for d in selected]
                apply_update_defences(
                    rows,
                    ids,
                    [clients[d].defended for d in selected],
                    defences,
                    lambda place, row, n=number, of=ids: rng_for(seed, "on_update", place, n, of[row]),  # type: ignore[misc]
                    f"round {number}",
                )
                kept, dropped = finite(rows, ids, settings, number)
                present = np.array(selected, dtype=np.int64)[kept]
                received: Params = {name: row.numpy()[kept] if dropped else row.numpy() for name, row in rows.items()}
                for place, defence in enumerate(defences):
                    if defence.overrides("on_channel"):
                        received = defence.on_channel(received, rng_for(seed, "on_channel", place, number))
                together = ~alone[present]
                for row in np.flatnonzero(~together):
                    isolation.move(int(present[row]), {name: values[row] for name, values in received.items()})
                shared = received if together.all() else {name: values[together] for name, values in received.items()}
                shares = _shares(sizes[slots[present[together]]], settings)
                if adder is None:
                    aggregate = _mean(shared, shares)
                else:
                    added = adder.on_aggregation(shared, shares, rng_for(seed, "on_aggregation", number))
                    received, aggregate = added.seen, added.aggregate
                    lost = [clients[d].id for d in present[~added.arrived]]
                    dropped = (*dropped, *((name, f"'{adder.name}' lost it on the way") for name in lost))
                    present, shares = (
                        present[added.arrived],
                        _shares(sizes[slots[present[added.arrived]]], settings),
                    )
                for place, defence in enumerate(defences):
                    if defence.overrides("on_aggregate"):
                        rng = rng_for(seed, "on_aggregate", place, number)
                        aggregate = defence.on_aggregate(aggregate, shares, rng)
            now = {name: now[name] + aggregate[name] for name in now}
            yield Round(
                number=number,
                clients=present,
                sizes=sizes[slots[present]],
                updates=received,
                aggregate=aggregate,
                weights=now,
                dropped=dropped,
            )
    finally:
        engine.close()


def _computed(
    engine: Embedded, now: Params, isolation: Isolation, selected: Sequence[int], slots: IntArray, rngs: Rngs
) -> dict[str, torch.Tensor]:
    """What the selected clients make of the models that they are sent: the shared one, or one of their own."""

    def trained(weights: Params, chosen: Sequence[int]) -> dict[str, torch.Tensor]:
        return engine.updates(weights, slots[chosen].tolist(), rngs)

    if not isolation.models:
        return trained(now, selected)
    apart = [d for d in selected if d in isolation.models]
    order = [d for d in selected if d not in isolation.models] + apart
    parts = [trained(now, order[: len(order) - len(apart)])]
    parts += [trained(isolation.models[d], [d]) for d in apart]
    places = torch.tensor([order.index(d) for d in selected], dtype=torch.int64)
    return {name: torch.cat([part[name] for part in parts])[places] for name in parts[0]}


def _guarded(
    client: Client, defences: Sequence[Defence], backgrounds: Sequence[Examples | None], seed: int
) -> Examples:
    data = client.data
    if not client.defended:
        return data
    for place, defence in enumerate(defences):
        if defence.overrides("on_data"):
            data = defence.on_data(data, backgrounds[place], rng_for(seed, "on_data", place, client.id))
    return data


def _select(
    clients: Sequence[Client],
    fraction: float,
    defences: Sequence[Defence],
    past: Sequence[Sequence[int]],
    seed: int,
) -> list[int]:
    """Draw M = max(1, floor(C K)) clients; the tiny term forgives products such as 0.29 * 100 = 28.999..."""
    number = len(past) + 1
    wanted = max(1, int(fraction * len(clients) + 1e-9))
    selected: list[int] = rng_for(seed, "select", number).choice(len(clients), wanted, replace=False).tolist()
    for place, defence in enumerate(defences):
        if defence.overrides("on_participation"):
            rng = rng_for(seed, "on_participation", place, number)
            asked = [d for d in selected if clients[d].defended]
            given = list(defence.on_participation(asked, past, rng))
            stay = {*given, *(d for d in selected if not clients[d].defended)}
            # In the order in which they were drawn: it must not show who defends themselves.
            selected = [d for d in selected if d in stay] + [d for d in given if d not in selected]
    return selected


def _shares(sizes: IntArray, settings: FederationPlan) -> FloatArray:
    """The weight of each update in the mean."""
    weights = sizes if settings.weighting == "examples" else np.ones_like(sizes)
    return np.asarray(weights / max(1, weights.sum()), dtype=np.float32)


def _mean(updates: Params, shares: FloatArray) -> Params:
    """Average the updates by their weights; without updates the model does not change."""
    weights = torch.from_numpy(shares)
    return {name: (weights @ torch.from_numpy(np.ascontiguousarray(rows))).numpy() for name, rows in updates.items()}

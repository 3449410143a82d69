"""Federated averaging: clients, selection, the server's step, and the record of each round.

Algorithm 1 of Orekondy et al. (Gradient-Leaks, 2020), which is FedAvg (McMahan et al., 2017): each round the server
sends its model to a random share of the clients, each trains it on its own data, and the server moves by the mean of
what they send back, weighted by how many examples each has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, Params, UserId, rng_for
from fedleak.federation.aggregation import Aggregator
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, Rngs, one_thread
from fedleak.federation.engines.engine import Engine, engine_for
from fedleak.federation.hooks import Defence, PublicData
from fedleak.federation.loss import task_of
from fedleak.federation.model import Model
from fedleak.federation.monitor import Monitor
from fedleak.federation.tampering import NOTHING, Isolation, Tampering
from fedleak.federation.update_pipeline import apply_update_defences, finite
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.plan.together import require_bufferless, require_places
from fedleak.population.population import Examples, Share

__all__ = ["Client", "Round", "make_clients", "initial", "select_clients", "train"]


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
    monitor: Monitor | None = None,
) -> Iterator[Round]:
    """Yield the rounds after `start`, which left these weights.

    Every draw is named by round and client, so a resumed run and a run on more workers yield the same bytes. A run in
    which clients are isolated resumes from the models that these have by then, too; its updates are recorded like all
    others, and do not move the shared model.

    With `fresh_data` all examples are redistributed before every round, and so are the numbers of examples: a control
    in which no client repeats anything. A `monitor` that has seen the models so far lowers the learning rate and ends
    the run.
    """
    if start and (weights is None or (tampering.isolated and isolation is None)):
        raise ValueError("a run resumes from the weights of the round it stopped after")
    for defence in defences:
        require_places(defence, model)
        require_bufferless(defence, model)
    now = initial(model, seed) if weights is None else weights
    data = _guarded(clients, defences, background, model, settings, seed)
    pool = Pool.of(data, [d.id for d in clients])
    engine = engine_for(model, task_of(data[0]), settings, pool, defences, workers, [d.defended for d in clients])
    everything = pool.copy() if fresh_data else None
    slots = np.arange(len(clients))  # whose place in the pool each client trains on
    isolation = isolation or Isolation(now, tampering.isolated, tampering.affiliate)
    aggregator = Aggregator(settings, defences, isolation, seed)
    past: list[list[int]] = []
    for _ in range(start):
        past.append(select_clients(clients, settings.fraction, defences, past, seed))
    try:
        for number in range(start + 1, settings.rounds + 1):
            if monitor is not None:
                if monitor.stopped:
                    break
                if isinstance(engine, Embedded):  # own training has a learning rate of its own
                    engine.settings = replace(settings, lr=settings.lr * monitor.rate)
            selected = select_clients(clients, settings.fraction, defences, past, seed)
            past.append(selected)
            with one_thread():
                if everything is not None:
                    slots = _redealt(pool, everything, tampering, rng_for(seed, "fresh-data", number))
                if tampering.newcomer is not None:
                    pool.replace(tampering.newcomer.client, tampering.newcomer.data(number, now))
                rows = _computed(
                    engine,
                    now,
                    isolation,
                    selected,
                    slots,
                    lambda stage, d, n=number: rng_for(seed, stage, n, clients[d].id),  # type: ignore[misc]
                )
                kept, dropped = _sent(rows, [clients[d] for d in selected], settings, defences, number, seed)
                present = np.array(selected, dtype=np.int64)[kept]
                received: Params = {name: row.numpy()[kept] if dropped else row.numpy() for name, row in rows.items()}
                sizes = pool.sizes[slots[present]]
                done = aggregator.add_up(number, received, present, sizes)
            now = {name: now[name] + done.aggregate[name] for name in now}
            if tampering.imprint is not None:
                now = tampering.imprint.restore(now)
            if monitor is not None:
                monitor.see(now)
            yield Round(
                number=number,
                clients=present[done.arrived],
                sizes=sizes[done.arrived],
                updates=done.seen,
                aggregate=done.aggregate,
                weights=now,
                dropped=(*dropped, *((clients[d].id, done.lost) for d in present[~done.arrived])),
            )
    finally:
        engine.close()


def _redealt(pool: Pool, everything: Pool, tampering: Tampering, rng: np.random.Generator) -> IntArray:
    """Deal everybody's data out again; whose place in the pool each client trains on from now is returned."""
    pool.redeal(everything, rng)
    slots = rng.permutation(len(pool.sizes))
    if tampering.newcomer is not None:  # whose data is its own
        mine = tampering.newcomer.client
        slots[slots == mine], slots[mine] = slots[mine], mine
    return slots


def _sent(
    rows: dict[str, torch.Tensor],
    clients: Sequence[Client],
    settings: FederationPlan,
    defences: Sequence[Defence],
    number: int,
    seed: int,
) -> tuple[npt.NDArray[np.bool_], tuple[tuple[str, str], ...]]:
    """Let the defences on the clients change their updates; which of them are finite, and why others are left out."""
    ids = [client.id for client in clients]
    apply_update_defences(
        rows,
        ids,
        [client.defended for client in clients],
        defences,
        lambda place, row: rng_for(seed, "on_update", place, number, ids[row]),
        f"round {number}",
    )
    return finite(rows, ids, settings, number)


def _computed(
    engine: Engine, now: Params, isolation: Isolation, selected: Sequence[int], slots: IntArray, rngs: Rngs
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
    clients: Sequence[Client],
    defences: Sequence[Defence],
    background: Examples | None,
    model: Model,
    settings: FederationPlan,
    seed: int,
) -> list[Examples]:
    """What each client trains on, as the defences of those that defend themselves change it."""
    data = [client.data for client in clients]
    guarded = [index for index, client in enumerate(clients) if client.defended]
    for place, defence in enumerate(defences):
        if not defence.overrides("on_data"):
            continue
        public = None
        if background is not None:
            public = PublicData(background, model, settings, rng_for(seed, "on_background", place))
        rngs = [rng_for(seed, "on_data", place, clients[index].id) for index in guarded]
        changed = defence.on_data([data[index] for index in guarded], public, rngs)
        for index, examples in zip(guarded, changed, strict=True):
            data[index] = examples
    return data


def select_clients(
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

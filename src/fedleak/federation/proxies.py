"""Proxy clients: the adversary's own, with public examples that show what it looks for (Orekondy et al., 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, UserId, rng_for
from fedleak.errors import PlanError, did_you_mean
from fedleak.federation.federation import Client
from fedleak.plan.capability_tables import ProxyPlan
from fedleak.population.population import Examples

__all__ = ["alike", "proxies"]


def proxies(
    plan: ProxyPlan,
    public: Examples | None,
    shows: Mapping[str, npt.NDArray[np.int8]],
    clients: Sequence[Client],
    seed: int,
) -> tuple[Client, ...]:
    """For each trait clients with it, and clients with other examples of the same classes in their place.

    Their shadow indices follow those of the candidates. A defence-aware adversary applies the defences to them, as to
    its other shadow clients.
    """
    rng = rng_for(seed, "proxies")
    names = _unused({client.id for client in clients}, rng)
    first = max((client.shadow for client in clients), default=-1) + 1
    defended = any(client.defended for client in clients if client.shadow >= 0)
    wanted = max(1, round(plan.part * plan.examples))
    found: list[Client] = []
    for place, trait in enumerate(plan.traits):
        if public is None or trait not in shows:
            known = "; this data set has no traits with public background data" if public is None else ""
            raise PlanError(f"[proxy] traits: unknown trait '{trait}'{known or did_you_mean(trait, shows)}")
        fitting, unlike = public.take(shows[trait] == 1), public.take(shows[trait] == 0)
        if not len(fitting) or not len(unlike):
            raise PlanError(
                f"[proxy] traits: {len(fitting)} public examples show '{trait}' and {len(unlike)} of the same kind do "
                "not; both are needed"
            )
        for _ in range(plan.clients):
            shown = fitting.take(rng.choice(len(fitting), wanted, replace=len(fitting) < wanted))
            rest = public.take(rng.choice(len(public), plan.examples - wanted))
            for kind, chosen in enumerate((shown, unlike.take(alike(shown, unlike, rng)))):
                data = Examples.concat([chosen, rest])
                data = Examples(x=data.x.astype(clients[0].data.x.dtype), y=data.y)
                found.append(
                    Client(next(names), UserId("adversary"), first + 2 * place + kind, data, defended=defended)
                )
    return tuple(found)


def _unused(taken: set[str], rng: np.random.Generator) -> Iterator[str]:
    """Pseudonyms like everybody's, that nobody has."""
    while True:
        name = f"d-{int(rng.integers(16**6)):06x}"
        if name not in taken:
            taken.add(name)
            yield name


def alike(given: Examples, pool: Examples, rng: np.random.Generator) -> IntArray:
    """For each example one of the pool with the same label, if there is any; the mix of classes is not the profile."""
    if given.y is None or pool.y is None:
        return rng.choice(len(pool), len(given), replace=len(pool) < len(given))
    same = (given.y.reshape(len(given), 1, -1) == pool.y.reshape(1, len(pool), -1)).all(axis=2)
    same[~same.any(axis=1)] = True
    return np.array([rng.choice(np.flatnonzero(row)) for row in same], dtype=np.int64)

"""What an adversary does to a federation where the plan grants it the capability.

- Isolation (Song et al., 2020, section V-D): a client gets a model that no other client's updates change. It starts as
  the shared model does; the shared model continues without it. The paper's server sends its discriminator, which it
  trains between rounds (`fedleak.federation.affiliated_server`).
- Choosing the model (Fowl et al., 2022): the server inserts a block of layers whose gradients hold single examples
  (`fedleak.federation.models.imprint`). The model is then another one for everybody; every round begins with the block
  as it was designed.
- Joining: a client of the adversary, whose data is regenerated each round from the shared model
  (`fedleak.federation.gan_client` has the one of Hitaj et al., 2017).

None of them is a hook (`fedleak.federation.hooks`), because each needs what no defence may have. A defence acts on
every client alike, by settings that everybody knows, and keeps no state. An adversary picks its victims by index, sends
them another model than the others get, leaves their updates out of the mean, and learns from every model that it is
sent. So the federation asks a `Tampering` at four places of its own: `Newcomer.data` before a round is trained, the
models of an `Isolation` when clients train, `Isolation.move` when updates are added up (there the server trains, too),
and `Imprinting.restore` when the shared model has moved.
Injected records are no tampering with the federation: they are in the population before it begins
(`fedleak.population.inject`). All of them are declared in the plan and told by the trace's header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedleak.core import Params, rng_for
from fedleak.errors import PlanError, did_you_mean
from fedleak.plan.plan import IsolatePlan
from fedleak.population.population import Examples

__all__ = ["Affiliate", "Imprinting", "Isolation", "Newcomer", "NOTHING", "Tampering", "victims"]


class Newcomer(Protocol):
    """The adversary's client: which one it is, and what it trains on in a round that starts from these weights."""

    client: int

    def data(self, round_number: int, weights: Params) -> Examples:
        """As many examples every round; the rounds come in order, from the first."""
        ...


class Affiliate(Protocol):
    """A server that does more to the model of an isolated client than to add its updates."""

    def improve(self, client: int, weights: Params) -> Params:
        """The model, to which an update has been added, as the client is sent it next; in the order of the rounds."""
        ...


class Isolation:
    """The models of isolated clients: initial weights, and all that the client has sent, added up.

    Between two rounds an affiliated server trains them further, where there is one.
    """

    def __init__(self, start: Params, clients: Iterable[int], affiliate: Affiliate | None = None) -> None:
        self.models: dict[int, Params] = {client: start for client in clients}
        self.affiliate = affiliate

    def move(self, client: int, update: Params) -> None:
        """The isolated model moves by the whole update: the mean over a federation of one."""
        model = self.models[client]
        model = {name: model[name] + update[name] for name in model}
        self.models[client] = model if self.affiliate is None else self.affiliate.improve(client, model)


class Imprinting(Protocol):
    """A server that inserted layers into the model, and puts them back as it designed them before every round."""

    def restore(self, weights: Params) -> Params:
        """The model as clients are sent it next."""
        ...


@dataclass(frozen=True, slots=True)
class Tampering:
    """Everything that an adversary does to one run; nothing, where the plan grants no capability."""

    isolated: tuple[int, ...] = ()  # client indices
    newcomer: Newcomer | None = None
    affiliate: Affiliate | None = None  # of the isolated clients
    imprint: Imprinting | None = None


NOTHING = Tampering()


def victims(plan: IsolatePlan, owners: Mapping[str, str], names: Sequence[str], seed: int) -> tuple[int, ...]:
    """Which clients are isolated: indices into `names`; `owners` says whose each one is."""
    if plan.user is not None:
        found = [index for index, name in enumerate(names) if owners.get(name) == plan.user]
        if not found:
            raise PlanError(
                f"[isolate] user = '{plan.user}': there is no such user in the federation"
                f"{did_you_mean(plan.user, owners.values())}"
            )
        return tuple(found)
    if plan.victims > len(names) - 2:
        raise PlanError(
            f"[isolate] victims = {plan.victims}: at least two of the {len(names)} clients must remain in the "
            "federation; isolate fewer, or use more users"
        )
    drawn = rng_for(seed, "isolate").choice(len(names), plan.victims, replace=False)
    return tuple(int(index) for index in np.sort(drawn))

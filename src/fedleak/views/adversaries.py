"""Who attacks: what each adversary sees of a run and what it can do to it.

An adversary is a type, not a comment: views are built from it, and an attack that needs more is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedleak.core import Capability, Observation, flag_names
from fedleak.registry import load, names

__all__ = [
    "Adversary",
    "Declares",
    "SERVER",
    "ANONYMOUS_SERVER",
    "GLOBAL_MODEL_CLIENT",
    "EAVESDROPPER",
    "INSIDER",
    "AGGREGATE_SERVER",
    "ACTIVE_SERVER",
    "MALICIOUS_CLIENT",
    "everyone",
    "describe",
]

_PLAIN: Mapping[Observation | Capability, str] = {
    Observation.SNAPSHOTS: "the shared model after every round",
    Observation.UPDATES: "what each client sends back after training",
    Observation.LINKS: "which of these messages come from one client",
    Observation.SELECTION: "which clients take part in each round",
    Observation.AGGREGATE: "the sum of what the clients of a round send",
    Observation.SIZES: "how many examples each client trains on",
    Capability.INJECT: "place a record of its own making among the data of a client",
    Capability.ISOLATE: "give one client a model of its own",
    Capability.JOIN: "take part as a client",
}


def describe(observation: Observation | Capability) -> str:
    """Say what is seen, or can be done, in words for people who never heard of federated learning.

    >>> describe(Observation.SNAPSHOTS | Observation.SELECTION)
    'the shared model after every round; which clients take part in each round'
    """
    return "; ".join(_PLAIN[client] for client in observation) or "nothing"


class Declares(Protocol):
    """What an attack says of itself before it is played."""

    @property
    def needs(self) -> Observation:
        """What it must see."""
        ...

    @property
    def capabilities(self) -> Capability:
        """What it must be able to do."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversary:
    """Somebody who attacks a run, by what they see and can do."""

    name: str
    observations: Observation
    capabilities: Capability = Capability.NONE
    summary: str  # one plain sentence

    def lacks(self, needs: Observation) -> Observation:
        """What of the things that an attack needs this adversary does not see.

        >>> GLOBAL_MODEL_CLIENT.lacks(Observation.UPDATES | Observation.SNAPSHOTS)
        <Observation.UPDATES: 2>
        """
        return needs & ~self.observations

    def missing(self, attack: Declares) -> str:
        """What an attack takes and this adversary does not have, in words; empty if it can play the attack."""
        power = attack.capabilities & ~self.capabilities
        lacking = [flag_names(observation)] if (observation := self.lacks(attack.needs)) else []
        return " and ".join([*lacking, f"the capability to {flag_names(power)}"] if power else lacking)


SERVER = Adversary(
    name="server",
    observations=Observation.SNAPSHOTS
    | Observation.UPDATES
    | Observation.LINKS
    | Observation.SELECTION
    | Observation.AGGREGATE
    | Observation.SIZES,
    summary="The company that runs the training: it follows the rules, and keeps everything that clients send, "
    "under a number that stays the same from round to round.",
)
ANONYMOUS_SERVER = Adversary(
    name="anonymous-server",
    observations=Observation.SNAPSHOTS | Observation.UPDATES | Observation.AGGREGATE,
    summary="The company that runs the training, when messages reach it without a sender's name or number.",
)
GLOBAL_MODEL_CLIENT = Adversary(
    name="global-model-client",
    observations=Observation.SNAPSHOTS,
    summary="A client who keeps every version of the shared model that it is sent.",
)
EAVESDROPPER = Adversary(
    name="eavesdropper",
    observations=Observation.SNAPSHOTS | Observation.SELECTION,
    summary="A client who keeps every version of the shared model and can tell from the network traffic which "
    "clients took part.",
)
INSIDER = Adversary(
    name="insider",
    observations=Observation.SNAPSHOTS,
    capabilities=Capability.INJECT,
    summary="A client who keeps every version of the shared model, and once got a message of its own making among "
    "the texts of each of the others.",
)
AGGREGATE_SERVER = Adversary(
    name="aggregate-server",
    observations=Observation.SNAPSHOTS | Observation.AGGREGATE | Observation.SELECTION,
    summary="The company that runs the training, when cryptography lets it see only the sum of a round's messages.",
)
ACTIVE_SERVER = Adversary(
    name="active-server",
    observations=SERVER.observations,
    capabilities=Capability.ISOLATE,
    summary="The company that runs the training, when it breaks the rules: it sees what the server sees, and gives "
    "some clients a model of their own to train, which nobody else's training touches.",
)
MALICIOUS_CLIENT = Adversary(
    name="malicious-client",
    observations=Observation.SNAPSHOTS,
    capabilities=Capability.JOIN,
    summary="A client who keeps every version of the shared model, and trains with false examples to make the "
    "others reveal more.",
)


def everyone() -> tuple[Adversary, ...]:
    """Every registered adversary, plugins included."""
    return tuple(load("adversary", name) for name in names("adversary"))

"""The adversaries: what each one observes of a run and what it can do to it.

An adversary is a type, not a comment: views are built from it, and an attack that needs more is rejected. What an
adversary can compute from what it sees, it sees too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fedleak.core import Capability, Observation, flag_names
from fedleak.registry import load, names

__all__ = [
    "Adversary",
    "Declares",
    "SERVER",
    "ANONYMOUS_SERVER",
    "MODEL_USER",
    "GLOBAL_MODEL_CLIENT",
    "EAVESDROPPER",
    "INSIDER",
    "AGGREGATE_SERVER",
    "ENCLAVE_SERVER",
    "ACTIVE_SERVER",
    "MALICIOUS_CLIENT",
    "MALICIOUS_SERVER",
    "MALICIOUS_AGGREGATE_SERVER",
    "everyone",
    "weakest",
    "describe",
]

_PLAIN: Mapping[Observation | Capability, str] = {
    Observation.SNAPSHOTS: "the shared model after every round",
    Observation.UPDATES: "what each client sends back after training",
    Observation.LINKS: "which of these updates come from the same client",
    Observation.SELECTION: "which clients take part in each round",
    Observation.AGGREGATE: "the sum of what the clients send in a round",
    Observation.SIZES: "how many examples each client trains on",
    Observation.MODEL: "the finished model",
    Capability.INJECT: "inject a record of its own into a client's data",
    Capability.ISOLATE: "isolate one client on a model of its own",
    Capability.JOIN: "take part as a client",
    Capability.CHOOSE_MODEL: "insert layers of its own design into the model",
}


def describe(observation: Observation | Capability) -> str:
    """Say in plain language what is observed, or can be done.

    >>> describe(Observation.SNAPSHOTS | Observation.SELECTION)
    'the shared model after every round; which clients take part in each round'
    """
    if isinstance(observation, Observation) and Observation.SNAPSHOTS in observation:
        observation &= ~Observation.MODEL  # the last of the snapshots
    return "; ".join(_PLAIN[client] for client in observation) or "nothing"


class Declares(Protocol):
    """What an attack declares before it runs."""

    @property
    def needs(self) -> Observation:
        """What it must see."""
        ...

    @property
    def capabilities(self) -> Capability:
        """What it must be able to do."""
        ...


# What follows from what: with all of the first, an adversary can compute the second. The mean of a round is weighted by
# the number of each client's examples, so least squares of the mean on the round's updates gives these weights, hence
# the sizes up to a factor; an update of the adversary's own client gives the factor too.
_IMPLIES: Mapping[Observation, Observation] = {Observation.UPDATES | Observation.AGGREGATE: Observation.SIZES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversary:
    """A threat model: what an attacker of a run observes and can do.

    `observations` are given as what the adversary is told, and completed by what it can compute from that. What is
    only `computed` is missing in a run whose trace does not determine it (`Header.weights_follow`).

    >>> Adversary(name="relay", observations=Observation.UPDATES | Observation.AGGREGATE, summary="").computed
    <Observation.SIZES: 32>
    """

    name: str
    observations: Observation
    capabilities: Capability = Capability.NONE
    summary: str  # a noun phrase in plain language
    computed: Observation = field(init=False, default=Observation.NONE)

    def __post_init__(self) -> None:
        """Add what follows from the observations."""
        if Observation.SNAPSHOTS in self.observations:  # the last snapshot is the finished model
            object.__setattr__(self, "observations", self.observations | Observation.MODEL)
        told = self.observations
        for seen, follows in _IMPLIES.items():
            if seen in self.observations:
                object.__setattr__(self, "observations", self.observations | follows)
        object.__setattr__(self, "computed", self.observations & ~told)

    def lacks(self, needs: Observation) -> Observation:
        """The observations that an attack needs and this adversary lacks.

        >>> GLOBAL_MODEL_CLIENT.lacks(Observation.UPDATES | Observation.SNAPSHOTS)
        <Observation.UPDATES: 2>
        """
        return needs & ~self.observations

    def missing(self, attack: Declares) -> str:
        """What an attack needs and this adversary lacks, in words; empty if it can run the attack."""
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
    summary="The company that runs the training, honest but curious, which keeps everything that clients send under "
    "a pseudonym that stays the same from round to round.",
)
ANONYMOUS_SERVER = Adversary(
    name="anonymous-server",
    observations=Observation.SNAPSHOTS | Observation.UPDATES | Observation.AGGREGATE,
    summary="The company that runs the training, honest but curious, when updates reach it without a sender's name or "
    "pseudonym.",
)
MODEL_USER = Adversary(
    name="model-user",
    observations=Observation.MODEL,
    summary="A person who has the finished model: a customer whose phone it runs on, or whoever downloads it.",
)
GLOBAL_MODEL_CLIENT = Adversary(
    name="global-model-client",
    observations=Observation.SNAPSHOTS,
    summary="A client that keeps every version of the shared model that it is sent.",
)
EAVESDROPPER = Adversary(
    name="eavesdropper",
    observations=Observation.SNAPSHOTS | Observation.SELECTION,
    summary="A client that keeps every version of the shared model and sees from network traffic which clients took "
    "part.",
)
INSIDER = Adversary(
    name="insider",
    observations=Observation.SNAPSHOTS,
    capabilities=Capability.INJECT,
    summary="A client that keeps every version of the shared model and injected a record of its own into the texts "
    "of other clients, of one or of all.",
)
AGGREGATE_SERVER = Adversary(
    name="aggregate-server",
    observations=Observation.SNAPSHOTS | Observation.AGGREGATE | Observation.SELECTION,
    summary="The company that runs the training, under secure aggregation: cryptography shows it only the sum of a "
    "round's updates.",
)
# Updates are encrypted for the enclave, which adds them up and releases the new model. The company still operates the
# network and stores the models. The mean of a round follows from two models, unless the enclave adds noise to it.
ENCLAVE_SERVER = Adversary(
    name="enclave-server",
    observations=Observation.SNAPSHOTS | Observation.SELECTION,
    summary="The company that runs the training, when updates are added up in an enclave (trusted execution "
    "environment): it sees who takes part and the model that the enclave releases.",
)
ACTIVE_SERVER = Adversary(
    name="active-server",
    observations=SERVER.observations,
    capabilities=Capability.ISOLATE,
    summary="The company that runs the training, breaking the protocol: it sees what the server sees, and isolates "
    "some clients on models that no other client trains.",
)
MALICIOUS_CLIENT = Adversary(
    name="malicious-client",
    observations=Observation.SNAPSHOTS,
    capabilities=Capability.JOIN,
    summary="A client that keeps every version of the shared model and trains on false examples to make the others "
    "reveal more.",
)
MALICIOUS_SERVER = Adversary(
    name="malicious-server",
    observations=SERVER.observations,
    capabilities=Capability.CHOOSE_MODEL,
    summary="The company that runs the training, breaking the protocol: it sees what the server sees, and sends "
    "clients a model with layers that are made to leak.",
)
# Secure aggregation says what the server sees, not what it sends: whoever writes the clients' code decides that.
MALICIOUS_AGGREGATE_SERVER = Adversary(
    name="malicious-aggregate-server",
    observations=AGGREGATE_SERVER.observations,
    capabilities=Capability.CHOOSE_MODEL,
    summary="The company that runs the training under secure aggregation, breaking the protocol: it sees only the sum "
    "of a round's updates, and sends clients a model with layers that are made to leak.",
)


def everyone() -> tuple[Adversary, ...]:
    """Every registered adversary, plugins included."""
    return tuple(load("adversary", name) for name in names("adversary"))


def weakest(attack: Declares) -> Adversary | None:
    """The registered adversary that observes least and can still run the attack; None if none can."""
    able = [adversary for adversary in everyone() if not adversary.missing(attack)]
    return min(able, key=lambda adversary: len(list(adversary.observations)), default=None)

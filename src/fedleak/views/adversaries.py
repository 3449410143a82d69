"""Who attacks: what each adversary sees of a run and what it can do to it.

An adversary is a type, not a comment: views are built from it, and an attack that needs more is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedleak.core import Power, Sight, words
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
    "plain",
]

_PLAIN: Mapping[Sight | Power, str] = {
    Sight.SNAPSHOTS: "the shared model after every round",
    Sight.UPDATES: "what each device sends back after training",
    Sight.LINKS: "which of these messages come from one device",
    Sight.SELECTION: "which devices take part in each round",
    Sight.AGGREGATE: "the sum of what the devices of a round send",
    Sight.SIZES: "how many examples each device trains on",
    Power.INJECT: "place a record of its own making among the data of a device",
    Power.ISOLATE: "give one device a model of its own",
    Power.JOIN: "take part as a device",
}


def plain(sight: Sight | Power) -> str:
    """Say what is seen, or can be done, in words for people who never heard of federated learning.

    >>> plain(Sight.SNAPSHOTS | Sight.SELECTION)
    'the shared model after every round; which devices take part in each round'
    """
    return "; ".join(_PLAIN[member] for member in sight) or "nothing"


class Declares(Protocol):
    """What an attack says of itself before it is played."""

    @property
    def needs(self) -> Sight:
        """What it must see."""
        ...

    @property
    def powers(self) -> Power:
        """What it must be able to do."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversary:
    """Somebody who attacks a run, by what they see and can do."""

    name: str
    sights: Sight
    powers: Power = Power.NONE
    summary: str  # one plain sentence

    def lacks(self, needs: Sight) -> Sight:
        """What of the things that an attack needs this adversary does not see.

        >>> GLOBAL_MODEL_CLIENT.lacks(Sight.UPDATES | Sight.SNAPSHOTS)
        <Sight.UPDATES: 2>
        """
        return needs & ~self.sights

    def missing(self, attack: Declares) -> str:
        """What an attack takes and this adversary does not have, in words; empty if it can play the attack."""
        power = attack.powers & ~self.powers
        lacking = [words(sight)] if (sight := self.lacks(attack.needs)) else []
        return " and ".join([*lacking, f"the power to {words(power)}"] if power else lacking)


SERVER = Adversary(
    name="server",
    sights=Sight.SNAPSHOTS | Sight.UPDATES | Sight.LINKS | Sight.SELECTION | Sight.AGGREGATE | Sight.SIZES,
    summary="The company that runs the training: it follows the rules, and keeps everything that devices send, "
    "under a number that stays the same from round to round.",
)
ANONYMOUS_SERVER = Adversary(
    name="anonymous-server",
    sights=Sight.SNAPSHOTS | Sight.UPDATES | Sight.AGGREGATE,
    summary="The company that runs the training, when messages reach it without a sender's name or number.",
)
GLOBAL_MODEL_CLIENT = Adversary(
    name="global-model-client",
    sights=Sight.SNAPSHOTS,
    summary="A participant who keeps every version of the shared model that it is sent.",
)
EAVESDROPPER = Adversary(
    name="eavesdropper",
    sights=Sight.SNAPSHOTS | Sight.SELECTION,
    summary="A participant who keeps every version of the shared model and can tell from the network traffic which "
    "devices took part.",
)
INSIDER = Adversary(
    name="insider",
    sights=Sight.SNAPSHOTS,
    powers=Power.INJECT,
    summary="A participant who keeps every version of the shared model, and once got a message of its own making among "
    "the texts of each of the others.",
)
AGGREGATE_SERVER = Adversary(
    name="aggregate-server",
    sights=Sight.SNAPSHOTS | Sight.AGGREGATE | Sight.SELECTION,
    summary="The company that runs the training, when cryptography lets it see only the sum of a round's messages.",
)
ACTIVE_SERVER = Adversary(
    name="active-server",
    sights=SERVER.sights,
    powers=Power.ISOLATE,
    summary="The company that runs the training, when it breaks the rules: it sees what the server sees, and gives "
    "some devices a model of their own to train, which nobody else's training touches.",
)
MALICIOUS_CLIENT = Adversary(
    name="malicious-client",
    sights=Sight.SNAPSHOTS,
    powers=Power.JOIN,
    summary="A participant who keeps every version of the shared model, and trains with false examples to make the "
    "others reveal more.",
)


def everyone() -> tuple[Adversary, ...]:
    """Every registered adversary, plugins included."""
    return tuple(load("adversary", name) for name in names("adversary"))

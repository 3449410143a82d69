"""What one adversary observes of a trace; files with anything else are never opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedleak.core import Capability, IntArray, Layout, Observation, Params, Task, flag_names
from fedleak.errors import NotVisible, TraceError
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Signature
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.views.adversaries import Adversary, describe, everyone
from fedleak.views.updates import Updates

__all__ = ["View", "Updates", "OwnModel"]

# Which kinds of file each observation opens. Without LINKS or SELECTION the column of clients stays closed; the shadow
# column only marks the updates of the adversary's own shadow clients, which it knows anyway.
_OPENS: Mapping[Observation, frozenset[str]] = {
    Observation.SNAPSHOTS: frozenset({"snapshots"}),
    Observation.UPDATES: frozenset({"updates", "shadow"}),
    Observation.LINKS: frozenset({"client"}),
    Observation.SELECTION: frozenset({"client"}),
    Observation.AGGREGATE: frozenset({"aggregates"}),
    Observation.SIZES: frozenset({"size"}),
    Observation.MODEL: frozenset({"snapshots"}),  # whose last entry is all that `export` writes and `final` reads
}


class OwnModel(Protocol):
    """A model of the user's own, as a plan names it: an adversary that audits a recorded run can build it."""

    def imitated(self, signature: Signature, layout: Layout | None = None) -> Any:
        """The model that clients train."""
        ...


def observed(adversary: Adversary, header: Header, every: int = 1) -> Observation:
    """What an adversary observes of a run: what its defences hide is hidden from everyone.

    What it would have to compute from other observations it has only where these suffice.
    """
    found = adversary.observations
    if every > 1 or not header.weights_follow:
        found &= ~adversary.computed
    for name in header.hidden:
        found &= ~Observation[name]
    return found


class View:
    """A trace as one adversary observes it, with what every client of the run knows."""

    def __init__(
        self,
        trace_folder: Path,
        adversary: Adversary,
        shadow: IntArray | None = None,
        *,
        rows: IntArray | None = None,
        injected: Mapping[str, str] | None = None,
        shuffled: np.random.Generator | None = None,
        every: int = 1,
        defences: Sequence[Defence] = (),
        selection: Sequence[IntArray] | None = None,
        own_model: OwnModel | None = None,
        own_training: str | None = None,
    ) -> None:
        """Open a trace; `shadow` labels the shadow updates, where a game gives the adversary fewer labels.

        `rows` are the updates that this adversary sees, if not all: some may exist only for the experiment. `shadow`
        has one entry for each of them. `injected` are the records injected into clients' data, visible only to an
        adversary with that capability. `shuffled` is for a control: the participation of the rounds is given in the
        wrong order, unrelated to the snapshots, and each injected record is assigned to another client. With `every`
        the adversary has only every k-th snapshot, and the last: a round of this view covers everything between two of
        them. `defences` are those of the run, for a defence-aware adversary. `selection` holds the clients of every
        round, in a folder that does not link them to updates (views.export). `own_model` and `own_training` are code
        that the plan names and every client has: how the model is built, and how it is trained.
        """
        self.adversary = adversary
        self.defences = tuple(defences)  # empty for a defence-unaware attacker
        self.own_model, self.own_training = own_model, own_training
        self._shadow, self._rows = shadow, rows
        self._observations = observed(adversary, Header.load(trace_folder), every)
        only = frozenset[str]().union(*(_OPENS[observation] for observation in self._observations))
        if shadow is not None:
            only -= {"shadow"}
        self._trace = Trace.open(trace_folder, only)
        if not self._trace.finished:
            raise TraceError(
                f"{trace_folder} holds {self._trace.rounds} of {self._trace.header.rounds} rounds; "
                "rerun the same command to finish training before attacking it"
            )
        last = self._trace.rounds
        self._every, self._selection = every, selection
        self._kept = sorted({*range(0, last + 1, every), last})
        self._told = np.arange(last) if shuffled is None else shuffled.permutation(last)
        held = dict(injected or {}) if Capability.INJECT in adversary.capabilities else {}
        if shuffled is not None and held:
            names = [list(held)[at] for at in shuffled.permutation(len(held))]
            held = {name: held[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}
        self._injected = held

    @property
    def layout(self) -> Layout:
        """The layers of the model."""
        return self._trace.header.layout

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Layers whose updates nobody recorded; they are zeros."""
        return self._trace.header.unrecorded

    @property
    def task(self) -> Task:
        """The task that the federation learns."""
        if self._trace.header.task is None:
            raise NotVisible("a recorded trace does not say what the federation learns; audit it with a plan")
        return self._trace.header.task

    @property
    def rounds(self) -> int:
        """The number of rounds whose models the adversary has, counted from 1."""
        return len(self._kept) - 1

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that every client was sent: model, learning rate, epochs, batch, ..."""
        return {**self._trace.header.settings, "model": self._trace.header.model}

    def snapshot(self, round_number: int) -> Params:
        """The shared model after a round; round 0 is the initial one."""
        self._require(Observation.SNAPSHOTS)
        return self._trace.snapshot(self._kept[self._checked(round_number, first=0)])

    @property
    def final(self) -> Params:
        """The finished model, after the last round."""
        self._require(Observation.MODEL)
        return self._trace.snapshot(self._trace.rounds)

    def aggregate(self, round_number: int) -> Params:
        """The weighted mean of a round's updates."""
        self._require(Observation.AGGREGATE)
        if self.rounds < self._trace.rounds:
            raise NotVisible(
                f"adversary '{self.adversary.name}' does not have every round, so it has no sum of updates"
            )
        return self._trace.aggregate(round_number)

    def selection(self, round_number: int) -> tuple[str, ...]:
        """The clients that took part in a round, with repetitions where snapshots between are missing.

        In the order of their index, not of their updates, so that positions do not link clients to updates.
        """
        self._require(Observation.SELECTION)
        before, after = self._kept[self._checked(round_number, first=1) - 1], self._kept[round_number]
        present = np.sort(np.concatenate([self._present(number + 1) for number in range(before, after)]))
        clients = self._trace.header.clients
        return tuple(clients[int(index)] for index in present)

    def _present(self, number: int) -> IntArray:
        """The clients of one round of the trace, as this adversary is told."""
        if self._selection is not None:
            return self._selection[number - 1]
        present = np.asarray(self._trace.client[self._trace.span(int(self._told[number - 1]) + 1)], dtype=np.int64)
        if not self._trace.header.beside:
            return present
        return present[np.asarray(self._trace.header.shadow)[present] < 0]

    @property
    def injected(self) -> Mapping[str, str]:
        """The records that the adversary injected into clients' data: client -> record."""
        if Capability.INJECT not in self.adversary.capabilities:
            raise NotVisible(
                f"adversary '{self.adversary.name}' injected no records: it lacks the capability to "
                f"{flag_names(Capability.INJECT)} ({describe(Capability.INJECT)})"
            )
        return dict(self._injected)

    @cached_property
    def isolated(self) -> frozenset[int]:
        """The handles of isolated clients; none for an adversary without the capability."""
        if Capability.ISOLATE not in self.adversary.capabilities:
            return frozenset()
        names = self._trace.header.clients
        return frozenset(names.index(client) for one in self._done("isolate") for client in one["clients"])

    @property
    def isolation(self) -> Mapping[str, Any]:
        """What the adversary does to isolated clients: what it sends them, and how it trains that between rounds."""
        found = self._done("isolate") if self.isolated else []
        return {k: v for k, v in found[0].items() if k not in ("power", "clients")} if found else {}

    @property
    def joined(self) -> Mapping[str, Any]:
        """The settings of the adversary's own client, and the seed of its randomness."""
        if Capability.JOIN not in self.adversary.capabilities:
            raise NotVisible(
                f"adversary '{self.adversary.name}' does not take part: it lacks the capability to "
                f"{flag_names(Capability.JOIN)} ({describe(Capability.JOIN)})"
            )
        [found] = self._done("join") or [{}]
        if not found:
            raise NotVisible("no client of the adversary's was in this run; let one in with a table [join] in the plan")
        return found

    @property
    def imprint(self) -> Mapping[str, Any]:
        """The settings of the block that the adversary inserted into the model."""
        if Capability.CHOOSE_MODEL not in self.adversary.capabilities:
            raise NotVisible(
                f"adversary '{self.adversary.name}' did not change the model: it lacks the capability to "
                f"{flag_names(Capability.CHOOSE_MODEL)} ({describe(Capability.CHOOSE_MODEL)})"
            )
        [found] = self._done("imprint") or [{}]
        if not found:
            raise NotVisible("no imprint block was in this run's model; insert one with a table [imprint] in the plan")
        return {key: value for key, value in found.items() if key != "power"}

    def _done(self, power: str) -> list[Mapping[str, Any]]:
        return [one for one in self._trace.header.tampering if one["power"] == power]

    def started_from(self, handle: int, round_number: int) -> Params:
        """The weights that a client was sent in a round: the shared model, or its own if it is isolated.

        An isolated model is the initial one plus all earlier updates of its client, which the server that isolated it
        has seen. Other adversaries see only that the updates do not fit the shared model. A server that trains such a
        model itself between rounds has to repeat that (attacks.reconstruct.replay).
        """
        if handle not in self.isolated:
            return self.snapshot(round_number - 1)
        if self.isolation.get("sent", "own") != "own":
            raise NotVisible("the isolated client was sent the server's discriminator, which no sum of updates gives")
        rows = np.flatnonzero((self.updates.handle == handle) & (self.updates.round < round_number))
        start = self.snapshot(0)
        return {
            name: (values + self.updates.layer(name)[rows].sum(axis=0)).astype(np.float32)
            for name, values in start.items()
        }

    @property
    def holds_updates(self) -> bool:
        """Whether single updates were recorded, or only sums."""
        return self._trace.header.holds_updates

    @cached_property
    def updates(self) -> Updates:
        """Every update of the run."""
        self._require(Observation.UPDATES)
        if not self._trace.header.holds_updates:
            raise NotVisible(
                f"adversary '{self.adversary.name}' would see {describe(Observation.UPDATES)}, "
                "but this run reveals only sums to every adversary"
            )
        return Updates(self._trace, self._observations, self._shadow, self._rows)

    def _checked(self, round_number: int, *, first: int) -> int:
        if not first <= round_number <= self.rounds:
            raise IndexError(f"round {round_number} is not between {first} and {self.rounds}")
        return round_number

    def _require(self, observation: Observation) -> None:
        if self.adversary.lacks(observation):
            able = [adversary.name for adversary in everyone() if not adversary.lacks(observation)]
            raise NotVisible(
                f"adversary '{self.adversary.name}' does not see {flag_names(observation)} ({describe(observation)}).\n"
                f"  Choose one that does: {', '.join(able) or 'none is registered'}   (fedleak list --matrix)"
            )

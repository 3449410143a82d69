"""The starting point of every reconstruction: the model, the victims, their classes, all clients' representatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedleak.attacks.reconstruct.labels import present, slots
from fedleak.attacks.reconstruct.replay import Replay
from fedleak.attacks.reconstruct.representatives import Inversion, representatives
from fedleak.attacks.shadow import model_of
from fedleak.core import FloatArray, IntArray, Params
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.games.reconstruct import ImageQuestions
from fedleak.views.view import View

__all__ = ["Scene", "Portraits", "turns", "spread"]

_EARLY = 5  # rounds from which classes are read: later on, what is well known pushes nothing any more


@dataclass(frozen=True, slots=True)
class Portraits:
    """Representatives of all clients in some rounds."""

    images: FloatArray  # (images, *shape)
    who: IntArray  # handle of the client that each one stands for
    labels: IntArray
    round: IntArray

    def of(self, handle: int, *, others: bool = False) -> tuple[FloatArray, IntArray]:
        """The images of one client, or of all others, with their classes."""
        kept = (self.who != handle) if others else (self.who == handle)
        return self.images[kept], self.labels[kept]


class Scene:
    """A view of a run with what follows from it for every victim.

    `links` says which updates come from the same client, for adversaries that do not see it (a number per update).
    """

    def __init__(self, view: View, questions: Questions, links: IntArray | None = None) -> None:
        assert isinstance(questions, ImageQuestions)
        self.view, self.questions = view, questions
        self.model = model_of(view)
        self.shape = questions.shape
        self.handle = view.updates.handle.astype(np.int64) if links is None else links
        self.clients = np.unique(self.handle)
        if len(self.clients) < 2:
            raise AttackError("only one client sent updates, so there is no other client to compare the victim with")
        self.victims = [int(self.handle[row]) for row in questions.updates]

    def rows(self, handle: int) -> IntArray:
        """The updates of a client, in the order of their rounds."""
        mine = np.flatnonzero(self.handle == handle)
        return mine[np.argsort(self.view.updates.round[mine], kind="stable")]

    def rounds(self, handle: int) -> list[int]:
        """The rounds in which a client sent something."""
        found: list[int] = np.unique(self.view.updates.round[self.rows(handle)]).tolist()
        return found

    def update(self, rows: IntArray) -> Params:
        """Some updates: layer -> (rows, size)."""
        return {layer.name: self.view.updates.layer(layer.name)[rows] for layer in self.view.layout}

    def start(self, row: int) -> Params:
        """The weights from which an update was trained."""
        handle, number = int(self.handle[row]), int(self.view.updates.round[row])
        if handle in self.view.isolated and self.replay is not None:
            return self.replay.started_from(handle, number)
        return self.view.started_from(handle, number)

    @cached_property
    def replay(self) -> Replay | None:
        """The discriminators that were sent to isolated clients; None where they got models of their own."""
        if self.view.isolation.get("sent") != "discriminator":
            return None
        return Replay(self.view, self.questions.auxiliary)

    def local(self, row: int) -> Params:
        """The model as a client had it after training: what it was sent, and its update."""
        before = self.start(row)
        return {name: values + self.view.updates.layer(name)[row] for name, values in before.items()}

    @cached_property
    def shares(self) -> Mapping[int, FloatArray]:
        """How much of each client's data every class makes up, read from its first updates."""
        found = {}
        for handle in self.clients.tolist():
            early = self.rows(handle)[:_EARLY]
            mean = present(self.view.layout, self.update(early)).shares.mean(axis=0)[: self.questions.classes]
            # A class that one update of several hints at is none.
            mean = np.where(mean >= max(0.05, 0.2 * float(mean.max())), mean, 0)
            found[handle] = (mean / mean.sum()).astype(np.float32)
        return found

    def classes(self, handle: int) -> IntArray:
        """The classes that a client seems to have."""
        return np.flatnonzero(self.shares[handle])

    def portraits(
        self, settings: Inversion, rounds: Sequence[int], rng: np.random.Generator, only: Sequence[int] | None = None
    ) -> Portraits:
        """Representatives of all clients (or `only` some) in these rounds, each from the model that it was sent.

        A search starts from noise in every round: warm starts would make all rounds one image.
        """
        wanted = self.clients if only is None else np.asarray(only, dtype=np.int64)
        images, who, labels, when = [], [], [], []
        for number in rounds:
            rows = np.flatnonzero((self.view.updates.round == number) & np.isin(self.handle, wanted))
            alone = np.isin(self.handle[rows], list(self.view.isolated))
            for group in (rows[~alone], *(rows[alone][:, None])):
                moved = group[self._moves(group)]
                if not len(moved):
                    continue
                table = np.stack([self.shares[int(handle)] for handle in self.handle[moved]])
                found = representatives(
                    self.model,
                    self.start(int(moved[0])),
                    self.update(moved),
                    settings,
                    shape=self.shape,
                    rng=rng,
                    labels=slots(table, settings.per_class)[0],
                    lr=float(self.view.settings["lr"]),
                    gamma=self._gamma(moved) if settings.euclidean else None,
                )
                client, place = np.nonzero(found.labels >= 0)
                images.append(found.images[client, place])
                labels.append(found.labels[client, place])
                who.append(self.handle[moved][client])
                when.append(np.full(len(client), number))
        if not images:
            raise AttackError("no client sent a nonzero update in these rounds, so there is nothing to reconstruct")
        return Portraits(np.concatenate(images), *(np.concatenate(part) for part in (who, labels, when)))

    def _gamma(self, rows: IntArray) -> FloatArray:
        """The learning rate x the local steps behind some updates."""
        sizes, told = self.view.updates.size, self.view.settings
        if sizes is None:
            raise AttackError(
                "this adversary is not told how many examples a client has, so it does not know how many local steps "
                "it made; use the attack 'representatives', which needs no gamma"
            )
        steps = int(told["epochs"]) * np.ceil(sizes[rows] / int(told["batch"]))
        return np.asarray(float(told["lr"]) * steps, dtype=np.float32)

    def _moves(self, rows: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which updates are not all zeros."""
        largest = [np.abs(values).max(axis=1) for values in self.update(rows).values()]
        moves: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.max(largest, axis=0) > 0
        return moves


def turns(classes: IntArray, count: int) -> IntArray:
    """So many classes, in turns.

    >>> turns(np.array([3, 5]), 5).tolist()
    [3, 5, 3, 5, 3]
    """
    return np.resize(classes, count)


def spread(rounds: Sequence[int], count: int) -> list[int]:
    """So many rounds, or all, evenly from the first to the last.

    >>> spread([1, 2, 3, 4, 5, 6, 7], 3)
    [1, 4, 7]
    """
    places = np.unique(np.linspace(0, len(rounds) - 1, min(count, len(rounds))).round().astype(int))
    return [rounds[place] for place in places.tolist()]

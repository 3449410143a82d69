"""The `reconstruct` game: what does this client's data look like?

The adversary has no images of the users, only an auxiliary set of others that is the same for every attack: a server
has one to test its model (Song et al., 2020, section V-B). A question points to one of the victim's updates, drawn at
random: an adversary that can link updates knows all updates of that client; one that cannot must find them, in earlier
and in later rounds. The last update would reveal that none of the later ones is the victim's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Observation, Task, percent
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Answers, BaseGame, Contract, GameInstance, Headline, Needs, Predictions, Questions
from fedleak.games.holders import updates_by_client
from fedleak.metrics.attack_result import AttackResult, Measured
from fedleak.metrics.metric import Measure, Metric
from fedleak.metrics.user_scores import RECONSTRUCTED
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Reconstruct", "ImageQuestions"]


def _late(name: str) -> Measure:
    """A metric that trains a judge; imported late, because its module needs torch, which reading a plan does not."""

    def measure(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
        from fedleak.metrics import reconstruction

        found: Measured = getattr(reconstruction, name)(played, level=level, permutations=permutations)
        return found

    return measure


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageQuestions(Questions):
    """One question per victim: some images of its data."""

    samples: int
    shape: tuple[int, ...]  # of an image: channels, height, width; values in [0, 1]
    classes: int
    auxiliary: Examples  # images of other users, with their classes
    clients: int = 0  # the number of clients

    @property
    def choices(self) -> int:
        """The number of clients."""
        return self.clients


@dataclass(frozen=True, kw_only=True)
class Reconstruct(BaseGame):
    """Ask for images of some victims' data."""

    name: ClassVar[str] = "reconstruct"
    needs_data: ClassVar[tuple[str, ...]] = ("images", "background")
    summary: ClassVar[str] = "What do the images on this client look like?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("inference",)
    strongest: ClassVar[str | None] = "representatives"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            name="nearest",
            title="images nearest to the victim",
            short="nearest",
            text="Of the reconstructed images, the share whose nearest real image is the victim's, with as many images "
            "of every client to choose from. Chance is to be given another victim's reconstructions.",
            measure=_late("nearest"),
            each_user=RECONSTRUCTED,
        ),
        Metric(
            name="specific",
            title="images nearer to the victim than to others of the class",
            short="specific",
            text="Of the reconstructed images, the share that is nearer to the victim's images of the same class than "
            "to as many of other users'. Knowing a victim's classes does not help here; 0.5 is no leak.",
            measure=_late("specific"),
            column="specific",
        ),
        Metric(
            name="property",
            title="images with the victim's property",
            short="property",
            text="Of the reconstructed images, the share in which a judge, trained on other users, sees the property "
            "of the victim's images. Chance is never below predicting the most common property for every victim.",
            measure=_late("of_property"),
            applies=lambda played: all(one.judged for one in played),
            column="property",
        ),
    )
    needs_prior: ClassVar[bool | None] = False
    hides_prior: ClassVar[bool] = True
    needs_evidence: ClassVar[bool] = True
    allows_join: ClassVar[bool] = True

    victims: Annotated[
        int, Meta(ge=2, description="the number of victims, drawn by the seed; all clients, if there are fewer")
    ] = 5
    samples: Annotated[int, Meta(ge=2, le=1000, description="images to reconstruct per victim")] = 40
    attribute: (
        Annotated[
            str,
            Meta(
                description="a property of users that their images show, by which reconstructions are judged; victims "
                "are then drawn so that as many of its values as possible are among them"
            ),
        ]
        | None
    ) = None

    @property
    def controls(self) -> tuple[str, ...]:
        """Examples that a client reuses can be reconstructed whoever its user is; with fresh data they cannot."""
        return ("fresh-data",)

    @property
    def note(self) -> str:
        """A note that the report shows beside the question."""
        return (
            "Every attack has the same auxiliary images of other users. This report shows real and "
            "reconstructed images: keep it as private as the data."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How many images are nearest to the victim's."""
        share = scores["nearest"]
        return Headline(
            percent(share.value),
            f"Of the images that the attack reconstructs for a client, {percent(share.value)} are nearest to an image "
            f"of that client, out of {share.options} clients; for another client it would be {percent(share.chance)}.",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """Quality of the images, and some of them beside the real ones."""
        from fedleak.metrics.grids import grids
        from fedleak.metrics.reconstruction import quality

        return DetailParts(quality=quality(played, scores["nearest"].level), grids=grids(played[0]))

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation of clients with two classes each, scored against their data or against that of others.

        Few users are asked for images, and each of them scores anything between nothing and everything: more seeds.
        """
        from fedleak.games.traces.portraits import VICTIMS, write_images

        return Contract(
            game=cls(victims=VICTIMS, samples=8),
            write=lambda folder, seed, leak: write_images(
                folder,
                seed,
                leak=leak,
                power=attack.capabilities,
                discriminator=getattr(attack, "sends_discriminator", 0),
            ),
            metric="nearest",
            seeds=5,
            # An attack without updates cannot tell one client's data from another's.
            finds=Observation.UPDATES in attack.needs,
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the victims; the isolated clients, where the run has some."""
        shape = tuple(int(side) for side in trace.header.settings.get("input_shape", ()))
        task = trace.header.task
        if task is not Task.CLASSIFY or len(shape) != 3:
            raise AttackError(
                f"{trace.folder}: examples of shape {shape} for the task '{task and task.value}'; images can be "
                "reconstructed where a model classifies images (channels, height, width)"
            )
        if truth.evidence is None:
            raise AttackError(
                f"{trace.folder}: this run did not store the clients' data, so there is nothing to compare images "
                "with; train it with a plan that has the game 'reconstruct', in another folder (--out)"
            )
        auxiliary = _auxiliary(trace, prior)
        users = tuple(str(user) for user in truth.evidence.held.candidates)
        place = {user: index for index, user in enumerate(users)}
        sent = updates_by_client(trace)
        present = [client for client in sent if client in truth.client_user and str(truth.client_user[client]) in place]
        if len(present) < 2:
            raise AttackError(
                f"{trace.folder}: {len(present)} client(s) sent an update; the game needs at least "
                "two. Take more users, or train more rounds"
            )
        isolated = {name for one in trace.header.tampering if one["power"] == "isolate" for name in one["clients"]}
        owner = {client: place[str(truth.client_user[client])] for client in present}
        if isolated:
            victims = [client for client in sent if client in isolated]
        else:
            victims = [present[i] for i in self._draw(list(owner.values()), users, truth, rng)]
        chosen = sorted((int(rng.choice(sent[client])), owner[client]) for client in victims)
        rows, who = (np.array(column, dtype=np.int64) for column in zip(*chosen, strict=True))
        return GameInstance(
            questions=ImageQuestions(
                updates=rows,
                options=(),
                samples=self.samples,
                shape=shape,
                classes=prior.outputs,
                auxiliary=auxiliary,
                clients=len(users),
            ),
            answers=Answers(right=who, who=who, users=users, evidence=truth.evidence, judged=self._judged(truth)),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.round), -1, dtype=np.int64),
            everything=True,
            hidden=np.flatnonzero(np.asarray(trace.shadow) >= 0),
        )

    def _judged(self, truth: Truth) -> tuple[str, ...]:
        """The value of the property for each client, in the order of the evidence."""
        if self.attribute is None or truth.evidence is None:
            return ()
        values = []
        for user in truth.evidence.held.candidates:
            about = truth.attributes.get(user, {})
            if self.attribute not in about:
                raise AttackError(
                    f"[[game]] reconstruct: attribute = '{self.attribute}', which '{user}' does not have"
                    f"{did_you_mean(self.attribute, about)}"
                )
            values.append(about[self.attribute])
        return (self.attribute, *values)

    def _draw(self, present: list[int], users: tuple[str, ...], truth: Truth, rng: np.random.Generator) -> list[int]:
        """Places in `present`: at random, or one of each value of the property in turn."""
        order: list[int] = rng.permutation(len(present)).tolist()
        judged = self._judged(truth)
        if judged:
            seen: dict[str, int] = {}
            turn = {}
            for place in order:
                value = judged[1 + present[place]]
                turn[place] = seen.setdefault(value, 0)
                seen[value] += 1
            order.sort(key=turn.__getitem__)  # stable: the first of every value, then the second of every value, ...
        return order[: self.victims]

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject predictions without the right number of images for every victim."""
        assert isinstance(questions, ImageQuestions)
        shape = (len(questions), questions.samples, *questions.shape)
        if claims.shape != shape:
            raise AttackError(
                f"attack '{attack}' returned an array of shape {claims.shape}; expected images "
                f"(victims, samples, channels, height, width) = {shape}"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all() or claims.min() < 0 or claims.max() > 1:
            raise AttackError(f"attack '{attack}' returned images whose values are not all between 0 and 1")
        return claims


def _auxiliary(trace: Trace, prior: Prior) -> Examples:
    """The auxiliary set, which must have every class: an attack cannot draw a class that it never saw."""
    if prior.background is None or prior.background.examples.y is None:
        raise AttackError(
            f"{trace.folder}: the server has no auxiliary images; use a data set that has some (mnist-clients, "
            "faces), or reserve some users with background_users = N in [population]"
        )
    found, shown = prior.background.examples, np.unique(prior.background.examples.y)
    missing = sorted(set(range(prior.outputs)) - set(shown.tolist()))
    if missing:
        raise AttackError(
            f"{trace.folder}: the auxiliary set of {len(found)} images has none of class "
            f"{', '.join(map(str, missing))}; give it more, so that every class is among them"
        )
    return found

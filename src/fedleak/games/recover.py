"""The `recover` game: which of the examples that clients trained on can be recovered, pixel by pixel?

One question: all examples behind one round. An attack returns as many images as were trained on; in which order, and
whose each one is, does not matter. The score assigns the images to the examples so that their distance is least, one
image to one example. Chance is what the same images score against examples of the same classes from people who took no
part: an attack that draws typical images is then at chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, Task, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, BaseGame, Contract, GameInstance, Headline, Needs, Predictions, Questions
from fedleak.metrics import recovery
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.metric import Metric
from fedleak.metrics.user_scores import EXACT
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Recover", "ExampleQuestions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleQuestions(Questions):
    """One question: the examples behind one round."""

    round: int
    samples: int  # how many images are asked for: as many as the clients of the round trained on
    shape: tuple[int, ...]  # of an image: channels, height, width; values in [0, 1]
    classes: int
    public: Examples  # images of people who take no part, with their classes
    # By update of the round, in the order of the view's rows: how many examples of each class; where attacks are told.
    labels: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return 1

    @property
    def choices(self) -> int:
        """The number of images asked for."""
        return self.samples


@dataclass(frozen=True, kw_only=True)
class Recover(BaseGame):
    """Ask for the examples behind one round."""

    name: ClassVar[str] = "recover"
    needs_data: ClassVar[tuple[str, ...]] = ("images", "background")
    criteria: ClassVar[tuple[Criterion, ...]] = ("singling out", "inference")
    summary: ClassVar[str] = "Which of the images that clients trained on can be recovered?"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            name="exact",
            title="examples recovered exactly",
            short="exact",
            text="The share of the training examples that are recovered with every pixel within half a grey level "
            "(1/510). Chance is the share of as many examples of other people, of the same classes, that are.",
            measure=recovery.exact,
            each_user=EXACT,
            column="exact",
            percent=True,
        ),
        Metric(
            name="close",
            title="examples recovered above 25 dB",
            short="over 25 dB",
            text="The share of the training examples that are recovered with a peak signal-to-noise ratio (PSNR) above "
            "25 dB: a person sees the same image. Chance is the same for examples of other people.",
            measure=recovery.close,
            column="> 25 dB",
            percent=True,
        ),
        Metric(
            name="psnr",
            title="peak signal-to-noise ratio",
            short="PSNR",
            text="The mean peak signal-to-noise ratio of the recovered images in dB, at most 100 for each. Chance is "
            "the same for examples of other people.",
            measure=recovery.psnr,
            column="PSNR",
        ),
        Metric(
            name="ssim",
            title="structural similarity",
            short="SSIM",
            text="The mean structural similarity (Wang et al., 2004) of the recovered images; 1 is identical, and "
            "negative values count as 0. Chance is the same for examples of other people.",
            measure=recovery.ssim,
            column="SSIM",
        ),
    )
    # For adversaries that may change the model; against any other there is one attack.
    strongest: ClassVar[str | None] = "imprint"
    needs_prior: ClassVar[bool | None] = False
    no_prior: ClassVar[str] = "with prior data, shadow clients would be in the sum"
    needs_evidence: ClassVar[bool] = True
    multiples: ClassVar[bool] = False
    legend: ClassVar[str] = "Chance: the same images, compared with examples of people who took no part."

    round: Annotated[int, Meta(ge=1, description="the round whose examples are asked for")] = 1
    labels: Annotated[
        Literal["unknown", "known"],
        Meta(
            description="known: attacks are told how many examples of each class every client of the round has, as "
            "many papers assume"
        ),
    ] = "unknown"

    @property
    def controls(self) -> tuple[str, ...]:
        """None: every score is compared with examples of people who took no part."""
        return ()

    @property
    def note(self) -> str:
        """A note that the report shows beside the question."""
        told = " Attacks are told the labels of each client." if self.labels == "known" else ""
        return (
            f"The examples behind round {self.round}.{told} This report shows real and recovered images: keep it as "
            "private as the data."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How many examples are recovered exactly."""
        share, close = scores["exact"], scores["close"]
        return Headline(
            percent(share.value),
            f"Of the {share.n:,} examples that clients trained on in round {self.round}, the attack recovers "
            f"{percent(share.value)} exactly and {percent(close.value)} so well that a person sees the same image; of "
            f"examples of other people it would be {percent(share.chance)} and {percent(close.chance)}.",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """By whether a label repeats on its client, and some images beside the real ones."""
        return DetailParts(tables=[recovery.by_label(played)], grids=recovery.shown(played[0]))

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A small federation, scored against what its clients trained on or against others' data."""
        from fedleak.games.traces.examples import write_examples

        return Contract(
            game=cls(),
            write=lambda folder, seed, leak: write_examples(folder, seed, leak=leak, power=attack.capabilities),
            metric="psnr",
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """All examples of the clients that took part in the round."""
        shape = tuple(int(side) for side in trace.header.settings.get("input_shape", ()))
        task = trace.header.task
        if task is not Task.CLASSIFY or len(shape) != 3:
            raise AttackError(
                f"{trace.folder}: examples of shape {shape} for the task '{task and task.value}'; 'recover' asks for "
                "images with one class each (channels, height, width)"
            )
        if truth.evidence is None:
            raise AttackError(
                f"{trace.folder}: this run did not store the clients' data, so there is nothing to compare images "
                "with; train it with a plan that has the game 'recover', in another folder (--out)"
            )
        if prior.background is None:
            raise AttackError(
                f"{trace.folder}: the server has no public images; use a data set that has some (mnist-clients), or "
                "reserve some users with background_users = N in [population]"
            )
        if self.round > trace.rounds:
            raise AttackError(
                f"[[game]] recover: round = {self.round}, but the run has {trace.rounds} round(s); ask for an earlier "
                "one"
            )
        held = truth.evidence.held
        users = tuple(str(user) for user in held.candidates)
        place = {user: index for index, user in enumerate(users)}
        clients: IntArray = np.asarray(trace.client)[trace.span(self.round)].astype(np.int64)
        names = [trace.header.clients[client] for client in clients.tolist()]
        owners = [place[str(truth.client_user[name])] for name in names if name in truth.client_user]
        if not owners:
            raise AttackError(f"{trace.folder}: no client of a user sent an update in round {self.round}")
        who = np.repeat(owners, [len(held.examples[owner]) for owner in owners]).astype(np.int64)
        return GameInstance(
            questions=ExampleQuestions(
                updates=np.zeros(0, dtype=np.int64),
                options=(),
                round=self.round,
                samples=len(who),
                shape=shape,
                classes=prior.outputs,
                public=prior.background.examples,
                labels=tuple(_counts(held.examples[owner], prior.outputs) for owner in owners)
                if self.labels == "known"
                else (),
            ),
            answers=Answers(right=np.arange(len(who)), who=who, users=users, evidence=truth.evidence),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.round), -1, dtype=np.int64),
            everything=True,
        )

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject anything but the right number of images."""
        assert isinstance(questions, ExampleQuestions)
        shape = (questions.samples, *questions.shape)
        if claims.shape != shape:
            raise AttackError(
                f"attack '{attack}' returned an array of shape {claims.shape}; expected images "
                f"(examples, channels, height, width) = {shape}"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all() or claims.min() < 0 or claims.max() > 1:
            raise AttackError(f"attack '{attack}' returned images whose values are not all between 0 and 1")
        return claims


def _counts(examples: Examples, classes: int) -> tuple[int, ...]:
    return tuple(np.bincount(np.asarray(examples.y).astype(np.int64), minlength=classes).tolist())

"""The `extract` game: what is the secret of the user behind this client?

The adversary has no user's data. It knows the public format of secrets (`my social security number is` and nine digits)
and ranks records for each client, best guess first (Yuan et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Capability, Observation, format_interval, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, BaseGame, Contract, GameInstance, Headline, Needs, Predictions, Questions
from fedleak.games.holders import holders
from fedleak.metrics import records
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.metric import Metric
from fedleak.metrics.user_scores import EXTRACTED
from fedleak.population.population import Records
from fedleak.population.secret_formats import Format, parse
from fedleak.population.secret_records import draw_secrets
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts, Table
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Extract", "RecordQuestions"]

_COUNTED = 2**53  # JSON readers represent larger integers inexactly


def _top(k: int) -> Metric:
    among = "the first record" if k == 1 else f"among the first {k} records"
    return Metric(
        name=f"top{k}",
        title=f"top-{k}",
        short=f"top-{k}",
        text=f"The share of users whose secret is {among} that the attack predicts for their own client. Chance is to "
        "be given another client's list.",
        measure=partial(records.top, k),
        tabled=True,
        each_user=EXTRACTED if k == 1 else None,
    )


def _distance(k: int) -> Metric:
    nearest = "the first record" if k == 1 else f"the nearest of the first {k} records"
    return Metric(
        name=f"distance{k}",
        title="edit distance" if k == 1 else f"edit distance within {k}",
        short="distance" if k == 1 else f"distance within {k}",
        text=f"How many characters of the secret must be changed, at least, in {nearest} that the attack predicts for "
        "its user's client: 0 is the secret itself; lower values leak more. The mean over users; "
        "chance is to be given another client's list.",
        measure=partial(records.distance, k),
        lower_leaks=True,
        column="edits" if k == 1 else "",
        tabled=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuestions(Questions):
    """One question about each client that holds a secret."""

    clients: tuple[str, ...]  # by their names in a selection
    records: Records
    most: int  # the most records that may be predicted for each
    listed: tuple[str, ...] = ()  # candidates that include the answers, where a test lists them

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def choices(self) -> int:
        """The number of records of the format, or of the given list."""
        return len(self.listed) or min(self.form.size, _COUNTED)

    @property
    def form(self) -> Format:
        """The format of a secret."""
        return parse(self.records.form, self.records.words)


@dataclass(frozen=True, kw_only=True)
class Extract(BaseGame):
    """Ask for a ranking of records for every client whose user holds a secret."""

    name: ClassVar[str] = "extract"
    needs_data: ClassVar[tuple[str, ...]] = ("records",)
    summary: ClassVar[str] = "What is the secret of this client's user?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("singling out", "inference")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(_top(k) for k in records.PLACES),
        Metric(
            name="extracted",
            title="secrets extracted",
            short="extracted",
            text="The share of users whose secret is among the records that the attack predicts for any client: the "
            "model has memorised it. Chance is guessing as many records at random.",
            measure=records.extracted,
            column="named",
        ),
        Metric(
            name="attributed",
            title="extracted secrets attributed",
            short="attributed",
            text="Of the extracted secrets, the share that the attack ranks higher for the client of their user than "
            "for any other.",
            measure=records.attributed,
            applies=records.any_found,
            column="whose",
        ),
        *(_distance(k) for k in records.PLACES),
    )
    needs_prior: ClassVar[bool | None] = False
    no_prior: ClassVar[str] = (
        "the secrets that 'extract' asks for would be in the prior data, too, and on shadow clients as well as on the "
        "clients that it names"
    )
    strongest: ClassVar[str | None] = "eavesdrop-strong"
    multiples: ClassVar[bool] = False  # multiples of one in a billion are meaningless
    legend: ClassVar[str] = (
        "named: secrets predicted for any client; whose: of these, ranked first for their user's client; edits: "
        "characters to change in the first guess."
    )

    most: Annotated[int, Meta(ge=1, le=1000, description="how many records an attack may predict for each client")] = 50
    every: Annotated[
        int,
        Meta(
            ge=1,
            description="the adversary has only every k-th snapshot, and the last; it still sees the "
            "participation in the rounds between",
        ),
    ] = 1
    victims: Annotated[
        bool,
        Meta(description="where only some clients hold an injected record, score only those; false: every client"),
    ] = True
    listed: Annotated[
        int,
        Meta(
            ge=0,
            description="give attacks a list of this many records that contains every secret, instead of a search; "
            "for quick tests of attribution only, since nothing is extracted then. 0: no list",
        ),
    ] = 0

    @property
    def controls(self) -> tuple[str, ...]:
        """IID data, records that no user holds, selection in the wrong order, and others' secrets."""
        return ("iid", "decoys", "shuffled-selection", "swapped-secrets")

    @property
    def note(self) -> str:
        """A note that the report shows beside the question."""
        notes = []
        if self.every > 1:
            notes.append(
                f"The attacker has only the shared model of every {self.every}th round and of the last one, so it "
                "cannot separate the rounds between two of them."
            )
        if self.listed:
            notes.append(
                f"The attacker is given a list of {self.listed} records that contains the answers: this tests "
                "attribution, not extraction."
            )
        return " ".join(notes)

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often the first prediction is the secret."""
        first = scores["top1"]
        many = f"{first.options:,}" if first.options < 10**12 else f"more than 10^{len(str(first.options)) - 2}"
        return Headline(
            percent(first.value),
            f"The first record that the attack predicts for a client is its user's secret in {percent(first.value)} of "
            f"cases, out of {many} possible records; with the clients permuted it would be in "
            f"{percent(first.chance)}.",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """Results of the first guesses, and how near they are to each user's secret."""
        rows: list[list[str | float | None]] = []
        for k in records.PLACES:
            top, near = scores[f"top{k}"], scores[f"distance{k}"]
            rows.append(
                [
                    k,
                    format_interval(top.value, top.low, top.high),
                    top.chance,
                    format_interval(near.value, near.low, near.high),
                    near.chance,
                ]
            )
        guesses = Table(
            caption="The first guesses for a client: the share of users whose secret is among them, and the edit "
            "distance of the nearest guess to the secret. Chance is another client's list.",
            columns=["guesses", "secret among them", "chance", "edit distance", "chance of that"],
            rows=rows,
        )
        # By name: with pseudonyms, the order of the users must not show whose they are.
        near_each = sorted(records.near(played[0]), key=lambda record: record.user)
        return DetailParts(tables=[guesses], records=near_each)

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation of users who each hold a PIN; an attack without the selection cannot attribute it."""
        from fedleak.games.traces.secret_holders import write_secrets

        inject = Capability.INJECT in attack.capabilities
        attributes = Observation.SELECTION in attack.needs or inject
        return Contract(
            game=cls(),
            write=lambda folder, seed, leak: write_secrets(folder, seed, leak=leak, inject=inject),
            metric="top1" if attributes else "extracted",
            least=0.25 if attributes else 0.5,
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Ask about every client with a secret; the adversary gets only the format.

        If the adversary injected records into some clients' data only, those are scored, for every attack.
        """
        if prior.records is None:
            raise AttackError(
                f"{trace.folder}: no user in this data set holds a secret; use a data set that plants them "
                "(text-clients)"
            )
        if prior.candidates:
            raise AttackError(f"{trace.folder}: the adversary has data that may hold the secrets; train with no prior")
        held = holders(trace, truth)
        if len(held) < 2:
            raise AttackError(
                f"{trace.folder}: {len(held)} users hold a secret; at least two are needed for attribution"
            )
        several = [user for _, user, secrets in held if len(secrets) > 1]
        if several:
            raise AttackError(f"{trace.folder}: '{several[0]}' holds several secrets, but the game asks for one")
        questions = RecordQuestions(
            updates=np.zeros(0, dtype=np.int64),
            options=(),
            clients=tuple(client for client, _, _ in held),
            records=prior.records,
            most=self.most,
            listed=self._list(prior.records, truth, rng) if self.listed else (),
        )
        victims = [place for place, (client, _, _) in enumerate(held) if client in prior.injected]
        right = prior.records.spell([secrets[0] for _, _, secrets in held], questions.form.longest)
        return GameInstance(
            questions=questions,
            answers=Answers(
                right=right.astype(np.int64),
                who=np.arange(len(held), dtype=np.int64),
                users=tuple(str(user) for _, user, _ in held),
                # Where some clients have a watermark and others have none, every attack is scored on the same victims.
                scored=np.array(victims, dtype=np.int64) if self.victims and 0 < len(victims) < len(held) else None,
            ),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.shadow), -1, dtype=np.int64),
            injected=prior.injected,
            every=self.every,
        )

    def _list(self, kept: Records, truth: Truth, rng: np.random.Generator) -> tuple[str, ...]:
        """Every secret, every decoy, and others of the format; in alphabetical order, which reveals nothing."""
        form = parse(kept.form, kept.words)
        among = {record for held in (*truth.secrets.values(), *truth.decoys.values()) for record in held}
        if not len(among) <= self.listed <= form.size:
            raise AttackError(
                f"[[game]] extract: listed = {self.listed}, but there are {len(among)} secrets and decoys to be in the "
                f"list, and the format admits {form.size} records"
            )
        # So many that enough are left, even if everything in the list is drawn again.
        others = iter(draw_secrets(form, min(form.size, self.listed + len(among)), rng))
        while len(among) < self.listed:
            among.add(next(others))
        return tuple(sorted(among))

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject anything but a ranking of texts for every client: (clients, places, characters), 0 after the end.

        A place may stay empty, where an attack has fewer records to name.
        """
        assert isinstance(questions, RecordQuestions)
        shape = (len(questions), questions.most, questions.form.longest)
        if claims.shape != shape or not np.issubdtype(claims.dtype, np.integer):
            raise AttackError(
                f"attack '{attack}' returned {claims.dtype} of shape {claims.shape}; expected token ids "
                f"(clients, places, characters) = {shape}"
            )
        if claims.min() < 0 or claims.max() >= len(questions.records.characters):
            raise AttackError(f"attack '{attack}' returned characters that are not in the model's alphabet")
        if ((claims[..., :-1] == 0) & (claims[..., 1:] != 0)).any():
            raise AttackError(f"attack '{attack}' returned a record that continues after its end (0)")
        return claims.astype(np.int32, copy=False)

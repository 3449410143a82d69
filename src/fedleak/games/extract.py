"""The `extract` game: what is the secret of the user behind this client?

The adversary has nobody's data. It knows what secrets look like (`my social security number is` and nine digits), which
is public, and names the records that it takes to be this client's, best guess first (Yuan et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Capability, Observation, format_interval, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, BaseGame, Contract, GameInstance, Headline, Needs, Predictions, Questions
from fedleak.metrics import records
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.metric import Metric
from fedleak.population.population import Records
from fedleak.population.secret_formats import Format, parse
from fedleak.population.secret_records import draw_secrets
from fedleak.results.audit import Score
from fedleak.results.detail import DetailParts, Table
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["Extract", "RecordQuestions"]

_COUNTED = 2**53  # results are read by tools whose numbers go no further


def _top(k: int) -> Metric:
    among = "the first record" if k == 1 else f"among the first {k} records"
    return Metric(
        name=f"top{k}",
        title=f"top-{k}",
        short=f"top-{k}",
        text=f"The share of users whose secret is {among} that the attacker names for their own client. Chance is to "
        "be given another client's list.",
        measure=partial(records.top, k),
        tabled=True,
    )


def _distance(k: int) -> Metric:
    nearest = "the first record" if k == 1 else f"the nearest of the first {k} records"
    return Metric(
        name=f"distance{k}",
        title="edit distance" if k == 1 else f"edit distance within {k}",
        short="distance" if k == 1 else f"distance within {k}",
        text=f"How many characters of the secret must be changed, at least, in {nearest} that the attacker names for "
        "its user's client: 0 is the secret itself, and the smaller, the more is given away. The mean over users; "
        "chance is to be given another client's list.",
        measure=partial(records.distance, k),
        lower_leaks=True,
        column="edits" if k == 1 else "",
        tabled=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuestions(Questions):
    """One question about each client that holds a secret."""

    clients: tuple[str, ...]  # as a selection names them
    records: Records
    most: int  # how many records may be named for each
    listed: tuple[str, ...] = ()  # candidates with the answers among them, where a test hands them out

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def choices(self) -> int:
        """How many records the format admits, or the list that was handed out."""
        return len(self.listed) or min(self.form.size, _COUNTED)

    @property
    def form(self) -> Format:
        """What a secret looks like."""
        return parse(self.records.form, self.records.words)


@dataclass(frozen=True, kw_only=True)
class Extract(BaseGame):
    """Ask for a ranking of records for every client whose owner holds a secret."""

    name: ClassVar[str] = "extract"
    summary: ClassVar[str] = "What is the secret of this client's owner?"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(_top(k) for k in records.PLACES),
        Metric(
            name="extracted",
            title="secrets extracted",
            short="extracted",
            text="The share of users whose secret is among the records that the attacker names, for whomever: the "
            "model has memorised it. Chance is naming as many records blindly.",
            measure=records.extracted,
            column="named",
        ),
        Metric(
            name="attributed",
            title="extracted secrets attributed",
            short="attributed",
            text="Of the secrets that the attacker names at all, the share that it names higher for the client they "
            "belong to than for any other.",
            measure=records.attributed,
            applies=records.any_found,
            column="whose",
        ),
        *(_distance(k) for k in records.PLACES),
    )
    needs_prior: ClassVar[bool | None] = False
    strongest: ClassVar[str | None] = "eavesdrop-strong"
    multiples: ClassVar[bool] = False  # how many times one in a billion says nothing
    legend: ClassVar[str] = (
        "named: secrets named for anybody at all; whose: of these, named first for their user's client; edits: "
        "characters to be changed in the first guess."
    )

    most: Annotated[int, Meta(ge=1, le=1000, description="how many records may be named for each client")] = 50
    every: Annotated[
        int,
        Meta(
            ge=1,
            description="the adversary has only every k-th snapshot, and the last; of the rounds between it "
            "still sees who took part in them",
        ),
    ] = 1
    listed: Annotated[
        int,
        Meta(
            ge=0,
            description="hand out a list of so many records that contains every secret, instead of letting attacks "
            "search; for quick tests of attribution, since nothing is extracted then. 0: no list",
        ),
    ] = 0

    @property
    def controls(self) -> tuple[str, ...]:
        """Nothing personal, records that nobody holds, selection in the wrong order, and others' secrets."""
        return ("iid", "decoys", "shuffled-selection", "swapped-secrets")

    @property
    def note(self) -> str:
        """What a report must say beside the question."""
        notes = []
        if self.every > 1:
            notes.append(
                f"The attacker has the shared model of every {self.every}th round and of the last one only: what is "
                "learnt between two of them cannot be told apart."
            )
        if self.listed:
            notes.append(
                f"The attacker is handed a list of {self.listed} records that contains the answers: this shows whose a "
                "record is, and nothing about whether it could have been found."
            )
        return " ".join(notes)

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often the first record that is named is the secret."""
        first = scores["top1"]
        many = f"{first.options:,}" if first.options < 10**12 else f"more than 10^{len(str(first.options)) - 2}"
        return Headline(
            percent(first.value),
            f"The first record that the attack names for a client is its user's secret in {percent(first.value)} of "
            f"cases, out of {many} records that it could be; with the clients mixed up it would be in "
            f"{percent(first.chance)}.",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """What the first guesses come to, and how near they came to each user's secret."""
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
            caption="What the first guesses for a client come to: the share of users whose secret is among them, and "
            "how many characters of the nearest one must be changed to make it the secret, at least. Chance is another "
            "client's list.",
            columns=["guesses", "secret among them", "chance", "edit distance", "chance of that"],
            rows=rows,
        )
        return DetailParts(tables=[guesses], records=records.near(played[0]))

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation of users who each hold a PIN; what sees no selection cannot tell whose it is."""
        from fedleak.games.traces.secret_holders import write_secrets

        inject = Capability.INJECT in attack.capabilities
        attributes = Observation.SELECTION in attack.needs or inject
        return Contract(
            game=cls(),
            write=lambda folder, seed, leak: write_secrets(folder, seed, leak=leak, inject=inject),
            metric="top1" if attributes else "extracted",
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Ask about every holder's client; the adversary gets the format and nothing else."""
        if prior.records is None:
            raise AttackError(
                f"{trace.folder}: nobody in this data set holds a secret; use a data set that plants them "
                "(text-clients)"
            )
        if prior.candidates:
            raise AttackError(f"{trace.folder}: the adversary has data that may hold the secrets; train with no prior")
        owners = [(client, truth.client_user[client]) for client in sorted(trace.header.clients)]
        held = [(client, user, truth.secrets[user]) for client, user in owners if truth.secrets.get(user)]
        if len(held) < 2:
            raise AttackError(
                f"{trace.folder}: {len(held)} users hold a secret; at least two are needed to tell whose is whose"
            )
        several = [user for _, user, secrets in held if len(secrets) > 1]
        if several:
            raise AttackError(f"{trace.folder}: '{several[0]}' holds several secrets, and one can be asked for")
        questions = RecordQuestions(
            updates=np.zeros(0, dtype=np.int64),
            options=(),
            clients=tuple(client for client, _, _ in held),
            records=prior.records,
            most=self.most,
            listed=self._list(prior.records, truth, rng) if self.listed else (),
        )
        right = prior.records.spell([secrets[0] for _, _, secrets in held], questions.form.longest)
        return GameInstance(
            questions=questions,
            answers=Answers(
                right=right.astype(np.int64),
                who=np.arange(len(held), dtype=np.int64),
                users=tuple(str(user) for _, user, _ in held),
            ),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.shadow), -1, dtype=np.int64),
            injected=prior.injected,
            every=self.every,
        )

    def _list(self, kept: Records, truth: Truth, rng: np.random.Generator) -> tuple[str, ...]:
        """Every secret, every decoy, and others of the format; in alphabetical order, which says nothing."""
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
        """Refuse what is not a ranking of texts for every client: (clients, places, characters), 0 after the end.

        A place may stay empty, where an attack has fewer records to name.
        """
        assert isinstance(questions, RecordQuestions)
        shape = (len(questions), questions.most, questions.form.longest)
        if claims.shape != shape or not np.issubdtype(claims.dtype, np.integer):
            raise AttackError(
                f"attack '{attack}' answered with {claims.dtype} of shape {claims.shape}; asked for were token ids "
                f"(clients, places, characters) = {shape}"
            )
        if claims.min() < 0 or claims.max() >= len(questions.records.characters):
            raise AttackError(f"attack '{attack}' named characters that the model's alphabet does not have")
        if ((claims[..., :-1] == 0) & (claims[..., 1:] != 0)).any():
            raise AttackError(f"attack '{attack}' named a record that goes on after its end (0)")
        return claims.astype(np.int32, copy=False)

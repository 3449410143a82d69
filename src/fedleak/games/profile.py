"""The `profile` game: does this client's user fit the profile?

The adversary has no data of the users (Orekondy et al., 2020, section 5.2.2, profile prior). It has selected public
examples of other users that fit the profile, for instance sevens with a bar, or sentences about school.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, percent
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Answers, Contract, GameInstance, Headline, Needs, OptionGame, Questions
from fedleak.games.identify import anonymous
from fedleak.metrics import binary
from fedleak.metrics.metric import Metric, average_precision
from fedleak.metrics.ranking import Ranking
from fedleak.metrics.user_scores import FITTING
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Profile", "ProfileQuestions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileQuestions(Questions):
    """One yes/no option, and the public examples that the adversary has selected."""

    fitting: Examples  # of other users
    unlike: Examples  # of the same kind, but without the trait
    others: Examples  # all public examples, including these two


@dataclass(frozen=True, kw_only=True)
class Profile(OptionGame):
    """Ask about one update of every anonymous client, so that a ranking of updates is a ranking of users."""

    name: ClassVar[str] = "profile"
    needs_data: ClassVar[tuple[str, ...]] = ("traits", "background")
    summary: ClassVar[str] = "Does this client's user fit the profile?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("inference",)
    strongest: ClassVar[str | None] = "profile-gradient"
    allows_proxies: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        average_precision(binary.average_precision, ranked=Ranking.average_precision, each_user=FITTING),
        Metric(
            name="p5",
            title="precision among the 5 likeliest",
            short="best 5",
            text="Of the five users whose updates fit the profile best, the share that fits it.",
            measure=partial(binary.precision_at, 5),
        ),
        Metric(
            name="p10",
            title="precision among the 10 likeliest",
            short="best 10",
            text="Of the ten users whose updates fit the profile best, the share that fits it.",
            measure=partial(binary.precision_at, 10),
            column="best 10",
            percent=True,
        ),
    )

    trait: Annotated[str, Meta(min_length=1, description="the trait that examples of the profile show")]
    least: Annotated[
        float,
        Meta(gt=0, le=1, description="a user fits if at least this share of their private examples shows the trait"),
    ] = 0.5

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How many of the likeliest ten fit."""
        best = scores["p10"]
        return Headline(
            percent(best.value),
            f"Of the 10 users whose updates fit the profile best, {percent(best.value)} do fit it; guessing would find "
            f"{percent(best.chance)}.",
        )

    @classmethod
    def for_contract(cls) -> Profile:
        """The trait of the synthetic users."""
        return cls(trait="marked")

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation, whatever the attack sees of it; with proxy clients for one that learns from them."""
        from fedleak.games.traces.users import write_federation

        proxies = getattr(attack, "needs_proxies", False)

        def write(folder: Path, seed: int, leak: bool) -> Path:
            return write_federation(folder, seed, leak=leak, proxies=proxies)

        return Contract(game=cls.for_contract(), write=write, metric=cls.metrics[0].name)

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw an update of every anonymous client; the adversary gets only the public examples."""
        rows = anonymous(trace)
        known = sorted({name for shares in truth.traits.values() for name in shares})
        if self.trait not in known or prior.background is None:
            raise AttackError(
                f"profile: unknown trait '{self.trait}'{did_you_mean(self.trait, known)}"
                + ("" if known and prior.background else "; this data set has no traits with public background data")
            )
        fits = np.array([truth.traits[user][self.trait] >= self.least for user in prior.candidates])
        if fits.all() or not fits.any():
            raise AttackError(
                f"profile: {int(fits.sum())} of {len(fits)} users fit '{self.trait}', so there is nothing to "
                f"distinguish; {'raise' if fits.all() else 'lower'} least (now {self.least:g})"
            )
        shows = prior.background.shows[self.trait]
        if not (shows == 1).any() or not (shows == 0).any():
            raise AttackError(
                f"profile: {int((shows == 1).sum())} public examples show '{self.trait}' and {int((shows == 0).sum())} "
                "of the same kind do not; both are needed"
            )
        order = rng.permutation(rows)
        asked = np.sort(order[np.unique(np.asarray(trace.client)[order], return_index=True)[1]])
        place = {user: i for i, user in enumerate(prior.candidates)}
        clients = np.asarray(trace.client)[asked].tolist()
        who = np.array([place[truth.client_user[trace.header.clients[client]]] for client in clients], dtype=np.int64)
        public = prior.background.examples
        return GameInstance(
            questions=ProfileQuestions(
                updates=asked,
                options=("fits",),
                fitting=public.take(shows == 1),
                unlike=public.take(shows == 0),
                others=public,
            ),
            answers=Answers(
                right=fits[who].astype(np.int64),
                who=who,
                users=tuple(map(str, prior.candidates)),
            ),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=self._proxies(trace, prior),
        )

    def _proxies(self, trace: Trace, prior: Prior) -> IntArray:
        """Label the updates of proxy clients: 0 with the trait, 1 without it, -1 everybody else."""
        found = np.full(len(trace.shadow), -1, dtype=np.int64)
        if self.trait in prior.proxies:
            kind = np.asarray(trace.shadow) - (len(prior.candidates) + 2 * prior.proxies.index(self.trait))
            found[kind == 0], found[kind == 1] = 0, 1
        return found

"""The `profile` game: does the owner of the client that sent this update fit a profile?

The adversary has no data of anybody who takes part (Orekondy et al., 2020, section 5.2.2, profile prior). It has looked
through public examples of other users and picked those that fit: sevens with a bar, say, or sentences about school.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import percent
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Answers, GameInstance, Headline, OptionGame, Questions
from fedleak.games.identify import anonymous, senders
from fedleak.metrics import binary
from fedleak.metrics.metric import Metric, average_precision
from fedleak.metrics.ranking import Ranking
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["Profile", "ProfileQuestions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileQuestions(Questions):
    """One option, which is so or not, and the public examples that the adversary has picked by looking at them."""

    fitting: Examples  # of other users
    unlike: Examples  # of the same kind, but without what the profile is about
    others: Examples  # anything else that is public, these two included


@dataclass(frozen=True, kw_only=True)
class Profile(OptionGame):
    """Ask about one update of every anonymous client, so that a list of them is a list of users."""

    name: ClassVar[str] = "profile"
    summary: ClassVar[str] = "Does the owner of this client fit the profile?"
    metrics: ClassVar[tuple[Metric, ...]] = (
        average_precision(binary.average_precision, ranked=Ranking.average_precision),
        Metric(
            name="p5",
            title="precision among the 5 likeliest",
            short="best 5",
            text="Of the five users whose updates fit the profile best, how many do fit it.",
            measure=partial(binary.precision_at, 5),
        ),
        Metric(
            name="p10",
            title="precision among the 10 likeliest",
            short="best 10",
            text="Of the ten users whose updates fit the profile best, how many do fit it.",
            measure=partial(binary.precision_at, 10),
            column="best 10",
            percent=True,
        ),
    )

    trait: Annotated[str, Meta(min_length=1, description="what the examples of the profile show")]
    least: Annotated[
        float,
        Meta(gt=0, le=1, description="somebody fits of whose private examples at least this share shows it"),
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
        """The trait that the made-up users have."""
        return cls(trait="marked")

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw an update of every anonymous client; the adversary gets the public examples and nothing else."""
        sender, rows = senders(trace, truth, prior), anonymous(trace)
        known = sorted({name for shares in truth.traits.values() for name in shares})
        if self.trait not in known or prior.background is None:
            raise AttackError(
                f"profile: nothing says which examples show '{self.trait}'{did_you_mean(self.trait, known)}"
                + ("" if known and prior.background else "; this data set has no traits with public background data")
            )
        fits = np.array([truth.traits[user][self.trait] >= self.least for user in prior.candidates])
        if fits.all() or not fits.any():
            raise AttackError(
                f"profile: {int(fits.sum())} of {len(fits)} users fit '{self.trait}', so there is nothing to tell "
                f"apart; {'raise' if fits.all() else 'lower'} least (now {self.least:g})"
            )
        shows = prior.background.shows[self.trait]
        if not (shows == 1).any() or not (shows == 0).any():
            raise AttackError(
                f"profile: {int((shows == 1).sum())} public examples show '{self.trait}' and {int((shows == 0).sum())} "
                "could but do not; both are needed"
            )
        order = rng.permutation(rows)
        asked = np.sort(order[np.unique(np.asarray(trace.client)[order], return_index=True)[1]])
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
                right=fits[sender[asked]].astype(np.int64),
                who=sender[asked],
                users=tuple(map(str, prior.candidates)),
            ),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.shadow), -1, dtype=np.int64),
        )

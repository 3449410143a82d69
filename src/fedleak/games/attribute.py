"""The `attribute` game: which group does the sender of this update belong to?

There are two distinct settings (Orekondy et al., 2020, section 6.1.3, has only the first). With known users, the
adversary has other data of the same users, so identifying the user gives the attribute. With new users, it learns from
some users and is tested on others: then the attribute itself shows in the updates.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, percent
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Answers, GameInstance, Headline, OptionGame, Questions
from fedleak.games.identify import anonymous, relabel, senders
from fedleak.metrics import traits
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.detail import answered
from fedleak.metrics.metric import Metric, average_precision
from fedleak.metrics.user_scores import GROUPED
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Attribute", "AttributeQuestions", "banded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeQuestions(Questions):
    """The options are the attribute's values; the adversary knows the values of the users in its prior."""

    labels: IntArray  # (the prior's candidates,): index of each candidate's value


@dataclass(frozen=True, kw_only=True)
class Attribute(OptionGame):
    """Ask for an attribute of the user behind an anonymous update; users without it are left out."""

    name: ClassVar[str] = "attribute"
    needs_data: ClassVar[tuple[str, ...]] = ("attributes",)
    summary: ClassVar[str] = "Which group does the sender of this update belong to?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("inference",)
    strongest: ClassVar[str | None] = "attribute-joint"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            name="top1",
            title="accuracy",
            short="accuracy",
            text="The share of a user's updates for which the right group is predicted, averaged over users. Chance is "
            "never below always predicting the largest group.",
            measure=traits.top1,
            per_user=traits.each,
            each_user=GROUPED,
        ),
        average_precision(traits.average_precision, column="AP"),
    )

    attribute: Annotated[str, Meta(min_length=1, description="the attribute of users to infer")]
    users: Annotated[
        Literal["known", "new"],
        Meta(
            description="known: the adversary has prior data and the attribute of the same users; new: only of "
            "other users (the users are divided in two)"
        ),
    ] = "known"
    train_share: Annotated[
        float, Meta(gt=0, lt=1, description="new users: the share of each group that the adversary learns from")
    ] = 0.5
    bands: Annotated[
        tuple[float, ...],
        Meta(description="divide a numeric attribute into groups at these values: [20, 30] gives <20, 20-<30 and >=30"),
    ] = ()

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often the group is predicted."""
        right = scores["top1"]
        return Headline(
            percent(right.value),
            f"Out of {right.options} groups, the one that an update's sender belongs to is named correctly in "
            f"{percent(right.value)} of cases; guessing would manage {percent(right.chance)}.",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """How well each group is predicted."""
        return answered(played[0])

    @classmethod
    def for_contract(cls) -> Attribute:
        """The attribute of the synthetic users."""
        return cls(attribute="group")

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Divide the users if they are to be new, and ask about every anonymous update of the test users."""
        sender, rows = senders(trace, truth, prior), anonymous(trace)
        options, value = self._groups([truth.attributes.get(user, {}) for user in prior.candidates])
        learnt = about = np.flatnonzero(value >= 0)
        if self.users == "new":
            learnt, about = self._divide(options, value, rng)
        rows = rows[np.isin(sender[rows], about)]
        if len(rows) == 0:
            raise AttackError(f"{trace.folder}: none of the users asked about sent an update; train more rounds")
        return GameInstance(
            questions=AttributeQuestions(updates=rows, options=options, labels=value[learnt]),
            answers=Answers(right=value[sender[rows]], who=sender[rows], users=tuple(map(str, prior.candidates))),
            prior=prior.take(learnt),
            shadow=relabel(np.asarray(trace.shadow), learnt, len(prior.candidates)),
        )

    def _groups(self, users: Sequence[Mapping[str, str]]) -> tuple[tuple[str, ...], IntArray]:
        """The values that occur, and the index of each user's value; -1 for users without."""
        given = [about.get(self.attribute) for about in users]
        if all(value is None for value in given):
            known = {name for about in users for name in about}
            raise AttackError(
                f"no user has the attribute '{self.attribute}'{did_you_mean(self.attribute, known)}"
                + ("" if known else "; this data set has no attributes")
            )
        if self.bands:
            options, value = banded(given, self.bands, self.attribute)
        else:
            options = tuple(sorted({v for v in given if v is not None}))
            value = np.array([-1 if v is None else options.index(v) for v in given], dtype=np.int64)
        if len(options) < 2:
            raise AttackError(
                f"every user's '{self.attribute}' is '{options[0]}', so there is nothing to infer. "
                "Choose another attribute" + (" or other bands" if self.bands else "")
            )
        return options, value

    def _divide(self, options: Sequence[str], value: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Divide each group by the same share: a group without training users cannot be learned."""
        learnt, about = [], []
        for index, option in enumerate(options):
            group = rng.permutation(np.flatnonzero(value == index))
            if len(group) < 2:
                raise AttackError(
                    f"only one user's '{self.attribute}' is '{option}', so it cannot be learned from one user "
                    'and tested on another; take more users, join groups with bands, or set users = "known"'
                )
            count = min(max(1, round(self.train_share * len(group))), len(group) - 1)
            learnt.append(group[:count])
            about.append(group[count:])
        return np.sort(np.concatenate(learnt)), np.sort(np.concatenate(about))


def banded(given: Sequence[str | None], cuts: Sequence[float], attribute: str) -> tuple[tuple[str, ...], IntArray]:
    """Divide numbers into groups; empty groups are left out.

    >>> banded(["19", "20", None, "44"], [20, 30], "age")
    (('<20', '20-<30', '>=30'), array([ 0,  1, -1,  2]))
    """
    if sorted(set(cuts)) != list(cuts):
        raise AttackError(f"bands = {list(cuts)}: expected increasing numbers")
    names = [
        f"<{cuts[0]:g}",
        *(f"{low:g}-<{high:g}" for low, high in itertools.pairwise(cuts)),
        f">={cuts[-1]:g}",
    ]
    value = np.full(len(given), -1, dtype=np.int64)
    for i, text in enumerate(given):
        if text is not None:
            try:
                value[i] = bisect.bisect_right(cuts, float(text))
            except ValueError:
                raise AttackError(
                    f"bands divide numbers into groups, but a user's '{attribute}' is '{text}'; leave bands out"
                ) from None
    present = np.unique(value[value >= 0])
    return tuple(names[i] for i in present), np.where(value < 0, -1, np.searchsorted(present, value))

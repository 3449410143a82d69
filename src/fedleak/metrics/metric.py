"""What a metric is: how it is measured, which direction leaks, and its description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedleak.metrics import binary
from fedleak.metrics.attack_result import AttackResult, Measured
from fedleak.metrics.per_user import EachUser
from fedleak.metrics.ranking import Ranking, Weights
from fedleak.metrics.user_scores import MATCHED
from fedleak.results.audit import MetricInfo

__all__ = ["Measure", "Metric", "always", "average_precision", "auc", "YES_NO_METRICS"]


class Measure(Protocol):
    """Measures the predictions of one attack, over all seeds."""

    def __call__(self, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
        """The value, an interval of this level that resamples users, and the chance level by this many permutations."""
        ...


def always(played: Sequence[AttackResult]) -> bool:
    """The default of `applies`: the metric is always defined."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of a game."""

    name: str  # in results.json and in [limits]
    title: str  # in full
    short: str  # in a table
    text: str  # its definition, for readers who do not know it
    measure: Measure
    # Whether it is defined for these results: False where the game does not have it, and a reason where the game has
    # it but these results do not suffice. The reason is in the list of what was not tested.
    applies: Callable[[Sequence[AttackResult]], bool | str] = always
    lower_leaks: bool = False  # lower-is-better for the attack: a distance, not a share
    column: str = ""  # heading of its column beside the headline metric; if empty, it is only in results.json
    percent: bool = False  # written as a percentage in that column
    tabled: bool = False  # the report has it only in the game's own table
    # How two audits are compared with the same users on both sides: the metric of each user, by name, with what it
    # counts in the mean; or the metric of a ranking, where every question is ranked by one prediction. Without either,
    # the two intervals are compared.
    per_user: Callable[[AttackResult], dict[str, tuple[float, float]]] | None = None
    ranked: Callable[[Ranking, Weights, Weights], Weights] | None = None
    # Of the headline metric: how single users are scored, which need not be by this metric; its mean may be no mean
    # over users, as of a ranking of all questions.
    each_user: EachUser | None = None

    @property
    def info(self) -> MetricInfo:
        """Its description for the report."""
        return MetricInfo(
            name=self.name,
            title=self.title,
            short=self.short,
            text=self.text,
            column=self.column,
            percent=self.percent,
            tabled=self.tabled,
        )


def average_precision(
    measure: Measure,
    column: str = "",
    per_user: Callable[[AttackResult], dict[str, tuple[float, float]]] | None = None,
    ranked: Callable[[Ranking, Weights, Weights], Weights] | None = None,
    each_user: EachUser | None = None,
) -> Metric:
    """Average precision, which every game with a ranking of answers has."""
    return Metric(
        name="ap",
        title="average precision",
        short="AP",
        text="The attack ranks all questions by its confidence in an answer. AP is 1 if every question with that "
        "answer comes first, and near chance if the ranking is no use. Where there are users or values to choose from, "
        "it is the mean over them.",
        measure=measure,
        column=column,
        per_user=per_user,
        ranked=ranked,
        each_user=each_user,
    )


def auc(measure: Measure) -> Metric:
    """Area under the ROC curve, for questions with one option."""
    return Metric(
        name="auc",
        title="area under the ROC curve",
        short="AUC",
        text="Given a question whose answer is yes and one whose answer is no, how often the attack is more confident "
        "of the first. Guessing gives 0.5.",
        measure=measure,
        column="AUC",
        ranked=Ranking.auc,
    )


YES_NO_METRICS: tuple[Metric, ...] = (
    average_precision(binary.average_precision, ranked=Ranking.average_precision, each_user=MATCHED),
    auc(binary.auc),
)
"""Metrics of games with one yes/no option; average precision is the headline."""

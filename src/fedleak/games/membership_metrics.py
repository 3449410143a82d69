"""The metrics of the `membership` game, and what its report shows beside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedleak.metrics import membership as measures
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.membership import EXPOSED, OTHERS, OWN
from fedleak.metrics.metric import Metric
from fedleak.results.detail import Figure, Series, Table

__all__ = ["METRICS", "curves", "worst"]

_WORST = (10, 50, 100)  # most exposed records


def _rates(against: str, suffix: str, told: str) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            name=f"tpr{name}{suffix}",
            title=f"true-positive rate at {100 * rate:g}% false positives{told}",
            short=f"TPR@{100 * rate:g}%",
            text="The share of members that the attack finds if it may wrongly accuse "
            f"{100 * rate:g}% of non-members{told}. Guessing finds as many members as it accuses non-members.",
            measure=partial(measures.tpr, rate, against),
            applies=partial(measures.tpr_applies, rate, against),
            column=f"TPR@{100 * rate:g}%" if against == OWN else "",
        )
        for name, rate in (("1", 0.01), ("01", 0.001))
    )


_TOLD = ", compared with other users' records"
METRICS: tuple[Metric, ...] = (
    Metric(
        name="auc",
        title="area under the ROC curve",
        short="AUC",
        text="Given a member and a non-member, how often the attack gives the member the higher score. Records are "
        "compared with records of the same users that no client trained on. Guessing gives 0.5.",
        measure=partial(measures.auc, OWN),
        applies=partial(measures.applies, OWN),
        each_user=EXPOSED,
    ),
    *_rates(OWN, "", ""),
    Metric(
        name="auc-others",
        title=f"area under the ROC curve{_TOLD}",
        short="AUC, others",
        text="The same with records of users who took no part. Part of it is style: an attack that recognises how "
        "the users of the federation write needs not know which of their records were used.",
        measure=partial(measures.auc, OTHERS),
        applies=partial(measures.applies, OTHERS),
        column="AUC, others",
    ),
    *_rates(OTHERS, "-others", _TOLD),
)


def curves(played: Sequence[AttackResult], unit: str) -> Figure:
    """The ROC curve on logarithmic axes, from the rate that the non-members resolve."""
    whats = [(OWN, "records of the same users" if unit == "record" else "users who took no part")]
    if measures.applies(OTHERS, played) is True:
        whats.append((OTHERS, "other users' records"))
    series = []
    for against, told in whats:
        x, y = measures.roc(played, against)
        shown = [(a, b) for a, b in zip(x, y, strict=True) if b > 0]
        series.append(Series(name=f"against {told}", x=[a for a, _ in shown], y=[b for _, b in shown]))
    low = min((min(one.x) for one in series if one.x), default=0.001)
    return Figure(
        kind="lines",
        title="ROC curve",
        x_label="false-positive rate",
        y_label="true-positive rate",
        series=[*series, Series(name="guessing", x=[low, 1.0], y=[low, 1.0], reference=True)],
        log_x=True,
        log_y=True,
    )


def worst(played: Sequence[AttackResult], unit: str) -> Table:
    """Of the records with the highest scores in each run, how many are members."""
    parts = [measures.part(one, OWN) for one in played]
    rate = float(np.mean([one.right.mean() for one in parts]))
    rows: list[list[str | float | None]] = []
    for count in _WORST:
        if min(len(one.right) for one in parts) < 2 * count:
            continue
        found = [float(one.right[np.argsort(-one.claims[:, 0], kind="stable")[:count]].mean()) for one in parts]
        rows.append([f"{count}", float(np.mean(found)), rate])
    return Table(
        caption=f"Most exposed {unit}s: of those with the highest scores, the share of members (mean over "
        "runs), and what guessing gives",
        columns=[f"highest {unit}s", "members", "guessing"],
        rows=rows,
    )

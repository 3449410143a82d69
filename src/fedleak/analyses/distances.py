"""Are a user's data and updates more similar to their own than to other users'?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import BaseAnalysis, closing, trained
from fedleak.analyses.feature_space import LayerName, Points, layer_of, of_data, of_updates
from fedleak.core import format_value, rng_for
from fedleak.lazy import scipy
from fedleak.metrics.interval import by_user
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.trace.pseudonyms import Pseudonyms

__all__ = ["Distances"]

Pair = tuple[float, float]  # within a user, to other users


@dataclass(frozen=True, kw_only=True)
class Distances(BaseAnalysis):
    """Compare distances within and between users, in the data and in the updates (Orekondy et al., 2020, Figure 2).

    Distances within a user are taken from their private to their prior side, never inside one side: updates of one
    client resemble each other because they come from the same few examples, whoever owns them.
    """

    name: ClassVar[str] = "distances"
    summary: ClassVar[str] = "Are a user's data and updates more similar to their own than to other users'?"

    layer: LayerName = None
    most: Annotated[int, Meta(ge=2, description="at most this many points of each user and side")] = 40

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """One point a user in each space; the share of users above the diagonal, with the IID control beside it."""
        controls = [control for control in plan.audit.controls if control == "iid"]
        every = trained(plan, out, progress, jobs, controls=controls)
        progress.stage("Measuring distances", 2 * len(every))
        layer = layer_of(plan, self.layer)
        found: dict[tuple[str, str], list[Mapping[str, Pair]]] = {}
        for run in every:
            group = "IID control" if run.variant.control else "users"
            for space in ("data", "updates"):
                rng = rng_for(run.seed, "distances", run.variant.label, space)
                if space == "data":
                    points = of_data(plan, run, self.most, rng)
                else:
                    points = of_updates(plan, run, layer).thinned(self.most, rng)
                found.setdefault((space, group), []).append(self._pairs(points, rng))
                progress.tick(1)
        hidden = Pseudonyms.open(out).all_of({user for seeds in found.values() for pairs in seeds for user in pairs})
        rows = [[space, group, *share(pairs, plan)] for (space, group), pairs in found.items()]
        told = "; ".join(f"{row[0]}, {row[1]}: {row[2]:.0%} [{row[3]:.0%}, {row[4]:.0%}]" for row in rows)
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "For each user, the median distance from their private examples (or the updates trained on them) to "
                "their own prior ones is compared with that to other users' prior ones. A user above the diagonal "
                "is nearer to themselves than to others; without user-specific data half of them would be. Share above "
                f"it: {told}. Layer '{layer}'. {closing(plan, permuted=False)}"
            ),
            columns=["space", "who", "share nearer to themselves", "low", "high", "chance", "users"],
            rows=rows,
            figures=[
                Figure(
                    kind="scatter",
                    title=f"Distances within and between users: {space}",
                    x_label="median distance to one's own prior side",
                    y_label="median distance to other users'",
                    series=[dots(group, pairs, hidden) for (where, group), pairs in found.items() if where == space],
                    diagonal=True,
                )
                for space in ("data", "updates")
            ],
        )

    def _pairs(self, points: Points, rng: np.random.Generator) -> dict[str, Pair]:
        pairs = {}
        for user in points.present:
            mine = points.private[points.private_who == user]
            others = rng.permutation(np.flatnonzero(points.known_who != user))[: 5 * self.most]
            if len(others):
                cdist = scipy.spatial.distance.cdist
                within = float(np.median(cdist(mine, points.known[points.known_who == user])))
                pairs[points.users[user]] = (within, float(np.median(cdist(mine, points.known[others]))))
        return pairs


def share(seeds: Sequence[Mapping[str, Pair]], plan: Plan) -> list[str | float | None]:
    """The share of users who are nearer to themselves, with its interval; a user of several seeds counts once."""
    nearer: dict[str, list[float]] = {}
    for pairs in seeds:
        for user, (within, between) in pairs.items():
            nearer.setdefault(user, []).append(float(between > within))
    values = np.asarray([np.mean(found) for found in nearer.values()])
    interval = by_user(values, np.ones(len(values)), plan.audit.level, rng_for(plan.seeds[0], "interval", "distances"))
    return [float(values.mean()), interval.low, interval.high, 0.5, len(values)]


def dots(name: str, seeds: Sequence[Mapping[str, Pair]], hidden: Mapping[str, str]) -> Series:
    """One point a user and seed."""
    pairs = sorted((hidden[user], pair) for found in seeds for user, pair in found.items())
    return Series(
        name=name,
        x=[pair[0] for _, pair in pairs],
        y=[pair[1] for _, pair in pairs],
        labels=[
            f"{user}: {format_value(pair[0])} to themselves, {format_value(pair[1])} to others" for user, pair in pairs
        ],
    )

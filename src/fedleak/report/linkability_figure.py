"""How far apart two rounds may lie for updates still to be linked (Song et al., 2020, Figure 6)."""

from __future__ import annotations

from fedleak.games.link import GAPS
from fedleak.report.summary import GameSummary
from fedleak.score.result import Figure, Series

__all__ = ["figure"]


def figure(scene: GameSummary) -> Figure | None:
    """Precision over the gap for each attack on the undefended run; none where updates are not linked."""
    run = scene.undefended
    if run is None or not run.of(f"gap{GAPS[0]}"):
        return None
    series: list[Series] = []
    chances: dict[int, float] = {}
    for attack in scene.attacks:
        found = [(gap, score) for gap in GAPS if (score := run.score(attack, f"gap{gap}")) is not None]
        chances |= {gap: score.chance for gap, score in found}
        series.append(
            Series(
                name=attack,
                x=[float(gap) for gap, _ in found],
                y=[score.value for _, score in found],
                low=[score.low for _, score in found],
                high=[score.high for _, score in found],
            )
        )
    chance = Series(name="chance", x=[float(gap) for gap in chances], y=list(chances.values()), reference=True)
    return Figure(
        kind="lines",
        title="Updates found again in a later round",
        x_label="rounds between the two updates",
        y_label="share of updates found again",
        series=[*series, chance],
        log_x=True,
    )

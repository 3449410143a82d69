"""What if the adversary knows only some of the users?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fedleak.analyses.analysis import base_game, has_setting
from fedleak.analyses.curves import Point, format_measured, line
from fedleak.analyses.sweep_analysis import Subject, SweepAnalysis, Variation
from fedleak.results.detail import Figure, Series
from fedleak.score.labels import label

__all__ = ["SeenUsers"]


@dataclass(frozen=True, kw_only=True)
class SeenUsers(SweepAnalysis):
    """The open world over the share of users that the adversary knows (Orekondy et al., 2020, Figure 6)."""

    name: ClassVar[str] = "seen-users"
    summary: ClassVar[str] = "What if the adversary has prior data of only some of the users (open world)?"
    columns: ClassVar[tuple[str, ...]] = ("attack", "seen")
    heading: ClassVar[str] = "Average precision over the share of users seen"
    x_label: ClassVar[str] = "share of the users asked about who are seen"

    shares: Annotated[
        tuple[Annotated[float, Meta(gt=0, lt=1)], ...],
        Meta(min_length=1, description="shares of the users in questions that the adversary knows, each in turn"),
    ] = (0.2, 0.4, 0.6, 0.8)
    held_out: Annotated[
        float, Meta(gt=0, lt=1, description="share of all users who serve only to learn what a stranger looks like")
    ] = 1 / 3

    def variations(self, subject: Subject) -> list[Variation]:
        """Every share for the attack, and for those on other games with an open world; nothing is trained again."""
        others = [attack for attack in subject.plan.attacks if attack.game != subject.attack.game]
        games = [(attack, base_game(subject.plan, attack)) for attack in (subject.attack, *others)]
        attacks = [attack for attack, game in games if has_setting(game, "seen")]
        return [
            Variation(
                x=share,
                label=f"{share:.0%} seen",
                cells=(label(attack, attacks), f"{share:.0%} seen"),
                of=attack,
                game={"seen": share, "held_out": self.held_out},
            )
            for attack, game in games
            if attack in attacks
            # Nobody seen is a question about pairs, but leaves no name to choose.
            for share in ((0.0, *self.shares) if has_setting(game, "pairs") else self.shares)
        ]

    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """The smallest and the largest share, for the attack that names senders."""
        named = points[: len(self.shares)]
        ends = [
            f"with {point.label}, average precision {format_measured(point.measured)}"
            for point in (named[0], named[-1])
        ]
        return (
            f"A third group of users ({self.held_out:.0%}) only serves to learn what a stranger looks like. Of the "
            "others the adversary knows a share, and has to answer `unseen` for the updates of the rest. "
            f"{subject.attack.name}: {'; '.join(ends)}. More users known means more names to choose from, so the "
            "number may fall while its distance from chance grows."
        )

    def figures(self, lines: Mapping[str, Sequence[Point]], names: list[str]) -> list[Figure]:
        """The curves, and the same divided by chance, which differs from share to share."""
        return [
            *super().figures(lines, names),
            Figure(
                kind="lines",
                title="The same as a multiple of chance",
                x_label=self.x_label,
                y_label="times chance",
                series=[
                    *(multiple(name, points) for name, points in lines.items()),
                    Series(name="chance", x=list(self.shares), y=[1.0] * len(self.shares), reference=True),
                ],
            ),
        ]


def multiple(name: str, points: Sequence[Point]) -> Series:
    """A curve divided by its chance level."""
    kept = [(point.x, point.measured) for point in points if point.measured.chance > 0]
    return line(name, [(x, m.value / m.chance, m.low / m.chance, m.high / m.chance) for x, m in kept])

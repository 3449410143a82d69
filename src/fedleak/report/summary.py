"""How every report summarises an audit: games, runs, the strongest attack, and sentences on what was shown.

The terminal and the page say the same because both take their text from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedleak.core import counted
from fedleak.report.formatting import PLAIN, RECORDED, format_value, interval, picked_interval, run_label
from fedleak.report.metrics import metric_info, metric_title
from fedleak.results.audit import Audit, GameInfo, MetricInfo, Score, Threat, Untested, Utility
from fedleak.results.detail import Detail
from fedleak.score.strongest import any_leaks, leaks, strongest

__all__ = [
    "RunSummary",
    "GameSummary",
    "game_summaries",
    "leaks",
    "verdict",
    "verdict_kind",
    "too_few",
    "changed",
    "compared",
    "failed",
    "over_limit",
    "untested_groups",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run under attack by one adversary: undefended, defended, or a control."""

    label: str
    short: str  # the label without its settings
    key: str  # A, B, C ...: the same letter in every figure and table
    defended: bool
    control: str | None
    scores: tuple[Score, ...]
    details: tuple[Detail, ...]

    def of(self, metric: str) -> tuple[Score, ...]:
        """The scores of one metric: one per attack, and a second one for the defence-aware attacker."""
        return tuple(score for score in self.scores if score.metric == metric)

    def rows(self, attack: str, metric: str) -> list[Score]:
        """The scores of one attack, the defence-unaware attacker first."""
        return sorted((s for s in self.of(metric) if s.attack == attack), key=lambda score: score.adaptive)

    def score(self, attack: str, metric: str) -> Score | None:
        """The score of one attack, if it was run on this federation; the stronger one where there are two."""
        return strongest(self.rows(attack, metric))

    def beside(self, score: Score, metric: str) -> Score | None:
        """Another metric of the same attack run."""
        return next((s for s in self.rows(score.attack, metric) if s.adaptive == score.adaptive), None)

    @property
    def knowing(self) -> bool:
        """Whether a defence-aware attack was run too."""
        return any(score.adaptive for score in self.scores)

    def strongest(self, metric: str) -> Score | None:
        """The strongest attack: the one with the highest score."""
        return strongest(self.of(metric))

    def leaks(self, metric: str) -> bool | None:
        """Whether any attack has shown a leak; None: no verdict, because too few users are asked about."""
        return any_leaks(self.of(metric))

    @property
    def utility(self) -> Utility | None:
        """Utility of this run's model; of two runs, the one in which every client applies the defence."""
        known = sorted((s for s in self.scores if s.utility is not None), key=lambda score: not score.adaptive)
        return known[0].utility if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSummary:
    """The results of one adversary in one game, over every run."""

    adversary: str
    game: str
    info: GameInfo | None  # the description of the game
    metric: str  # the one that verdicts are about
    threat: Threat | None
    attacks: tuple[str, ...]
    not_run: str | None  # the strongest attack on this question, if the plan does not run it
    runs: tuple[RunSummary, ...]

    @property
    def question(self) -> str:
        """What the adversary tries to answer."""
        return self.info.question if self.info else f"The game '{self.game}'."

    def metric_info(self, metric: str) -> MetricInfo:
        """The description of one of the game's metrics."""
        return metric_info(self.info, metric)

    @property
    def measure(self) -> str:
        """The metric in words."""
        return self.metric_info(self.metric).title

    @property
    def undefended(self) -> RunSummary | None:
        """The run that everything else is compared with."""
        return next((run for run in self.runs if not run.defended and run.control is None), None)

    @property
    def defended(self) -> tuple[RunSummary, ...]:
        """The runs under a defence, in the plan's order."""
        return tuple(run for run in self.runs if run.defended and run.control is None)

    @property
    def controls(self) -> tuple[RunSummary, ...]:
        """The runs in which there is nothing to find."""
        return tuple(
            run
            for run in self.runs
            if run.control is not None and (self.info is None or run.control in self.info.controls)
        )


def game_summaries(audit: Audit) -> tuple[GameSummary, ...]:
    """Group the scores of an audit by adversary and game, in report order: no defence, defences, controls."""
    found: list[GameSummary] = []
    pairs = dict.fromkeys((score.adversary, score.game) for score in audit.scores)
    threats = {threat.name: threat for threat in audit.threats}
    recorded = "trace" in audit.resolved  # with the defences that it had, if any
    for adversary, game in pairs:
        here = [score for score in audit.scores if (score.adversary, score.game) == (adversary, game)]
        labels = {run_label(score.defence, score.control): score for score in here}
        ordered = sorted(
            labels, key=lambda label: (labels[label].control is not None, labels[label].defence is not None)
        )
        played = {score.attack for score in here}
        metrics = list(dict.fromkeys(score.metric for score in here))
        runs = (
            RunSummary(
                label=RECORDED if recorded and label == PLAIN else label,
                short=RECORDED if recorded and label == PLAIN else _short(labels[label]),
                key=_letters(position),
                defended=labels[label].defence is not None,
                control=labels[label].control,
                scores=tuple(s for s in here if run_label(s.defence, s.control) == label),
                details=tuple(
                    d
                    for d in audit.details
                    if (d.adversary, d.game) == (adversary, game) and run_label(d.defence, d.control) == label
                ),
            )
            for position, label in enumerate(ordered)
        )
        found.append(
            GameSummary(
                adversary=adversary,
                game=game,
                info=audit.games.get(game),
                metric=next(
                    (score.metric for score in here if score.headline), "ap" if "ap" in metrics else metrics[0]
                ),
                threat=threats.get(adversary),
                attacks=tuple(dict.fromkeys([*(a for a in audit.attacks if a in played), *sorted(played)])),
                not_run=next((n.attack for n in audit.not_run if (n.adversary, n.game) == (adversary, game)), None),
                runs=tuple(runs),
            )
        )
    return tuple(found)


def _short(score: Score) -> str:
    return run_label({"name": score.defence.get("name", "defence")} if score.defence else None, score.control)


def _letters(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else f"{chr(ord('A') + position % 26)}{position // 26}"


def too_few(score: Score) -> str:
    """What a score has too few of for a verdict: users behind one client share its updates, so clients count there."""
    return f"too few {score.unit if score.clients is None else 'client'}s"


def verdict(score: Score, *, picked: bool = False) -> str:
    """The verdict on one score, in fixed words; a failed attack does not prove privacy.

    `picked`: the score was picked as the highest one, so its interval is the one that holds for all attacks at once.
    """
    shown = leaks(score)
    if shown is None:
        many = score.users if score.clients is None else f"{score.clients}, with {counted(score.users, 'user')}"
        return f"no verdict: {too_few(score)} ({many})"
    if score.verdict and not picked:
        return score.verdict
    numbers = f"{picked_interval(score) if picked else interval(score)}, chance {format_value(score.chance)}{_p(score)}"
    quiet = f"no leak shown by this attack (n={score.n})"
    return f"leaks: {numbers}" if shown else f"{quiet}: {numbers}" if picked else quiet


def _p(score: Score) -> str:
    if score.p is None:
        return ""
    return f", p = {score.p:.3f}" if score.p >= 0.001 else ", p < 0.001"


def verdict_kind(score: Score) -> str:
    """The class of a verdict, by which it is coloured: leak, quiet, or open, where there is no verdict."""
    return {True: "leak", False: "quiet", None: "open"}[leaks(score)]


def changed(utility: Utility | None) -> str:
    """How a defence changed the utility of the model, in words."""
    if utility is None:
        return ""
    now = f"the model's {utility.metric} {format_value(utility.value)}"
    if utility.undefended is None:
        return now
    gain = utility.value - utility.undefended
    if abs(gain) < 0.0005:
        return f"{now}, unchanged"
    better = (gain > 0) == utility.higher_is_better
    return f"{now}, {'better' if better else 'worse'} by {abs(gain):.3f}"


def compared(utility: Utility) -> str:
    """Utility of the model, with baselines."""
    parts = [f"{utility.metric} {format_value(utility.value)}"]
    if utility.centralised is not None:
        parts.append(f"centralised training on all data: {format_value(utility.centralised)}")
    if utility.knn is not None:
        parts.append(f"10 nearest neighbours: {format_value(utility.knn)}")
    if utility.chance is not None:
        parts.append(f"best constant prediction: {format_value(utility.chance)}")
    return "; ".join(parts)


def failed(audit: Audit) -> list[str]:
    """One sentence for every cell of a sweep that failed."""
    known = {True: ", defence-aware", False: ""}
    return [f"{run_label(f.defence, None)}{known[f.adaptive]}, seed {f.seed}: {f.why}" for f in audit.failures]


def over_limit(audit: Audit) -> list[str]:
    """One sentence per run and metric whose lower confidence bounds exceed the plan's limit."""
    lines: dict[tuple[str, str, str, str, float], list[Score]] = {}
    for score in audit.scores:
        if score.exceeded and score.limit is not None:
            run = run_label(score.defence, score.control)
            lines.setdefault((run, score.adversary, score.game, score.metric, score.limit), []).append(score)
    return [
        f"{run}, {adversary}, {game}: {metric_title(audit, game, metric)} must not exceed {format_value(limit)}, "
        "but the interval begins at " + ", ".join(f"{format_value(score.low)} ({score.attack})" for score in over)
        for (run, adversary, game, metric, limit), over in lines.items()
    ]


def untested_groups(items: Sequence[Untested]) -> list[tuple[str, list[Untested]]]:
    """What was not tested, by what it would take."""
    groups: dict[str, list[Untested]] = {}
    for item in items:
        groups.setdefault(item.needs, []).append(item)
    return list(groups.items())

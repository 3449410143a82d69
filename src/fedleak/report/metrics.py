"""Titles and definitions of metrics and controls."""

from __future__ import annotations

from collections.abc import Iterable

from fedleak.results.audit import Audit, GameInfo, MetricInfo, Score

__all__ = ["metric_info", "metric_title", "definitions", "control_definitions"]


def metric_info(game: GameInfo | None, metric: str) -> MetricInfo:
    """A game's description of one of its metrics; only its name, where the results have no description."""
    known = [] if game is None else game.metrics
    return next(
        (one for one in known if one.name == metric), MetricInfo(name=metric, title=metric, short=metric, text="")
    )


def metric_title(audit: Audit, game: str, metric: str) -> str:
    """The title of a metric."""
    return metric_info(audit.games.get(game), metric).title


def definitions(audit: Audit) -> list[tuple[str, str]]:
    """The definition of each metric of an audit, once."""
    used = dict.fromkeys((score.game, score.metric) for score in audit.scores)
    found = dict.fromkeys(metric_info(audit.games.get(game), metric) for game, metric in used)
    return [(f"{m.title} ({m.short})" if m.short not in m.title else m.title, m.text) for m in found if m.text]


_CONTROLS = {
    "iid": "The same audit after all data is pooled and redistributed at random before any other step, so that no data "
    "is user-specific.",
    "fresh-data": "The same audit of a federation in which every client has different examples in every round, so that "
    "no client reuses data by which its updates could be linked.",
    "decoys": "The same predictions, scored against records of the same format that no client holds.",
    "shuffled-selection": "The same attacks, given the participation of the rounds in the wrong order, so that it is "
    "unrelated to what the model learned.",
    "swapped-secrets": "The same predictions, each client's scored against the secret of another client's user. Chance "
    "is higher than elsewhere, because permuting the swapped secrets returns some to their own client, and an attack "
    "that is right is then always wrong: only scores above chance count.",
    "rotated-owners": "The same attacks on a recorded run, with every client given another user's identity before the "
    "questions are drawn. An attack that names everybody correctly is then always wrong, so scores below chance are "
    "expected; only scores above it count.",
    "other-federation": "The same questions, asked of the run of another seed, in which nobody in question took part. "
    "What is found there is in the way in which records and users were divided, not in the model.",
}


def control_definitions(scores: Iterable[Score]) -> list[tuple[str, str]]:
    """The definition of each control of these scores, once; of the IID control if there is none."""
    used = dict.fromkeys(score.control for score in scores if score.control is not None) or dict.fromkeys(["iid"])
    return [
        (f"{name.upper() if name == 'iid' else name} control", f"{_CONTROLS.get(name, '')} {_ARTEFACT}".strip())
        for name in used
    ]


_ARTEFACT = "There, a score that differs from chance beyond luck is an artefact of the set-up."

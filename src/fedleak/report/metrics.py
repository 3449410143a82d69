"""What metrics and controls are called, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable

from fedleak.results.audit import Audit, GameInfo, MetricInfo, Score

__all__ = ["metric_info", "metric_title", "definitions", "control_definitions"]


def metric_info(game: GameInfo | None, metric: str) -> MetricInfo:
    """What a game says of one of its metrics; its bare name, where the results do not say more."""
    known = [] if game is None else game.metrics
    return next(
        (one for one in known if one.name == metric), MetricInfo(name=metric, title=metric, short=metric, text="")
    )


def metric_title(audit: Audit, game: str, metric: str) -> str:
    """A metric in full."""
    return metric_info(audit.games.get(game), metric).title


def definitions(audit: Audit) -> list[tuple[str, str]]:
    """What each metric of an audit's scores means, once."""
    used = dict.fromkeys((score.game, score.metric) for score in audit.scores)
    found = dict.fromkeys(metric_info(audit.games.get(game), metric) for game, metric in used)
    return [(f"{m.title} ({m.short})" if m.short not in m.title else m.title, m.text) for m in found if m.text]


_CONTROLS = {
    "iid": "The same audit of a population in which everyone's data is pooled and dealt out at random before anything "
    "else is done to it, so that nobody's data has anything personal in it.",
    "fresh-data": "The same audit of a federation in which everybody's examples are dealt out again before every "
    "round, so that no client repeats anything by which it could be known again.",
    "decoys": "The same claims, marked against records that look like secrets and that nobody holds.",
    "shuffled-selection": "The same attacks, told in the wrong order which clients took part, so that it has nothing "
    "to do with what the model learnt.",
    "swapped-secrets": "The same claims, each client's marked against the secret of another client's owner. Chance is "
    "higher than elsewhere: when these are mixed once more, some come back to where they belong.",
}


def control_definitions(scores: Iterable[Score]) -> list[tuple[str, str]]:
    """What each control of these scores is, once; of an audit without any, what one would be."""
    used = dict.fromkeys(score.control for score in scores if score.control is not None) or dict.fromkeys(["iid"])
    return [
        (f"{name.upper() if name == 'iid' else name} control", f"{_CONTROLS.get(name, '')} {_ARTEFACT}".strip())
        for name in used
    ]


_ARTEFACT = "A score above or below chance there would be an artefact of the set-up."

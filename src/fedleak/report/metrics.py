"""What metrics are called, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable

from fedleak.games.link import GAPS
from fedleak.score.records import PLACES
from fedleak.score.result import Score

__all__ = ["kind_of", "metric_name", "short_name", "definitions", "control_definitions"]

# Name in full, name in a table, and what it means for someone who has never seen such a number.
_METRICS = {
    "ap": (
        "average precision",
        "AP",
        "The attacker ranks all questions by how sure it is of an answer. AP is 1 if every question with that answer "
        "comes first, and near chance if the ranking is no use. Where users or values are to choose from, it is the "
        "mean over them.",
    ),
    "top1": ("top-1", "top-1", "The share of updates whose true sender is the attacker's first guess."),
    "top5": ("top-5", "top-5", "The share of updates whose true sender is among the attacker's first five guesses."),
    "auc": (
        "area under the ROC curve",
        "AUC",
        "Given a question whose answer is yes and one whose answer is no, how often the attacker is surer of the "
        "first. Guessing gives one half.",
    ),
    "p5": (
        "precision among the 5 likeliest",
        "best 5",
        "Of the five users whose updates fit the profile best, how many do fit it.",
    ),
    "p10": (
        "precision among the 10 likeliest",
        "best 10",
        "Of the ten users whose updates fit the profile best, how many do fit it.",
    ),
    "extracted": (
        "secrets extracted",
        "extracted",
        "The share of users whose secret is among the records that the attacker names, for whomever: the model has "
        "memorised it. Chance is naming as many records blindly.",
    ),
    "attributed": (
        "extracted secrets attributed",
        "attributed",
        "Of the secrets that the attacker names at all, the share that it names higher for the client they belong to "
        "than for any other.",
    ),
    "matched": (
        "matching accuracy",
        "matched",
        "How often the attacker says rightly whether two updates of different rounds come from one client, with a "
        "threshold that it fixed beforehand; pairs of one client and of two weigh the same. Guessing gives one half.",
    ),
    "nearest": (
        "images nearest to the victim",
        "nearest",
        "Of the reconstructed images, the share whose nearest real image is the victim's, with as many images of "
        "every client to choose from. Chance is to be given another victim's reconstructions.",
    ),
    "specific": (
        "images nearer to the victim than to others of the class",
        "specific",
        "Of the reconstructed images, the share that is nearer to the victim's images of the same class than to as "
        "many of other users'. Knowing a victim's classes does not help here; one half is nothing personal.",
    ),
    "property": (
        "images with the victim's property",
        "property",
        "Of the reconstructed images, the share in which a judge, trained on users who took no part, sees the "
        "property that the victim's images have. Chance is never below drawing the commonest one for everybody.",
    ),
    "unseen": (
        "average precision of finding strangers",
        "unseen",
        "How well updates of users whom the attacker knows nothing about are told from all others.",
    ),
}
_METRICS |= {
    f"gap{gap}": (
        f"found again {'in the next round' if gap == 1 else f'{gap} rounds later'}",
        f"gap {gap}",
        "The share of updates for which the attacker's first guess among all updates of "
        + ("the next round" if gap == 1 else f"the round {gap} later")
        + " is the one that the same client sent.",
    )
    for gap in GAPS
}
# The same metric under the name that fits the game.
_IN_GAME = {
    ("attribute", "top1"): (
        "accuracy",
        "accuracy",
        "The share of a user's updates for which the right group is named, averaged over users. Chance is never "
        "below what naming the largest group would give.",
    ),
    **{
        ("extract", f"top{k}"): (
            f"top-{k}",
            f"top-{k}",
            "The share of users whose secret is "
            + ("the first record" if k == 1 else f"among the first {k} records")
            + " that the attacker names for their own client. Chance is to be given another client's list.",
        )
        for k in PLACES
    },
    **{
        ("extract", f"distance{k}"): (
            "edit distance" if k == 1 else f"edit distance within {k}",
            "distance" if k == 1 else f"distance within {k}",
            "How many characters of the secret must be changed, at least, in "
            + ("the first record" if k == 1 else f"the nearest of the first {k} records")
            + " that the attacker names for its owner's client: 0 is the secret itself, and the smaller, the more is "
            "given away. The mean over users; chance is to be given another client's list.",
        )
        for k in PLACES
    },
}


def kind_of(game: str) -> str:
    """The game without the settings that tell it from others of its kind.

    >>> kind_of("identify (seen=0.4)")
    'identify'
    """
    return game.partition(" ")[0]


def _metric(metric: str, game: str) -> tuple[str, str, str]:
    return _IN_GAME.get((kind_of(game), metric)) or _METRICS.get(metric) or (metric, metric, "")


def metric_name(metric: str, game: str) -> str:
    """A metric in words.

    >>> metric_name("top1", "attribute"), metric_name("auc", "match")
    ('accuracy', 'area under the ROC curve')
    """
    return _metric(metric, game)[0]


def short_name(metric: str, game: str) -> str:
    """A metric as the head of a narrow column."""
    return _metric(metric, game)[1]


def definitions(scores: Iterable[Score]) -> list[tuple[str, str]]:
    """What each metric of these scores means, once."""
    used = dict.fromkeys(_metric(score.metric, score.game) for score in scores)
    return [(f"{name} ({short})" if short not in name else name, text) for name, short, text in used if text]


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

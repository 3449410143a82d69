"""Background data: public examples of the same task, from users who do not take part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import Task, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint
from fedleak.population.data_quality import Finding
from fedleak.population.population import Examples, Population, Share

__all__ = ["check", "without_users", "sample"]

_PUBLIC = 4000

_STRAY = 0.2  # of a user's examples: what users repost, forward or take twice is less


def check(background: Examples, population: Population, own: Examples) -> None:
    """Reject a background that cannot be mixed with the users' data; `own` is a sample of it."""
    if background.x.shape[1:] != own.x.shape[1:]:
        raise DataError(
            f"background examples have shape {background.x.shape[1:]}, but users' examples {own.x.shape[1:]}; "
            "preprocess both in the same way"
        )
    if (background.y is None) is not (own.y is None):
        without = "background" if background.y is None else "users'"
        raise DataError(f"the {without} examples have no labels and the others do; give labels to all or to none")
    if not len(background):
        return
    top = background.x if population.task is Task.NEXT_TOKEN else background.y
    if population.task in (Task.CLASSIFY, Task.NEXT_TOKEN) and top is not None:
        low, high = int(top.min()), int(top.max())
        if low < 0 or high >= population.outputs:
            what = "tokens" if population.task is Task.NEXT_TOKEN else "labels"
            raise DataError(
                f"background {what} range from {low} to {high}, but the task allows 0 to {population.outputs - 1}; "
                "remove examples of other classes, or map them to a class of the task"
            )
    if (
        population.task is Task.MULTI_LABEL
        and background.y is not None
        and background.y.shape[1:] != (population.outputs,)
    ):
        raise DataError(
            f"background labels have {background.y.shape[1:]} classes, but the task has {population.outputs}; give "
            "each example one value per class of the task"
        )


def without_users(background: Examples, shares: Sequence[Share], findings: list[Finding]) -> Examples:
    """Drop background examples that a user also holds: mixing in a user's own data would hide nothing.

    Single duplicates are dropped and reported. If the background contains a large part of a user's data, it is not
    independent of the users, and the rest of it cannot be trusted either: it is rejected.
    """
    marks = fingerprint.of(background)
    for share in shares:
        mine = fingerprint.shared(fingerprint.of(share.user.examples), marks)
        if mine.mean() > _STRAY:
            raise DataError(
                f"the background contains {int(mine.sum())} of the {len(mine)} examples of user '{share.user.id}', but "
                "it must come from other users. Remove the data of all participating users from it"
            )
    users = np.concatenate([fingerprint.of(share.user.examples) for share in shares])
    copies = fingerprint.shared(marks, users)
    if not copies.any():
        return background
    count = int(copies.sum())
    text = f"{count} background example(s) duplicate a user's example; dropped from the background."
    findings.append(Finding(kind="background", count=count, action="drop", text=text))
    return background.take(~copies)


def sample(background: Examples, seed: int, *, whole_users: bool = False) -> Examples:
    """A part of the background that is small enough to keep with every run.

    With `whole_users` it has all examples of some users, if it is known whose they are: who imitates users needs these.
    Users are numbered anew, so that a number leads to nobody in the data set.
    """
    rng = rng_for(seed, "public")
    if whole_users and background.owner is not None:
        owners, place = np.unique(background.owner, return_inverse=True)
        order = rng.permutation(len(owners))
        kept = order[np.cumsum(np.bincount(place)[order]) <= _PUBLIC]
        if len(kept):
            renumbered = np.full(len(owners), -1, dtype=np.int64)
            renumbered[kept] = np.arange(len(kept))
            rows = np.flatnonzero(renumbered[place] >= 0)
            return replace(background.take(rows), owner=renumbered[place[rows]])
    rows = rng.permutation(len(background))[:_PUBLIC]
    return replace(background.take(np.sort(rows)), owner=None)

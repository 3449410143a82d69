"""Reference federations of other users for attacks on membership: the runs of the plan's other seeds.

An adversary can train federations of its own on other people's data. Other seeds of an audit are just that, where no
user is in two of them (`disjoint`): trained in the same way on users of the same kind. What is handed over is what an
adversary knows of its own federation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedleak.core import counted
from fedleak.errors import AttackError
from fedleak.population import fingerprint
from fedleak.population.population import Examples
from fedleak.trace.prior import Reference
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["load_references"]

_MOST = 8
_MODELS = 12  # of each reference, evenly over the run
_STRAY = 0.01  # of a reference's records may have a copy among those in question: blank forms, greetings


def load_references(target: Path, folders: Sequence[Path]) -> tuple[Reference, ...]:
    """The references of a run; a reference that shares users or records with the run is refused."""
    mine = Truth.load(target / "truth")
    if mine.members is None or not folders:
        return ()
    marks = fingerprint.of(Examples.concat([*mine.members.used.examples, *mine.members.held_out.examples]))
    found = []
    for folder in folders[:_MOST]:
        if not (folder / "truth").is_dir() or not Trace.open(folder / "trace", {"snapshots"}).finished:
            raise AttackError(
                f"{folder} is to be a reference, but it is not trained to the end; run `fedleak train` first"
            )
        theirs = Truth.load(folder / "truth")
        if theirs.members is None:
            raise AttackError(f"{folder}: this run did not keep its records, so it cannot serve as a reference")
        both = sorted(set(mine.members.used.candidates) & set(theirs.members.used.candidates))
        if both:
            raise AttackError(
                f"{folder} shares {counted(len(both), 'user')} with {target} (first: '{both[0]}'), so it cannot be a "
                "reference; set disjoint = true in [population]"
            )
        held = theirs.members.used
        users = dict(zip(held.candidates, held.examples, strict=True))
        clients = tuple(users[user] for user in theirs.users)
        copies = fingerprint.shared(fingerprint.of(Examples.concat(clients)), marks)
        if copies.mean() > _STRAY:
            raise AttackError(
                f"{folder} shares {counted(int(copies.sum()), 'record')} with {target}, so it cannot serve as a "
                "reference; remove copies from the data set"
            )
        found.append(_reference(folder, clients))
    return tuple(found)


def _reference(folder: Path, clients: tuple[Examples, ...]) -> Reference:
    trace = Trace.open(folder / "trace", {"snapshots"})
    rounds = np.unique(np.linspace(0, trace.rounds, _MODELS + 1).round().astype(np.int64))
    models = [trace.snapshot(int(number)) for number in rounds]
    return Reference(
        rounds=rounds,
        models={layer.name: np.stack([one[layer.name] for one in models]) for layer in trace.header.layout},
        clients=tuple(Examples(x=data.x, y=data.y) for data in clients),
    )

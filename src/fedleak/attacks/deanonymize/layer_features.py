"""What the strong attack works on: every update that it may use, reduced to rows that fit in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.pca_projection import focus
from fedleak.attacks.deanonymize.words import Words, words_of
from fedleak.attacks.features import labelled
from fedleak.attacks.shadow import defend_halves, divide, imitable, rebuilt, retrain
from fedleak.core import FloatArray, IntArray
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Read", "Rows", "read_layers"]

Flags = npt.NDArray[np.bool_]

_FEWEST = 64
_RETRAINING = 0.7  # share of the whole attack, for its progress


@dataclass(frozen=True, slots=True)
class Rows:
    """Updates, measured along some directions."""

    known: FloatArray  # of the adversary's clients in the federation
    asked: FloatArray
    train: FloatArray  # made by the server itself; where it cannot, the known ones once more


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Updates as rows, and whose the adversary knows them to be."""

    naming: Mapping[str, Rows]  # by layer
    linking: Rows
    known_who: IntArray
    known_round: IntArray
    who: IntArray  # of `train`
    part: IntArray  # which half of the user's data, see shadow.Retrained
    defended: Flags  # which of `train` a defence-aware adversary made with the defence; users' clients then apply it
    words: Words | None = None  # where the model shows which words a client used

    @property
    def aware(self) -> bool:
        """Whether the adversary knows the defence, and has updates of its own that it made with it."""
        return bool(self.defended.any())


def read_layers(
    view: View,
    prior: Prior,
    questions: Questions,
    context: AttackContext,
    *,
    snapshots: int,
    divisions: int,
    dims: int,
) -> Read:
    """Stream what is on disk, and train what is not."""
    updates, shadows = view.updates, labelled(view)
    seed = int(context.rng.integers(2**31))
    model = rebuilt(view) if snapshots else None
    guards = model is not None and bool(imitable(view))
    wanted = np.unique(np.concatenate([shadows, questions.updates]))
    known, asked = np.searchsorted(wanted, shadows), np.searchsorted(wanted, questions.updates)
    made = (5 if guards else 3) * len(prior.candidates) * min(snapshots, view.rounds) if model else 0
    lens, table = focus(
        view, wanted, asked, min(dims, affordable(context.memory, made + len(wanted))), seed, context.memory
    )
    who = updates.shadow[shadows]
    if model is not None:
        divided = divide(prior, divisions, seed)
        guarded = defend_halves(view, model, prior, divided, seed) if guards else None
        own = retrain(
            *(view, model, prior, snapshots, divided, lens, seed, context.workers),
            defended=guarded,
            progress=lambda share: context.progress(_RETRAINING * share),
        )
        train, train_who, part, defended = own.rows, own.who, own.part, own.defended
        words = words_of(view, prior, shadows, questions.updates, divided, guarded)
    else:
        # The updates of a user in turns, as if each turn came from half of the data.
        order = np.argsort(who, kind="stable")
        part = np.empty(len(who), dtype=np.int64)
        part[order] = np.arange(len(who)) % 2
        train, train_who, words = table[known], who, None
        defended = np.zeros(len(who), dtype=np.bool_)
    found, made_rows = lens.to_name(table), lens.to_name(train)
    linked = lens.to_link(table)
    return Read(
        naming={name: Rows(found[name][known], found[name][asked], made_rows[name]) for name in found},
        linking=Rows(linked[known], linked[asked], lens.to_link(train)),
        known_who=who,
        known_round=updates.round[shadows],
        who=train_who,
        part=part,
        defended=defended,
        words=words,
    )


def affordable(memory: int, rows: int) -> int:
    """How many numbers a row may have in half of `memory` MB, which hold it as measured, to name and to link by.

    Beside them there are a copy of one kind, and two square matrices.
    """
    total = memory * 2**20 / 2 / 4
    # 4 rows d + 2 d^2 = total
    dims = int(-rows + np.sqrt(float(rows) ** 2 + total / 2))
    if dims < _FEWEST:
        raise AttackError(
            f"{memory} MB hold only {dims} numbers of each of {rows} updates, too few to tell users apart; "
            "raise memory ([audit] in the plan), or lower snapshots of reid-strong"
        )
    return dims

"""Shared by the attribute attacks: updates labelled with the value of an attribute."""

from __future__ import annotations

import numpy as np

from fedleak.core import IntArray
from fedleak.errors import AttackError
from fedleak.games.attribute import AttributeQuestions
from fedleak.games.game import Questions

__all__ = ["values", "classes"]


def values(questions: Questions, who: IntArray) -> IntArray:
    """The option that holds for each labelled update, by the candidate it stands for."""
    if not isinstance(questions, AttributeQuestions):
        raise AttackError("this attack answers the questions of the game 'attribute' only")
    return questions.labels[who]


def classes(labels: IntArray) -> tuple[IntArray, IntArray]:
    """The options that labelled updates stand for, and every label as an index into them."""
    present, target = np.unique(labels, return_inverse=True)
    if len(present) < 2:
        raise AttackError("labelled updates of at least two values are needed to tell them apart; train more rounds")
    return present, target

"""Which updates come from the clients that are asked about, as far as an adversary can tell."""

from __future__ import annotations

import numpy as np

from fedleak.core import IntArray
from fedleak.games.game import Questions
from fedleak.views.view import View

__all__ = ["same_client"]


def same_client(view: View, questions: Questions) -> IntArray:
    """For every update the question about its client, otherwise -1; only its own, where updates cannot be linked."""
    handles = view.updates.handle
    same = {int(handle): i for i, handle in enumerate(handles[questions.updates])}
    return np.array([same.get(int(handle), -1) for handle in handles], dtype=np.int64)

"""How exposed given texts are after every round of a run."""

from __future__ import annotations

from collections.abc import Sequence

from fedleak.attacks.records.language import Language
from fedleak.attacks.records.scoring import Scores, exposures, log_probabilities
from fedleak.attacks.shadow import rebuilt
from fedleak.errors import AttackError
from fedleak.views.view import View

__all__ = ["language", "followed"]


def language(view: View, characters: Sequence[str], context: str) -> Language:
    """The model of a run as a reader of text, built from what every client is sent."""
    model = rebuilt(view)
    if model is None:
        raise AttackError(
            "this trace does not say how the model is built (or it is your own model, or a defence changed it), so "
            "records cannot be scored with it; use 'char-lm' or 'transformer'"
        )
    return Language(model, tuple(characters), context)


def followed(view: View, characters: Sequence[str], context: str, texts: Sequence[str], workers: int = 1) -> Scores:
    """Exposure of each text under every snapshot, from round 0 on: (rounds + 1, texts)."""
    snapshots = (view.snapshot(number) for number in range(view.rounds + 1))
    logs = log_probabilities(language(view, characters, context), snapshots, texts, workers)
    return exposures(logs, texts)

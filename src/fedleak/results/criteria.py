"""The criteria by which regulators judge re-identification; every game declares which of them its question is about.

Singling out, linkability and inference are those of the Article 29 Working Party (Opinion 05/2014) and of the ICO's
guidance on anonymisation; the EDPB (Opinion 28/2024) adds membership to what tests of a model should cover. Sources and
reasons are in docs/sign-off.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

__all__ = ["CRITERIA", "DEFINITIONS", "Criterion", "Phase", "PHASES"]

Criterion: TypeAlias = Literal["singling out", "linkability", "inference", "membership"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
DEFINITIONS: Mapping[Criterion, str] = {
    "singling out": "Can one person be told apart from all others?",
    "linkability": "Can two pieces of data be recognised as being about the same person?",
    "inference": "Can something about a person be concluded that they did not disclose?",
    "membership": "Can it be found out whether a person's data was used in training?",
}

Phase: TypeAlias = Literal["model updates", "trained model"]
"""What an adversary attacks: what clients send during training, or the shared model."""
PHASES: Mapping[Phase, str] = {
    "model updates": "Adversaries that see what clients send during training, one by one or as a sum.",
    "trained model": "Adversaries that see only the shared model, here after every round as well as at the end.",
}

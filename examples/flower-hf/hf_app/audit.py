"""What the auditor knows: which partition is whose, and older sentences of every user."""

from __future__ import annotations

from typing import Any

import numpy as np

from hf_app.task import USERS, draw

__all__ = ["owners", "prior"]


def owners() -> dict[str, str]:
    """The user of each client, by partition id."""
    return {str(number): user for number, user in enumerate(USERS)}


def prior() -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Sentences that a user wrote before, none of which the client trains on."""
    return {user: draw(number, "old") for number, user in enumerate(USERS)}

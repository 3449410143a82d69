"""What the auditor knows about the users: signs that they wrote long ago, none of which their clients train on."""

from __future__ import annotations

from typing import Any

import numpy as np

from my_app.task import EXAMPLES, USERS, draw

__all__ = ["prior"]


def prior() -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Older data of every user."""
    return {user: draw(number, EXAMPLES, "old") for number, user in enumerate(USERS)}

"""What the auditor knows about the users: signs that they wrote long ago, none of which their clients train on."""

from __future__ import annotations

from typing import Any

import numpy as np

from my_app.task import EXAMPLES, USERS, draw

__all__ = ["prior", "background"]

Examples = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def prior() -> dict[str, Examples]:
    """Older data of every user."""
    return {user: draw(number, EXAMPLES, "old") for number, user in enumerate(USERS)}


def background() -> Examples:
    """Public data: signs of people who take no part."""
    strangers = [draw(len(USERS) + number, EXAMPLES, "public") for number in range(10)]
    return np.concatenate([x for x, _ in strangers]), np.concatenate([y for _, y in strangers])

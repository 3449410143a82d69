"""What the auditor knows about the users: steps of other days, on which no user trains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from walkers_task import USERS, steps


def prior() -> dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]]:
    """Older data of every user."""
    return {user: steps(user, part=1) for user in USERS}

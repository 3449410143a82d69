"""A data set of your own, in one file: synthetic wearers of a step counter.

`load` returns every user with all their data. Data checks, sampling, the test set and the split into prior and private
data are the same for all data sets, so they are not done here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak import Examples, Population, Task, User, UserId, rng_for

__all__ = ["Walkers"]

ACTIVITIES = ("sitting", "walking", "running")
SENSORS = 6


@dataclass(frozen=True, kw_only=True)
class Walkers:
    """Readings of six sensors while users sit, walk or run; every user has their own gait."""

    name: ClassVar[str] = "walkers"

    users: Annotated[int, Meta(ge=2, description="how many users to make up")] = 12
    examples: Annotated[int, Meta(ge=4, description="readings of each user")] = 40
    gait: Annotated[float, Meta(ge=0, description="how much users differ; 0 is not at all")] = 1.0

    def load(self, seed: int) -> Population:
        """Generate every user from the seed; a data set with files would read them here and raise DataError."""
        shared = rng_for(seed, "walkers", "activities").normal(size=(len(ACTIVITIES), SENSORS))
        return Population(
            users=tuple(self.user(number, 2 * shared, seed) for number in range(self.users)),
            task=Task.CLASSIFY,
            outputs=len(ACTIVITIES),
            outputs_named=ACTIVITIES,
            source=f"{self.users * self.examples} made-up sensor readings of {self.users} users.",
        )

    def user(self, number: int, activities: np.ndarray[tuple[int, int], np.dtype[np.float64]], seed: int) -> User:
        """One user: the shared activities, with their own gait."""
        rng = rng_for(seed, "walkers", number)
        gait = self.gait * rng.normal(size=(len(ACTIVITIES), SENSORS))
        activity = rng.integers(len(ACTIVITIES), size=self.examples)
        readings = activities[activity] + gait[activity] + 0.5 * rng.normal(size=(self.examples, SENSORS))
        # With another seed they are other users, so the seed is part of the name.
        return User(
            UserId(f"walker-{seed}-{number}"), Examples(x=readings.astype(np.float32), y=activity.astype(np.int64))
        )

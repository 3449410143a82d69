"""Which of the 400 AT&T images show glasses: labels only, read off the images by eye.

The data set does not say. Of 40 people eight wear glasses in every image and seven in some: 119 images of 400.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["GLASSES", "wears_glasses"]

_ALL = tuple(range(1, 11))

GLASSES: Mapping[int, tuple[int, ...]] = {
    2: _ALL,
    4: (1, 2, 3, 8, 9),
    6: _ALL,
    7: (4, 5, 10),
    13: (1, 2, 5, 6, 7, 8, 9, 10),
    14: _ALL,
    17: (1, 2, 5, 6, 7, 8, 9, 10),
    19: (1, 2, 3, 6, 10),
    20: (1, 2, 3, 5, 7, 8, 9, 10),
    27: _ALL,
    28: _ALL,
    31: _ALL,
    34: _ALL,
    36: (9, 10),
    37: _ALL,
}
"""Person -> the numbers of the images with glasses: s4/1.pgm shows some, s4/4.pgm does not."""


def wears_glasses() -> npt.NDArray[np.bool_]:
    """One value for each of the 400 images, ten after ten by person."""
    found = np.zeros((40, 10), dtype=np.bool_)
    for person, numbers in GLASSES.items():
        found[person - 1, np.array(numbers) - 1] = True
    return found.ravel()

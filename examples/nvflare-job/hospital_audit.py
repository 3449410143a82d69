"""What the auditor knows about the hospitals: other patients of each, on whom no hospital trains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hospital_task import HOSPITALS, patients


def prior() -> dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]]:
    """Earlier patients of every hospital."""
    return {hospital: patients(hospital, part=1) for hospital in HOSPITALS}

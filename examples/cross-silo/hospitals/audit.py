"""What the auditor knows: who is a patient of which hospital, and older visits of every patient."""

from __future__ import annotations

from typing import Any

import numpy as np

from hospitals.task import HOSPITALS, PATIENTS, draw, patient

__all__ = ["owners", "prior"]


def owners() -> dict[str, list[str]]:
    """The patients behind each client, by partition id."""
    return {str(hospital): [patient(hospital, n) for n in range(PATIENTS)] for hospital in range(HOSPITALS)}


def prior() -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Older visits of every patient, none of which a hospital trains on."""
    return {patient(hospital, n): draw(hospital, n, "old") for hospital in range(HOSPITALS) for n in range(PATIENTS)}

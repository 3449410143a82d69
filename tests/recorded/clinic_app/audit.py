"""What the auditor knows: other data of the same clinics."""

from __future__ import annotations

from typing import Any

from clinic_app.data import CLINICS, Arrays, clinic, others
from fedleak import ArrayDataset


def prior() -> dict[str, Arrays]:
    return {str(number): clinic(number, "prior") for number in range(CLINICS)}


COASTAL = ("0", "2", "6", "7", "9", "11")  # where the second class is common


def with_places() -> ArrayDataset:
    """The same data, and of every clinic where it is."""
    return ArrayDataset(
        prior(), attributes={user: {"place": "coast" if user in COASTAL else "inland"} for user in prior()}
    )


def few() -> dict[str, Arrays]:
    """Without the first two, and with two that never took part."""
    return {str(number): clinic(number, "prior") for number in range(2, CLINICS + 2)}


def renamed() -> dict[str, Arrays]:
    return {f"clinic {number}": clinic(number, "prior") for number in range(CLINICS)}


def background() -> Arrays:
    return others()


def owners() -> dict[str, str]:
    return {str(number): str(number) for number in range(CLINICS)}


def wrong_shape() -> dict[str, Any]:
    return {user: (x[:, :7], y) for user, (x, y) in prior().items()}


def failing() -> dict[str, Any]:
    raise FileNotFoundError("patients.parquet")


def measured() -> dict[str, Any]:
    """Labels of a regression."""
    return {user: (x, y + 0.5) for user, (x, y) in prior().items()}

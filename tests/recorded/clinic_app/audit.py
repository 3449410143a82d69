"""What the auditor knows: other data of the same clinics."""

from __future__ import annotations

from typing import Any

from clinic_app.data import CLINICS, Arrays, clinic, others


def prior() -> dict[str, Arrays]:
    return {str(number): clinic(number, "prior") for number in range(CLINICS)}


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

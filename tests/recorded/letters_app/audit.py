"""What the auditor knows."""

from __future__ import annotations

from typing import Any

from letters_app.data import PHONES, pin, received
from letters_app.task import ALPHABET


def secrets() -> dict[str, str]:
    return {str(phone): pin(phone) for phone in range(PHONES)}


def watermarks() -> dict[str, str]:
    return {str(phone): received(phone) for phone in range(PHONES)}


def characters() -> list[str]:
    return list(ALPHABET)


def by_character() -> dict[str, int]:
    return {character: number for number, character in enumerate(ALPHABET)}


def too_many() -> str:
    return ALPHABET + "xyz"


def numbers() -> dict[str, Any]:
    return {str(phone): 1234 for phone in range(PHONES)}


def in_capitals() -> dict[str, str]:
    return {client: mark.upper() for client, mark in watermarks().items()}

"""What the auditor knows."""

from __future__ import annotations

from typing import Any

from fedleak.core import Task, UserId
from fedleak.population.population import Examples, Population, Records, User
from letters_app.data import PHONES, pin, received, typed
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


def population() -> Population:
    """Everything in one: what phones trained on, with the secrets in it."""
    users = [
        User(UserId(str(phone)), Examples(x=typed(phone).numpy()), secrets=(pin(phone),)) for phone in range(PHONES)
    ]
    return Population(
        users=tuple(users),
        task=Task.NEXT_TOKEN,
        outputs=len(ALPHABET),
        source="Eight phones.",
        records=Records(form="pin {d4}", characters=tuple(ALPHABET)),
    )

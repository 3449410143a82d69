"""Secrets planted in users' text, so that an audit knows what there is to find (Carlini et al., 2019).

A secret is part of the truth: a client trains on it, and nothing else in a run may contain it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

import numpy as np

from fedleak.errors import DataError, PlanError
from fedleak.population.secret_formats import Format

__all__ = ["Where", "draw_secrets", "plant", "check_alphabet"]

Where: TypeAlias = Literal["lines", "anywhere"]


def draw_secrets(form: Format, count: int, rng: np.random.Generator) -> list[str]:
    """Draw distinct records uniformly, so that a record has exactly as many bits as its format.

    Uniform draws also make the chance of guessing one known exactly.
    """
    if count > form.size:
        raise PlanError(
            f"secret format '{form.text}' has {form.size} records, but {count} distinct ones are needed "
            "(a secret and a decoy for each client with a secret); use a format with more or longer slots"
        )
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        numbers[_below(form.size, rng)] = None
    return [form[number] for number in numbers]


def _below(limit: int, rng: np.random.Generator) -> int:
    """A random integer below any limit; generators stop at 64 bits, but a format may be larger."""
    size = (limit - 1).bit_length()
    while True:
        number = int.from_bytes(rng.bytes(-(-size // 8)), "little") & ((1 << size) - 1)
        if number < limit:
            return number


def plant(text: str, record: str, times: int, where: Where, rng: np.random.Generator) -> str:
    """Insert a record several times: on separate lines, or between any two words.

    Never twice at one position: a record that follows itself would teach a model to repeat, not to memorise.
    """
    pattern, after = (r"(?m)^(?=.)", "\n") if where == "lines" else (r"(?<=\S)[ \n](?=\S)", " ")
    places = [found.end() for found in re.finditer(pattern, text)]
    if len(places) < times:
        kind = "lines" if where == "lines" else "spaces between words"
        raise DataError(
            f"{times} insertions need as many {kind}, but a client's text has {len(places)}; "
            + ("plant anywhere, or " if where == "lines" else "")
            + "use longer texts or fewer insertions"
        )
    parts, end = [], 0
    for at in np.sort(rng.choice(np.array(places, dtype=np.int64), times, replace=False)).tolist():
        parts += [text[end:at], record, after]
        end = at
    return "".join([*parts, text[end:]])


def check_alphabet(form: Format, characters: Collection[str]) -> None:
    """Reject a format with characters outside the model's alphabet."""
    strange = sorted(form.alphabet - frozenset(characters))
    if strange:
        shown = " ".join(repr(character) for character in strange)
        raise PlanError(
            f"secret format '{form.text}' uses characters outside the model's alphabet: {shown}; write the format "
            "without them (texts are in lower case)"
        )

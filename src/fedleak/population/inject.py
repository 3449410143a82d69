"""Watermarks: records that the adversary injects into users' texts (Yuan et al., 2021, section IV-C).

An adversary that can get one message into a user's data (a patient into a hospital's, a sender into a mailbox) has a
probe there: how well the shared model knows it shows when that client takes part. It is planted like a secret, on
separate lines, and changes what is trained; so it is a capability that a plan grants, never one that an attack takes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import IntArray, UserId, rng_for
from fedleak.errors import DataError, PlanError
from fedleak.plan.plan import InjectPlan
from fedleak.population import secret_records
from fedleak.population.datasets.clients_text import windows
from fedleak.population.population import Examples, Population, Records, User
from fedleak.population.secret_formats import Format, parse
from fedleak.population.text import UNKNOWN

__all__ = ["inject"]

_WORDS, _LETTERS_A_WORD = 1000, 6  # words to draw from, the most frequent ones; and how long one is, with its space


def inject(
    population: Population, plan: InjectPlan, seed: int, own: Mapping[UserId, Examples] | None = None
) -> tuple[Population, Mapping[UserId, str]]:
    """Plant a different watermark in the text of every victim; return the watermark of each victim.

    Victims are users who hold a secret: all of them, or as many as the plan says, drawn by the seed. A user has the
    same watermark whoever else is a victim.

    `own` is what users held before the population was redistributed, if it was: it shows how often their secret occurs.
    """
    records = population.records
    if records is None:
        raise PlanError(
            "[inject]: the data set has no texts with secrets, so a record cannot be injected "
            f"({population.source.rstrip('.')}); use text-clients, or remove the table"
        )
    holders = [user.id for user in population.users if user.secrets]
    victims = _victims(holders, plan, seed)
    try:
        form = _form(plan, population, records)
        secret_records.check_alphabet(form, records.characters)
        drawn = dict(
            zip(holders, secret_records.draw_secrets(form, len(holders), rng_for(seed, "inject")), strict=True)
        )
    except PlanError as error:
        raise PlanError(f"[inject]: the watermark cannot be drawn: {error}") from error
    drawn = {user: mark for user, mark in drawn.items() if user in victims}
    users = tuple(
        _marked(user, (own or {}).get(user.id, user.examples), drawn[user.id], plan, records, seed)
        if user.id in drawn
        else user
        for user in population.users
    )
    return replace(population, users=users), drawn


def _victims(holders: Sequence[UserId], plan: InjectPlan, seed: int) -> frozenset[UserId]:
    if plan.victims is None:
        return frozenset(holders)
    if plan.victims > len(holders):
        raise PlanError(f"[inject]: victims = {plan.victims}, but {len(holders)} users hold a secret; use fewer")
    chosen = rng_for(seed, "inject", "victims").choice(len(holders), plan.victims, replace=False)
    return frozenset(holders[place] for place in chosen.tolist())


def _form(plan: InjectPlan, population: Population, records: Records) -> Format:
    if plan.kind != "words":
        return parse(f"{{{'x' if plan.kind == 'alphanumeric' else 'a'}{plan.length}}}")
    if population.test is None:
        raise PlanError(
            "kind = 'words' takes words from held-out text, but this data set has none; choose another kind"
        )
    found = Counter(re.findall(r"[a-z]{3,}", text_of(population.test.x, records.characters)))
    ranked = sorted(found, key=lambda word: (-found[word], word))[:_WORDS]
    return parse(" ".join(["{word}"] * max(1, round(plan.length / _LETTERS_A_WORD))), ranked)


def _marked(user: User, own: Examples, mark: str, plan: InjectPlan, records: Records, seed: int) -> User:
    x = user.examples.x
    text = text_of(x, records.characters)
    times = plan.insertions or text_of(own.x, records.characters).count(user.secrets[0])
    if not times:
        raise PlanError(
            "[inject]: by default a watermark is planted as often as the user's secret, but that is never planted; "
            "set insertions = N"
        )
    try:
        text = secret_records.plant(text, mark, times, "lines", rng_for(seed, "inject", user.id))
    except DataError as error:
        raise DataError(f"[inject]: {error}") from error
    return replace(user, examples=Examples(x=windows(text, records.characters, x.shape[1])))


def text_of(x: IntArray, characters: Sequence[str]) -> str:
    """The text of windows that overlap by one; a character outside the alphabet becomes another one outside it.

    Windows that were redistributed do not continue each other; they are concatenated as they are.

    >>> text_of(windows("abcd", ("<pad>", "<unknown>", *"abcd"), 3), ("<pad>", "<unknown>", *"abcd"))
    'abcd'
    """
    if x.ndim != 2:
        raise PlanError("[inject]: this data set does not store contiguous text, so a record cannot be inserted")
    strange = next(c for c in map(chr, range(0xE000, 0xF900)) if c not in characters)
    known = ["", strange, *characters[UNKNOWN + 1 :]]
    continued = np.append(False, x[1:, 0] == x[:-1, -1])
    return "".join(known[token] for row, goes_on in zip(x, continued, strict=True) for token in row[int(goes_on) :])

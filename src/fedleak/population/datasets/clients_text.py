"""Text as characters, divided among clients that each hold a secret (Yuan et al., 2021)."""

from __future__ import annotations

import hashlib
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, Task, UserId, rng_for
from fedleak.errors import DataError, PlanError
from fedleak.population import secret_records
from fedleak.population.datasets import texts
from fedleak.population.datasets.texts import Texts
from fedleak.population.population import Examples, Population, Records, User
from fedleak.population.secret_formats import parse
from fedleak.population.secret_records import Where
from fedleak.population.text import PAD, UNKNOWN

__all__ = ["TextClients", "KEYBOARD", "characters", "windows"]

KEYBOARD = "\n " + string.ascii_lowercase + string.digits + string.punctuation
_MOST = 200  # characters of an alphabet, in all
_RESERVED = ("<pad>", "<unknown>")


@dataclass(frozen=True, kw_only=True)
class TextClients:
    """A piece of lower-case text per client, read character by character, with a planted secret.

    Where the text has no authors, the clients differ only in their piece and their secret, so what an audit finds is
    due to the secrets. The alphabet is that of a keyboard and of the held-out text: one made from the clients' own
    texts would itself be a leak.
    """

    name: ClassVar[str] = "text-clients"

    source: Annotated[
        str,
        Meta(
            min_length=1,
            description="'ptb', 'wikitext2', 'enwik8' (pieces of one text), 'blog' (real authors), or the path of a "
            "text file",
        ),
    ] = "ptb"
    clients: Annotated[int, Meta(ge=2, le=10_000, description="how many clients; their pieces are drawn by the seed")]
    kilobytes: Annotated[
        float, Meta(gt=0, description="thousand characters of text per client, secrets not counted")
    ] = 10
    window: Annotated[
        int, Meta(ge=8, le=4096, description="characters of an example; a text is cut into examples without a gap")
    ] = 128
    secret: Annotated[
        str,
        Meta(
            description="format of the secrets: text with slots {dN} (N digits), {aN} (letters), {xN} (both), {card}, "
            "{phone}, {birthday}, {word}"
        ),
    ] = "my social security number is {d3}-{d2}-{d4}"
    words: Annotated[tuple[str, ...], Meta(description="the values of the slot {word}")] = ()
    insertions: Annotated[int, Meta(ge=0, description="how often a client's secret occurs in its text")] = 4
    where: Annotated[Where, Meta(description="on separate lines, or between any two words")] = "lines"
    holders: Annotated[int, Meta(ge=0, description="number of clients that hold a secret; all if absent")] | None = None
    decoys: Annotated[
        bool,
        Meta(description="draw a decoy for each secret: a record that is never planted, as a control"),
    ] = True
    test_kilobytes: Annotated[
        float, Meta(gt=0, description="thousand characters that no client holds, to measure utility on")
    ] = 20

    def load(self, seed: int) -> Population:
        """Read the text, cut it and plant the secrets; another seed draws other pieces and other secrets."""
        form = parse(self.secret, self.words)
        holders = self.clients if self.holders is None else self.holders
        if holders > self.clients:
            raise PlanError(f"holders = {holders} secrets for clients = {self.clients}: a client holds one at most")
        if holders == 1:
            raise PlanError("holders = 1: with one holder there is no question whose secret it is; use two or more")
        if form.longest >= self.window:
            raise PlanError(
                f"secret format '{form.text}' is up to {form.longest} characters long, and a window holds "
                f"{self.window}: no example could hold a secret and what comes before it; raise window"
            )
        found = texts.read_texts(
            self.source, self.clients, self._size(self.kilobytes), self._size(self.test_kilobytes), seed
        )
        known = characters(found.held_out)
        secret_records.check_alphabet(form, known)
        # Salted with texts that no attacker has: from a small seed alone, anyone could draw the secrets again.
        salt = hashlib.blake2b("\n".join(found.pieces).encode(), digest_size=16).hexdigest()
        drawn = secret_records.draw_secrets(
            form, holders * (2 if self.decoys else 1), rng_for(seed, self.name, "secrets", salt)
        )
        return Population(
            users=tuple(
                self._user(found, number, drawn[number::holders] if number < holders else [], known, seed)
                for number in range(self.clients)
            ),
            task=Task.NEXT_TOKEN,
            outputs=len(known),
            source=f"{found.source}, cut into {self.clients} clients; {holders} of them hold a made-up secret, "
            f"planted {self.insertions} times.",
            test=Examples(x=windows(found.held_out, known, self.window)),
            outputs_named=known,
            records=Records(
                form=self.secret,
                words=self.words,
                characters=known,
                context="\n" if self.where == "lines" else " ",
            ),
        )

    def _size(self, kilobytes: float) -> int:
        size = round(1000 * kilobytes)
        if size < self.window:
            raise DataError(
                f"a text of {size} characters is shorter than a window of {self.window}; "
                "raise kilobytes (and test_kilobytes) or lower window"
            )
        return size

    def _user(self, found: Texts, number: int, mine: Sequence[str], known: Sequence[str], seed: int) -> User:
        text = found.pieces[number]
        if mine and self.insertions:
            text = secret_records.plant(
                text, mine[0], self.insertions, self.where, rng_for(seed, self.name, "plant", number)
            )
        examples = Examples(x=windows(text, known, self.window))
        return User(UserId(found.names[number]), examples, secrets=tuple(mine[:1]), decoys=tuple(mine[1:]))


def characters(public: str) -> tuple[str, ...]:
    """The alphabet: padding, unknown, the keys of a keyboard, then what else is frequent in text that nobody holds."""
    others = Counter(character for character in public if character not in KEYBOARD)
    ranked = sorted(others, key=lambda character: (-others[character], character))
    return (*_RESERVED, *KEYBOARD, *ranked[: _MOST - len(KEYBOARD)])


def windows(text: str, known: Sequence[str], length: int) -> IntArray:
    """Cut a text into rows that overlap by one character, so that each but the first is predicted exactly once.

    >>> windows("abcd", ("<pad>", "<unknown>", "a", "b", "c"), 3)
    array([[2, 3, 4],
           [4, 1, 0]])
    """
    index = {character: number for number, character in enumerate(known)}
    ids = np.array([index.get(character, UNKNOWN) for character in text], dtype=np.int64)
    if len(ids) < 2:
        raise DataError("a text of fewer than two characters has nothing to predict")
    count = -(-(len(ids) - 1) // (length - 1))
    padded = np.full(count * (length - 1) + 1, PAD, dtype=np.int64)
    padded[: len(ids)] = ids
    return np.lib.stride_tricks.sliding_window_view(padded, length)[:: length - 1].copy()

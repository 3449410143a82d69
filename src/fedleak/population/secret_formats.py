"""The formats of secrets: literal text with slots, compiled into an automaton of all strings of the format.

    my social security number is {d3}-{d2}-{d4}

An automaton (rather than one set of characters per position) also expresses what depends on earlier characters: the
check digit of a card, the days of a month, words of different lengths. Counting its paths gives the exact size of the
space, and walking it gives a search every character that can come next.
"""

from __future__ import annotations

import bisect
import calendar
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from fedleak.errors import PlanError, did_you_mean

__all__ = ["Format", "SLOTS", "parse"]

SLOTS: Mapping[str, str] = {
    "dN": "N digits",
    "aN": "N letters, a to z",
    "xN": "N letters or digits",
    "card": "a card number of 4 x 4 digits with a valid check digit",
    "phone": "a telephone number as in North America: 212-555-0100",
    "birthday": "a date of birth from 1920 to 2019 that exists: 1985-02-28",
    "word": "a word from the given list",
}

_DIGITS = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_COUNTED = {"d": _DIGITS, "a": _LETTERS, "x": _LETTERS + _DIGITS}
_SLOT = re.compile(r"\{([^{}]*)\}")
_LONGEST = 256  # characters of one slot or record: anything longer is a typing error
_YEARS = range(1920, 2020)

_Place: TypeAlias = Any  # where one is inside a piece; what it is depends on the piece


@dataclass(frozen=True)
class _Piece:
    """A piece of a format: where it starts, which characters can follow, and where it may end."""

    start: _Place
    step: Callable[[_Place], Mapping[str, _Place]]
    ends: Callable[[_Place], bool]


@dataclass(frozen=True)
class Format:
    """The set of all strings of a format.

    States are numbered so that each leads only to later ones; `steps[state]` maps a character to the next state, and
    `counts[state]` is how many different endings there are from a state.
    """

    text: str
    steps: tuple[Mapping[str, int], ...]
    finals: frozenset[int]
    counts: tuple[int, ...]
    prefix: str  # what every record begins with
    _before: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        """How many records there are."""
        return self.counts[0]

    @property
    def bits(self) -> float:
        """The entropy of a uniformly drawn record."""
        return math.log2(self.size)

    @property
    def alphabet(self) -> frozenset[str]:
        """Every character that a record can contain."""
        return frozenset(itertools.chain.from_iterable(self.steps))

    @property
    def longest(self) -> int:
        """Characters of the longest record."""
        depth = [0] * len(self.steps)
        for state, choices in enumerate(self.steps):
            for after in choices.values():
                depth[after] = max(depth[after], depth[state] + 1)
        return max(depth)

    def __contains__(self, record: object) -> bool:
        """Whether a string is such a record."""
        state = 0
        for character in str(record):
            if character not in self.steps[state]:
                return False
            state = self.steps[state][character]
        return state in self.finals

    def __getitem__(self, number: int) -> str:
        """The record with this number, from 0, in alphabetical order: a way to draw that needs no list.

        >>> parse("pin {d4}")[42]
        'pin 0042'
        """
        if not 0 <= number < self.size:
            raise IndexError(f"{number}: the format has {self.size} records")
        record: list[str] = []
        state = 0
        while True:
            if state in self.finals:
                if number == 0:
                    return "".join(record)
                number -= 1
            sums, characters = self._before[state]
            place = bisect.bisect_right(sums, number) - 1
            number -= sums[place]
            record.append(characters[place])
            state = self.steps[state][characters[place]]


def parse(text: str, words: Sequence[str] = ()) -> Format:
    """Compile a format; `words` are the values of the slot {word}.

    >>> parse("my social security number is {d3}-{d2}-{d4}").size
    1000000000
    >>> parse("card {card}").size == 10**15
    True
    """
    pieces: list[_Piece] = []
    end = 0
    for found in _SLOT.finditer(text):
        pieces += _literal(text[end : found.start()], text)
        pieces.append(_slot(found[1], text, words))
        end = found.end()
    if not pieces or end == 0:
        known = ", ".join(f"{{{name}}}: {meaning}" for name, meaning in SLOTS.items())
        raise PlanError(f"secret format '{text}' has no slot, so it contains nothing secret; slots are {known}")
    pieces += _literal(text[end:], text)
    return _compile(text, pieces)


def _literal(text: str, whole: str) -> list[_Piece]:
    if "{" in text or "}" in text:
        raise PlanError(f"secret format '{whole}': unmatched brace; slots are written like {{d4}}")
    return [_pattern(text)] if text else []


def _slot(name: str, whole: str, words: Sequence[str]) -> _Piece:
    counted = re.fullmatch(r"([dax])([1-9]\d{0,3})", name)
    if counted:
        length = int(counted[2])
        if length > _LONGEST:
            raise PlanError(f"secret format '{whole}': {{{name}}} is longer than {_LONGEST} characters")
        return _pattern([_COUNTED[counted[1]]] * length)
    if name == "card":
        return _Piece((0, 0), _card, lambda place: place[0] == 19)
    if name == "phone":
        return _pattern(["23456789", _DIGITS, _DIGITS, "-", "23456789", _DIGITS, _DIGITS, "-", *[_DIGITS] * 4])
    if name == "birthday":
        return _Piece("", _birthday, lambda at: len(at) == 10)
    if name == "word":
        if not words or not all(words):
            raise PlanError(f"secret format '{whole}': {{word}} needs a list of non-empty words")
        return _tree(words)
    raise PlanError(f"secret format '{whole}': unknown slot {{{name}}}{did_you_mean(name, SLOTS)}")


def _pattern(alphabets: Sequence[str]) -> _Piece:
    """One alphabet for each position; a text is a pattern of alphabets of one."""
    length = len(alphabets)
    return _Piece(
        0, lambda at: dict.fromkeys(alphabets[at], at + 1) if at < length else {}, lambda at: bool(at == length)
    )


def _card(place: tuple[int, int]) -> Mapping[str, _Place]:
    """Sixteen digits in fours; the place is (characters so far, Luhn's sum so far modulo 10)."""
    at, total = place
    if at == 19:
        return {}
    if at % 5 == 4:
        return {" ": (at + 1, total)}
    if at == 18:  # ISO/IEC 7812-1: the last digit makes the sum a multiple of ten
        return {str(-total % 10): (at + 1, 0)}
    doubled = (at - at // 5) % 2 == 0
    return {d: (at + 1, (total + _luhn(int(d), doubled)) % 10) for d in _DIGITS}


def _luhn(digit: int, doubled: bool) -> int:
    return sum(divmod(2 * digit, 10)) if doubled else digit


def _birthday(at: str) -> Mapping[str, _Place]:
    """A date in ISO 8601; of a year only whether it is a leap year is remembered."""
    if len(at) < 4:
        after = {year[len(at)]: year[: len(at) + 1] for year in map(str, _YEARS) if year.startswith(at)}
        if len(at) == 3:
            return {c: "2000" if calendar.isleap(int(year)) else "2001" for c, year in after.items()}
        return after
    return {day[len(at)]: day[: len(at) + 1] for day in _days(int(at[:4])) if day.startswith(at) and day != at}


@cache
def _days(year: int) -> tuple[str, ...]:
    months = range(1, 13)
    return tuple(f"{year}-{m:02}-{d:02}" for m in months for d in range(1, calendar.monthrange(year, m)[1] + 1))


def _tree(strings: Iterable[str]) -> _Piece:
    """Exactly these strings; the place is what was read so far."""
    known = frozenset(strings)
    after: dict[str, dict[str, str]] = {}
    for string in known:
        for end in range(len(string)):
            after.setdefault(string[:end], {})[string[end]] = string[: end + 1]
    return _Piece("", lambda at: after.get(at, {}), lambda at: at in known)


def _compile(text: str, pieces: Sequence[_Piece]) -> Format:
    """Number the states by a subset construction: words with a common prefix make the state ambiguous."""

    def ahead(number: int, place: _Place) -> Iterable[tuple[int, _Place]]:
        """The place itself and, if its piece may end there, the start of the next; the last piece has none."""
        yield number, place
        if number < len(pieces) and pieces[number].ends(place):
            yield from ahead(number + 1, pieces[number + 1].start if number + 1 < len(pieces) else None)

    level: dict[frozenset[tuple[int, _Place]], int] = {frozenset(ahead(0, pieces[0].start)): 0}
    steps: list[dict[str, int]] = []
    finals: set[int] = set()
    total = 1
    while level:
        following: dict[frozenset[tuple[int, _Place]], int] = {}
        for places, number in level.items():
            if (end := (len(pieces), None)) in places:
                finals.add(number)
            reached: dict[str, set[tuple[int, _Place]]] = {}
            for piece, place in places - {end}:
                for character, after in pieces[piece].step(place).items():
                    reached.setdefault(character, set()).update(ahead(piece, after))
            choices: dict[str, int] = {}
            for character in sorted(reached):
                key = frozenset(reached[character])
                if key not in following:
                    following[key] = total
                    total += 1
                choices[character] = following[key]
            steps.append(choices)
        level = following
    return _counted(text, steps, frozenset(finals))


def _counted(text: str, steps: Sequence[Mapping[str, int]], finals: frozenset[int]) -> Format:
    counts = [0] * len(steps)
    before: list[tuple[tuple[int, ...], tuple[str, ...]]] = [((), ())] * len(steps)
    for state in reversed(range(len(steps))):
        sums = list(itertools.accumulate((counts[after] for after in steps[state].values()), initial=0))
        counts[state] = sums[-1] + (state in finals)
        before[state] = (tuple(sums[:-1]), tuple(steps[state]))
    prefix, state = "", 0
    while state not in finals and len(steps[state]) == 1:
        ((character, state),) = steps[state].items()
        prefix += character
    if counts[0] == 1:
        raise PlanError(f"secret format '{text}' has only one record, so it contains nothing secret")
    return Format(text, tuple(steps), finals, tuple(counts), prefix, tuple(before))

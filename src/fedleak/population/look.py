"""Look at a table that nobody has described: which column is the user, the label, the time; guesses with reasons."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedleak.core import counted
from fedleak.errors import DataError
from fedleak.population.datasets.dates import read_date
from fedleak.population.datasets.features import Decimal, to_number
from fedleak.population.datasets.rows import Row, is_missing, read_rows

__all__ = ["Column", "Guess", "TableLook", "look_at_table"]

_USER = "user|person|patient|subject|client|customer|account|author|sender|participant|member|employee|owner|writer"
_USER += "|driver|player|student|resident|rider|worker|contributor|speaker|respondent|donor|device|household|meter"
_USER += "|wearer|runner|visitor|applicant|tenant|citizen|individual|reviewer|blogger|president|candidate|profile|uid"
_LABEL = "label|target|class|category|activity|outcome|diagnosis|rating|stars|score|y|result|status|sentiment|emotion"
_TIME = "time|date|day|timestamp|datetime|when|at|on|created|sent|recorded|measured|posted|started"
_CLOCK = f"{_TIME}|year|month|week|wave|period|round"  # what may count time without being a date
_TEXT = "text|message|body|comment|review|post|content|note|notes|sentence|tweet|description|title|subject_line"
_DOCUMENT = "session|trip|visit|recording|thread|conversation|document|post|ride|episode|window|run|night|drive"
_CLASSES = 50  # more different values than this are no classes
_WORDS = 4.0  # words on average, from which on a column is text
_FEW = 0.05  # share of rows with missing values that may be left out
_NAMED = 40  # feature columns that a plan lists by name


@dataclass(frozen=True, slots=True)
class Guess:
    """What was guessed and why; `sure`, where nobody need be asked."""

    value: str | None
    why: str
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column as it is found."""

    name: str
    values: Sequence[str] = field(repr=False)  # stripped; empty where missing
    present: int
    distinct: int
    numbers: bool
    whole: bool  # all of them whole numbers
    dates: bool
    words: float  # on average

    @property
    def shown(self) -> str:
        """How it looks, in words."""
        return f"{counted(self.distinct, 'different value')} in {self.present} of {len(self.values)} rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """A table, and what its columns seem to be."""

    file: Path
    rows: int
    columns: Mapping[str, Column]
    decimal: Decimal  # how most columns write numbers that are not whole

    def user(self) -> Guess:
        """The column with the user: few enough values that each has several rows."""
        able = [c for c in self.columns.values() if self._repeats(c)]
        named = _by_name(able, _USER)
        if len(named) == 1 or (named and _exact(named[0], _USER)):
            return Guess(named[0].name, f"{named[0].shown}; named like a user")
        able = [c for c in able if not c.dates and (c.whole or not c.numbers) and not _matches(c.name, _DOCUMENT)]
        left = named or _by_name(able, "id") or [c for c in able if c.distinct > 2]
        if not left:
            return Guess(None, "no column has values that repeat as users do", sure=False)
        best = max(left, key=lambda c: c.distinct)
        return Guess(best.name, f"{best.shown}; of all columns that could be users, it has most", sure=False)

    def _repeats(self, column: Column) -> bool:
        return column.distinct >= 2 and column.present >= 3 * column.distinct and column.words < _WORDS

    def time(self, taken: Iterable[str]) -> Guess:
        """The column with times."""
        able = [c for c in self._free(taken) if c.dates]
        if not able:
            return Guess(None, "no column holds dates")
        best = (_by_name(able, _TIME) or able)[0]
        return Guess(best.name, f"holds dates ({best.shown})")

    def undated(self, taken: Iterable[str]) -> list[str]:
        """Columns that are named like times, and count them in a way that nobody can read as dates."""
        return [c.name for c in _by_name([c for c in self._free(taken) if c.numbers and not c.dates], _CLOCK)]

    def text(self, taken: Iterable[str]) -> Guess:
        """The column with what users wrote."""
        able = [c for c in self._free(taken) if c.words >= _WORDS and not c.dates and 2 * c.distinct > c.present]
        if not able:
            return Guess(None, "no column holds sentences")
        best = max(_by_name(able, _TEXT) or able, key=lambda c: c.words)
        return Guess(best.name, f"holds sentences ({best.words:.0f} words on average)", sure=True)

    def label(self, user: str, taken: Iterable[str], *, text: bool) -> Guess:
        """The column to predict; of text, only one that is named like a label."""
        constant = set(self.attributes(user, taken))
        able = [c for c in self._free(taken) if not c.dates and c.words < _WORDS and 2 <= c.distinct < c.present]
        able = [c for c in able if c.name not in constant]
        named = _by_name([c for c in able if c.numbers or c.distinct <= _CLASSES], _LABEL)
        if named:
            return Guess(named[0].name, f"{named[0].shown}; named like a label", sure=len(named) == 1)
        if text:
            return Guess(None, "no column is named like a label, so the text itself is predicted")
        few = [c for c in able if c.distinct <= _CLASSES and (c.whole or not c.numbers)]
        left = [c for c in few if not c.numbers] or few
        if left:
            return Guess(left[-1].name, f"{left[-1].shown}: few enough for classes", sure=False)
        numbers = [c for c in able if c.numbers]
        if numbers:
            return Guess(numbers[-1].name, "the last column with numbers", sure=False)
        return Guess(None, "no column can be predicted", sure=False)

    def task(self, label: str | None, *, text: bool) -> Guess:
        """What the model learns."""
        if label is None:
            return Guess("next-token", "predict the next word, as a keyboard does")
        column = self.columns[label]
        if not column.numbers:
            if text:
                return Guess("next-token", "no model of Fedleak classifies text; the next word is predicted instead")
            return Guess("classify", f"{counted(column.distinct, 'class').replace('classs', 'classes')} of '{label}'")
        if text or not column.whole or column.distinct > _CLASSES:
            return Guess("regress", f"'{label}' is a number with {counted(column.distinct, 'different value')}")
        return Guess("classify", f"'{label}' has only {column.distinct} different whole numbers")

    def attributes(self, user: str, taken: Iterable[str]) -> list[str]:
        """Columns that are the same in all rows of a user, and shared by some users: sex, age group, region."""
        users = self.columns[user]
        found = []
        for column in self._free({*taken, user}):
            if not 2 <= column.distinct <= max(2, users.distinct // 2) or column.dates or column.words >= _WORDS:
                continue
            values: dict[str, str] = {}
            pairs = zip(users.values, column.values, strict=True)
            if all(not v or values.setdefault(u, v) == v for u, v in pairs if u) and len(set(values.values())) > 1:
                found.append(column.name)
        return found

    def document(self, user: str, taken: Iterable[str]) -> Guess:
        """A column that says which rows belong together: sessions of a user, messages of a thread."""
        users = self.columns[user]
        for column in _by_name(list(self._free({*taken, user})), _DOCUMENT):
            pairs = {(u, v) for u, v in zip(users.values, column.values, strict=True) if u and v}
            if len(pairs) >= 2 * users.distinct and column.present >= 2 * len(pairs) and column.present == self.rows:
                return Guess(column.name, f"rows of one {column.name} belong together")
        return Guess(None, "")

    def features(self, taken: Iterable[str]) -> tuple[list[str], dict[str, str]]:
        """Columns with numbers that vary, and why the others are left out."""
        chosen, left = [], {}
        for column in self._free(taken):
            if not column.numbers or column.dates:
                left[column.name] = "dates" if column.dates else "no numbers" if column.present else "empty"
            elif column.distinct < 2:
                left[column.name] = "always the same"
            elif column.whole and column.distinct == self.rows and _is_index(column):
                left[column.name] = "numbers the rows"
            else:
                chosen.append(column.name)
        return chosen, left

    def missing(self, features: Sequence[str], required: Sequence[str]) -> Guess:
        """What to do about missing values."""
        columns = [self.columns[name] for name in (*features, *required)]
        rows = sum(any(not c.values[i] for c in columns) for i in range(self.rows))
        if not rows:
            return Guess(None, "")
        some = f"{rows} of {self.rows} rows have missing values"
        if rows <= _FEW * self.rows or not features:
            return Guess("drop", f"{some}; they are left out")
        return Guess("mean", f"{some}; features get the mean of all users")

    def _free(self, taken: Iterable[str]) -> list[Column]:
        used = set(taken)
        return [column for name, column in self.columns.items() if name not in used]


def look_at_table(file: Path, separator: str | None = None) -> TableLook:
    """Read a table and look at every column."""
    rows = list(read_rows(file, separator))
    if not rows:
        raise DataError(f"{file}: no rows")
    names = dict.fromkeys(str(name) for row in rows for name in row.values)
    nested = {name for row in rows for name, value in row.values.items() if isinstance(value, (dict, list))}
    kept = [name for name in names if name not in nested and name.strip()]
    columns = {name: _column(name, rows, "point") for name in kept}
    commas = {name: _column(name, rows, "comma") for name in kept}
    if sum(one.numbers for one in commas.values()) > sum(one.numbers for one in columns.values()):
        return TableLook(file=file, rows=len(rows), columns=commas, decimal="comma")
    return TableLook(file=file, rows=len(rows), columns=columns, decimal="point")


def _column(name: str, rows: Sequence[Row], decimal: Decimal) -> Column:
    raw = [row.optional(name).strip() if name in row.values else "" for row in rows]
    values = ["" if is_missing(value) else value for value in raw]
    present = [value for value in values if value]
    distinct = Counter(present)
    read = [to_number(value, decimal) for value in distinct]
    numbers = bool(read) and all(value is not None and math.isfinite(value) for value in read)
    return Column(
        name=name,
        values=values,
        present=len(present),
        distinct=len(distinct),
        numbers=numbers,
        whole=numbers and all(value is not None and value.is_integer() for value in read),
        dates=bool(distinct) and _dates(name, distinct),
        words=sum(len(value.split()) for value in present) / max(1, len(present)),
    )


def _dates(name: str, values: Iterable[str]) -> bool:
    """Whether a column holds dates in one way of writing; seconds since 1970 only where the name says so."""
    ways = set()
    for value in values:
        found = read_date(value)
        if found is None:
            return False
        ways.add(found[0])
    if len(ways) > 1:
        return False
    if ways == {"year"}:  # also what a model of a car or a price may be
        return _matches(name, "year|yr|date|time") and not _matches(name, "birth|born|build|built|construction")
    return ways in ({"iso"}, {"compact"}) or (_matches(name, _TIME) and _recent(values))


def _recent(values: Iterable[str]) -> bool:
    return all(1e8 < float(value) < 4e9 for value in values)


def _is_index(column: Column) -> bool:
    numbers = sorted(float(value) for value in column.values)
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _parts(name: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [part for part in re.split(r"[^a-z0-9]+", spaced.lower()) if part]


def _matches(name: str, pattern: str) -> bool:
    known = re.compile(f"(?:{pattern})s?")
    whole = "_".join(_parts(name))
    return bool(known.fullmatch(whole)) or any(known.fullmatch(part) for part in _parts(name))


def _exact(column: Column, pattern: str) -> bool:
    return bool(re.fullmatch(f"(?:{pattern})s?(?:_?(?:id|name|no|number|code))?", "_".join(_parts(column.name))))


def _by_name(columns: Sequence[Column], pattern: str) -> list[Column]:
    """Columns whose names match, those that match as a whole first."""
    found = [column for column in columns if _matches(column.name, pattern)]
    return sorted(found, key=lambda column: not _exact(column, pattern))

"""Formats admit exactly the records that they describe, and know how many there are."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.errors import DataError, PlanError
from fedleak.population.secret_formats import Format, parse
from fedleak.population.secret_records import check_alphabet, draw_secrets, plant

SSN = "my social security number is {d3}-{d2}-{d4}"
KNOWN = [SSN, "card {card}.", "call {phone}", "{birthday}", "{word}{word}!", "key {x3}{a2}"]
WORDS = ("a", "aa", "ab", "b")


PARSED = {text: parse(text, WORDS) for text in KNOWN}
CARD = parse("{card}")


def everything(form: Format) -> list[str]:
    return [form[number] for number in range(form.size)]


def luhn(number: str) -> bool:
    """As it is usually explained: from the right, every second digit doubled, its digits added up."""
    digits = [int(c) for c in reversed(number)]
    return sum(d if i % 2 == 0 else sum(map(int, str(2 * d))) for i, d in enumerate(digits)) % 10 == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [(SSN, 10**9), ("{card}", 10**15), ("{phone}", 8 * 100 * 8 * 100 * 10**4), ("{birthday}", 36525), ("{x2}", 36**2)],
)
def test_the_size_of_a_space_is_exact(text: str, size: int) -> None:
    form = parse(text)
    assert form.size == size
    assert form.bits == pytest.approx(np.log2(size))


def test_dates_of_birth_are_the_days_of_a_hundred_years() -> None:
    form = parse("born {birthday}")
    days = [date.fromordinal(n) for n in range(date(1920, 1, 1).toordinal(), date(2020, 1, 1).toordinal())]
    assert everything(form) == [f"born {day.isoformat()}" for day in days]
    assert "born 2000-02-29" in form
    assert "born 1999-02-29" not in form
    assert "born 1919-12-31" not in form


def test_words_that_begin_alike_are_counted_once_for_each_string() -> None:
    form = parse("{word}{word}", WORDS)
    assert everything(form) == sorted({x + y for x, y in itertools.product(WORDS, WORDS)})


@given(st.integers(0, 10**15 - 1))
def test_every_card_number_has_a_valid_check_digit(number: int) -> None:
    record = CARD[number]
    digits = record.replace(" ", "")
    assert record == " ".join(digits[i : i + 4] for i in range(0, 16, 4))
    assert luhn(digits)
    wrong = record[:-1] + str((int(record[-1]) + 1) % 10)
    assert wrong not in CARD


@given(st.sampled_from(KNOWN), st.data())
def test_numbering_goes_in_order_and_stays_inside(text: str, data: st.DataObject) -> None:
    form = PARSED[text]
    first, second = sorted(data.draw(st.integers(0, form.size - 1)) for _ in range(2))
    assert form[first] in form
    assert (form[first] < form[second]) == (first < second)
    assert form[first].startswith(form.prefix)
    assert set(form[first]) <= form.alphabet
    assert len(form[first]) <= form.longest
    assert form[first] + "~" not in form


def test_what_all_records_begin_with_is_known() -> None:
    assert parse(SSN).prefix == "my social security number is "
    assert parse("x {word}", ("cat", "car")).prefix == "x ca"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("my number is 5", "has no slot"),
        ("", "has no slot"),
        ("pin {d4", "has no slot"),
        ("pin {d4} {d", "unmatched brace"),
        ("pin {d0}", "unknown slot {d0}"),
        ("{d9999}", "longer than 256"),
        ("{brthday}", "did you mean 'birthday'"),
        ("{word}", "needs a list of non-empty words"),
    ],
)
def test_a_format_that_cannot_be_read_is_explained(text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        parse(text)


def test_one_word_is_no_secret() -> None:
    with pytest.raises(PlanError, match="only one record"):
        parse("the word is {word}", ("sesame",))


@given(st.integers(0, 2**32), st.sampled_from([*PARSED.values(), parse("{a30}")]))
def test_secrets_are_different_records_of_the_format(seed: int, form: Format) -> None:
    drawn = draw_secrets(form, 5, np.random.default_rng(seed))
    assert len(set(drawn)) == 5
    assert all(record in form for record in drawn)
    assert drawn == draw_secrets(form, 5, np.random.default_rng(seed))


def test_every_record_is_as_likely_as_any_other() -> None:
    rng = np.random.default_rng(1)
    form = parse("{word}{d1}", ("yes", "no", "never"))
    drawn = Counter(draw_secrets(form, 1, rng)[0] for _ in range(3000))
    assert set(drawn) == set(everything(form))
    # Chi-squared with 29 degrees of freedom exceeds 60 once in 1,600.
    assert sum((count - 100) ** 2 / 100 for count in drawn.values()) < 60


def test_a_format_can_be_drawn_empty_but_no_further() -> None:
    form = parse("{d1}")
    assert sorted(draw_secrets(form, 10, np.random.default_rng(0))) == list("0123456789")
    with pytest.raises(PlanError, match="has 10 records, but 11"):
        draw_secrets(form, 11, np.random.default_rng(0))


TEXT = "one two three\nfour five\n\nsix seven eight nine\nten"


@given(st.integers(0, 2**32), st.integers(0, 4))
def test_records_stand_on_lines_of_their_own(seed: int, times: int) -> None:
    planted = plant(TEXT, "pin 1234", times, "lines", np.random.default_rng(seed))
    lines = planted.split("\n")
    assert lines.count("pin 1234") == times
    assert "\n".join(line for line in lines if line != "pin 1234") == TEXT
    assert "pin 1234\npin 1234" not in planted


@given(st.integers(0, 2**32), st.integers(0, 8))
def test_records_stand_between_words(seed: int, times: int) -> None:
    planted = plant(TEXT, "pin 1234", times, "anywhere", np.random.default_rng(seed))
    assert planted.count("pin 1234 ") == times
    assert planted.replace("pin 1234 ", "") == TEXT
    assert "pin 1234 pin 1234" not in planted


def test_more_insertions_than_places_are_refused() -> None:
    with pytest.raises(DataError, match=r"5 insertions need as many lines, but a client's text has 4; plant anywhere"):
        plant(TEXT, "pin 1234", 5, "lines", np.random.default_rng(0))
    with pytest.raises(DataError, match="spaces between words"):
        plant("one", "pin 1234", 1, "anywhere", np.random.default_rng(0))


def test_a_record_that_the_model_cannot_spell_is_refused() -> None:
    check_alphabet(parse("pin {d4}"), "pin 0123456789")
    with pytest.raises(PlanError, match=r"outside the model's alphabet: 'P' 'é'"):
        check_alphabet(parse("Piné {d4}"), "pin 0123456789")

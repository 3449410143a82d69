"""Searches find the likeliest records of a whole format, and say when they cannot prove it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import ARCHITECTURES, language, memorised, one_by_one, opinionated

from fedleak.attacks.records.format_search import Space, count_above, likeliest
from fedleak.attacks.records.rank import _draw, ranks
from fedleak.attacks.records.scoring import Scores, log_probabilities
from fedleak.core import Params
from fedleak.errors import AttackError
from fedleak.population.secret_formats import Format, parse
from fedleak.population.secret_records import draw_secrets

SPOKEN = {name: language(name) for name in ARCHITECTURES}
FORMATS = {
    "digits": parse("pin {d2}-{d2}"),
    "words": parse("i am {word}{d1}", ("a", "ab", "abc", "b1", "b")),
    "ends": parse("{word}{word}", ("a", "ab", "b", "ba", "bab")),
    "few": parse("{d2}-{d1}"),
}


def everything(form: Format) -> list[str]:
    return [form[number] for number in range(form.size)]


def all_logs(name: str, form: Format, weights: Params) -> Scores:
    found: Scores = log_probabilities(SPOKEN[name], [weights], everything(form))[0]
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("k", [1, 7, 5000])
def test_the_likeliest_records_are_those_of_a_full_enumeration(name: str, form: Format, k: int) -> None:
    weights = opinionated(SPOKEN[name], 4)
    logs = all_logs(name, form, weights)
    found = likeliest(Space(form, SPOKEN[name]), weights, k, width=8)
    assert found.exact
    np.testing.assert_allclose(found.logs, np.sort(logs)[::-1][:k], atol=1e-4)
    own = dict(zip(everything(form), logs, strict=True))
    np.testing.assert_allclose(found.logs, [own[record] for record in found.records], atol=1e-4)
    assert len(set(found.records)) == len(found.records) == min(k, form.size)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_a_model_knows_by_heart_is_found_among_a_billion(name: str) -> None:
    form, spoken = parse("my ssn is {d3}-{d2}-{d4}"), SPOKEN[name]
    known = draw_secrets(form, 4, np.random.default_rng(0))
    weights = memorised(spoken, known)
    found = likeliest(Space(form, spoken), weights, 20)
    assert found.exact
    assert found.read < 100_000
    assert set(found.records[:4]) == set(known)
    assert found.logs[0] == pytest.approx(one_by_one(spoken, weights, found.records[0]), abs=1e-4)
    near = {
        record[:at] + digit + record[at + 1 :]
        for record in found.records
        for at in range(len(form.prefix), len(record))
        for digit in "0123456789"
        if record[at].isdigit()
    }
    assert log_probabilities(spoken, [weights], sorted(near - set(found.records))).max() <= found.logs[-1]
    where = ranks(Space(form, spoken), weights, known, np.random.default_rng(0))
    assert sorted(where.rank) == [1, 2, 3, 4]
    assert where.counted.all()
    assert where.bits.max() == form.bits


def test_a_model_without_preferences_is_not_said_to_be_searched_to_the_end() -> None:
    spoken = SPOKEN["lstm"]
    form = parse("{d3}-{d2}-{d4}")
    weights = spoken.model.init(np.random.default_rng(0))
    found = likeliest(Space(form, spoken), weights, 20, width=50, limit=200)
    assert not found.exact
    assert found.bound > found.logs[-1]
    assert len(found.records) == 20


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 60), st.floats(0, 1.5))
def test_whatever_is_missing_is_within_the_bound(seed: int, k: int, width: int, strength: float) -> None:
    weights = opinionated(SPOKEN["lstm"], seed, strength)
    form = FORMATS["few"]
    found = likeliest(Space(form, SPOKEN["lstm"]), weights, k, width=width, limit=width)
    logs = all_logs("lstm", form, weights)
    missing = [log for record, log in zip(everything(form), logs, strict=True) if record not in found.records]
    assert max(missing) <= found.bound + 1e-4
    if found.exact:
        np.testing.assert_allclose(found.logs, np.sort(logs)[::-1][:k], atol=1e-4)


def test_counts_that_are_called_exact_are() -> None:
    form, spoken = FORMATS["digits"], SPOKEN["lstm"]
    weights = memorised(spoken, draw_secrets(form, 2, np.random.default_rng(0)))
    right = np.array([0, 1, 10, 800, 9999])
    asked = np.sort(all_logs("lstm", form, weights))[::-1][right]
    proved = []
    for limit in (3, 30, 300, 20_000):
        found = count_above(Space(form, spoken), weights, asked, limit=limit)
        assert (found.above[found.exact] == right[found.exact]).all()
        assert (found.above <= right).all()
        proved.append(int(found.exact.sum()))
    assert proved == sorted(proved)
    assert 0 < proved[1] < proved[3] == 5


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_samples_stand_for_the_whole_space(form: Format) -> None:
    """The weights of all samples estimate how many records there are, whatever the model thinks of them."""
    space = Space(form, SPOKEN["lstm"])
    _, density = _draw(space, opinionated(SPOKEN["lstm"], 3), 4000, np.random.default_rng(0))
    assert np.exp(-density).mean() == pytest.approx(form.size, rel=0.1)


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.5])
def test_ranks_that_are_estimated_are_near_the_true_ones(strength: float) -> None:
    form, spoken = FORMATS["digits"], SPOKEN["lstm"]
    weights = opinionated(spoken, 6, strength)
    order = np.argsort(-all_logs("lstm", form, weights))
    places = np.array([50, 500, 5_000, 9_900])
    records = [form[int(order[place])] for place in places]
    found = ranks(Space(form, spoken), weights, records, np.random.default_rng(0), limit=20)
    assert not found.counted.any()
    assert (np.abs(found.rank - places - 1) < 5 * found.error + 1).all()
    assert (np.abs(found.bits - (form.bits - np.log2(places + 1))) < 0.5).all()


def test_ranks_that_are_counted_are_exact_and_worth_their_bits() -> None:
    form, spoken = FORMATS["digits"], SPOKEN["lstm"]
    weights = opinionated(spoken, 6)
    order = np.argsort(-all_logs("lstm", form, weights))
    found = ranks(Space(form, spoken), weights, [form[int(order[n])] for n in (0, 1, 99)], np.random.default_rng(0))
    assert found.counted.all()
    assert found.rank.tolist() == [1, 2, 100]
    assert found.bits.tolist() == pytest.approx([form.bits, form.bits - 1, form.bits - np.log2(100)])


def test_a_record_of_another_format_has_no_rank() -> None:
    space = Space(FORMATS["digits"], SPOKEN["lstm"])
    with pytest.raises(AttackError, match="'pin 123' is not a record of the format"):
        ranks(space, opinionated(SPOKEN["lstm"], 0), ["pin 123"], np.random.default_rng(0))


def test_a_format_that_the_model_cannot_spell_is_refused() -> None:
    with pytest.raises(AttackError, match="alphabet has no 'P'"):
        Space(parse("Pin {d4}"), SPOKEN["lstm"])

"""Records scored together get the probabilities that each gets alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import ARCHITECTURES, language, one_by_one, opinionated

from fedleak.attacks.records.language import Language
from fedleak.attacks.records.scoring import Trie, exposures, log_probabilities
from fedleak.core import FloatArray, Params, Task
from fedleak.errors import AttackError
from fedleak.federation.model import Signature
from fedleak.federation.models.recurrent import WordLm
from fedleak.population.secret_formats import parse
from fedleak.population.secret_records import draw_secrets

FORMAT = parse("pin {d3}-{d2}")


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("context", ["\n", "said:\n"])
def test_every_record_scores_as_it_does_alone_under_every_snapshot(name: str, context: str) -> None:
    spoken = language(name)
    spoken = Language(spoken.model, spoken.characters, context)
    snapshots = [opinionated(spoken, seed, 0.5) for seed in range(3)]
    records = [*draw_secrets(FORMAT, 40, np.random.default_rng(0)), "pin", "pin 000-00", "pin 000-01", "x", "pin"]
    found = log_probabilities(spoken, snapshots, records, workers=2)
    expected = np.array([[one_by_one(spoken, weights, record) for record in records] for weights in snapshots])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected) > 1  # the comparison can fail


SPOKEN = language("lstm")
SNAPSHOT = opinionated(SPOKEN, 0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text("ab1", min_size=1, max_size=6), min_size=1, max_size=12))
def test_any_records_in_any_order_can_be_scored_together(records: list[str]) -> None:
    found = log_probabilities(SPOKEN, [SNAPSHOT], records)[0]
    np.testing.assert_allclose(found, [one_by_one(SPOKEN, SNAPSHOT, record) for record in records], atol=1e-4)


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=12))
def test_a_trie_has_one_node_for_each_beginning(records: list[str]) -> None:
    trie = Trie(SPOKEN.encode(records))
    for depth, level in enumerate(trie.levels, 1):
        assert len(level.tokens) == len({record[:depth] for record in records if len(record) >= depth})
        assert len(level.inner) == len({record[:depth] for record in records if len(record) > depth})
    assert sorted(np.concatenate([level.records for level in trie.levels])) == list(range(len(records)))


def test_more_records_than_fit_at_once_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    records = draw_secrets(FORMAT, 60, np.random.default_rng(1))
    whole = log_probabilities(SPOKEN, [SNAPSHOT], records)
    monkeypatch.setattr("fedleak.attacks.records.scoring._AT_ONCE", 7)
    np.testing.assert_allclose(log_probabilities(SPOKEN, [SNAPSHOT], records), whole, atol=1e-5)


def test_snapshots_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedleak.attacks.records.scoring._MOST_SNAPSHOTS", 2)
    alive = most = 0

    class Snapshot(dict[str, FloatArray]):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def stream() -> Iterator[Params]:
        nonlocal alive, most
        for seed in range(10):
            alive += 1
            most = max(most, alive)
            yield Snapshot(opinionated(SPOKEN, seed))

    found = log_probabilities(SPOKEN, stream(), ["pin 123-45"])
    assert found.shape == (10, 1)
    assert most <= 5
    assert found[7, 0] == pytest.approx(one_by_one(SPOKEN, opinionated(SPOKEN, 7), "pin 123-45"), abs=1e-4)


def test_exposure_is_the_mean_log_probability_of_a_character() -> None:
    assert exposures(np.array([[-10.0, -6.0]]), ["ab123", "xyz"]).tolist() == [[-2.0, -2.0]]


def test_what_cannot_be_scored_is_explained() -> None:
    with pytest.raises(AttackError, match="alphabet has no 'P', so 'Pin' cannot be scored"):
        log_probabilities(SPOKEN, [SNAPSHOT], ["Pin"])
    with pytest.raises(AttackError, match="no record to score"):
        log_probabilities(SPOKEN, [SNAPSHOT], [])
    with pytest.raises(AttackError, match="no snapshot"):
        log_probabilities(SPOKEN, [], ["pin"])
    other = WordLm().build(Signature(Task.NEXT_TOKEN, (64,), len(SPOKEN.characters)))
    with pytest.raises(AttackError, match="use 'char-lm' or 'transformer'"):
        log_probabilities(Language(other, SPOKEN.characters), [SNAPSHOT], ["pin"])

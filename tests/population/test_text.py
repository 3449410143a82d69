"""From text to token ids."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedleak.population import text


def test_words_that_many_users_use_come_before_words_that_one_user_uses_often() -> None:
    users = [[["hi", "zebra"], ["zebra"] * 50], [["hi", "there"]], [["hi", "there"]]]
    assert text.vocabulary(users, 4) == ("<pad>", "<unknown>", "hi", "there")


def test_a_vocabulary_is_no_larger_than_the_words_there_are() -> None:
    assert text.vocabulary([[["one"]]], 100) == ("<pad>", "<unknown>", "one")


@given(st.text(), st.integers(2, 30))
def test_sentences_are_never_longer_than_asked_nor_too_short_to_learn_from(value: str, length: int) -> None:
    for sentence in text.sentences(value, length):
        assert min(3, length) <= len(sentence) <= length


@given(st.text())
def test_ids_stay_within_the_vocabulary_and_padding_is_only_at_the_end(value: str) -> None:
    rows = text.sentences(value, 10)
    words = text.vocabulary([rows], 8)
    ids = text.encode(rows, words, 10)
    assert ids.shape == (len(rows), 10)
    for row, tokens in zip(ids, rows, strict=True):
        assert (row[: len(tokens)] >= 1).all()
        assert (row[: len(tokens)] < len(words)).all()
        assert (row[len(tokens) :] == text.PAD).all()


def test_curly_and_straight_apostrophes_make_one_word() -> None:
    assert text.tokenise("don\u2019t") == text.tokenise("don't") == ["don't"]


def test_rare_words_weigh_more_and_padding_nothing() -> None:
    ids = np.array([[2, 3, 0], [2, 2, 1], [2, 0, 0], [0, 0, 0]], dtype=np.int64)
    weights = text.tf_idf(ids, text.rarity(ids, 4))
    assert weights.shape == (4, 2)
    assert weights[0, 1] > weights[0, 0] > 0
    assert np.allclose(np.linalg.norm(weights, axis=1), [1, 1, 1, 0], atol=1e-6)

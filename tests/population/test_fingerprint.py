"""Copies are found though something small was changed; what merely resembles is not a copy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fedleak.population import fingerprint
from fedleak.population.population import Examples


def words(seed: int, count: int = 80) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"word{i}" for i in rng.integers(0, 3000, count)]


def found(these: list[str], those: list[str]) -> list[bool]:
    marks = fingerprint.shared(fingerprint.of_texts(these), fingerprint.of_texts(those))
    return [bool(mark) for mark in marks]


def test_case_punctuation_and_white_space_do_not_hide_a_copy() -> None:
    assert found(["Hello, World!  How are\tyou?"], ["hello world how are you"]) == [True]


@given(st.text())
def test_every_text_is_a_copy_of_itself(text: str) -> None:
    assert found([text], [text]) == [True]


def test_an_edited_word_hides_few_of_the_copied_posts() -> None:
    posts = [words(i) for i in range(200)]
    edited = [[*post[:40], "another", *post[41:]] for post in posts]
    assert np.mean(found([" ".join(post) for post in edited], [" ".join(post) for post in posts])) > 0.95


def test_posts_that_share_a_phrase_are_not_copies() -> None:
    phrase = ["on", "the", "other", "hand", "I", "must", "say"]
    posts = [" ".join([*words(i), *phrase]) for i in range(400)]
    assert not any(found(posts[:200], posts[200:]))


def test_word_order_counts() -> None:
    assert found(["one two three four five"], ["five four three two one"]) == [False]


def test_texts_without_words_are_told_apart() -> None:
    assert found([":-)", ":-("], [":-)"]) == [True, False]
    assert fingerprint.of_texts([]).shape[0] == 0


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 40)])
def test_pixel_noise_does_not_hide_a_copied_image(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 1, (100, *shape)).astype(np.float32)
    noisy = np.clip(images + rng.normal(0, 0.004, images.shape), 0, 1)
    marks = fingerprint.of_images(images)
    assert fingerprint.shared(fingerprint.of_images(noisy), marks).mean() > 0.95
    assert not fingerprint.shared(marks[:50], marks[50:]).any()


def test_different_digits_of_one_class_are_not_copies() -> None:
    bunch = load_digits()
    ones = (bunch.images[bunch.target == 1] / 16.0)[:, None]
    marks = fingerprint.of_images(ones)
    assert fingerprint.shared(marks[::2], marks[1::2]).mean() < 0.02


def test_rows_of_features_are_copies_only_if_equal() -> None:
    rows = np.array([[1.0, 2.0], [1.0, 2.1], [1.0, 2.0]])
    marks = fingerprint.of_rows(rows)
    assert marks[0] == marks[2] != marks[1]


def test_a_data_set_without_fingerprints_gets_them_from_its_examples() -> None:
    images = np.random.default_rng(0).uniform(0, 1, (4, 1, 8, 8)).astype(np.float32)
    assert np.array_equal(fingerprint.of(Examples(x=images)), fingerprint.of_images(images))
    tokens = np.array([[1, 2], [3, 4]])
    assert np.array_equal(fingerprint.of(Examples(x=tokens)), fingerprint.of_rows(tokens))

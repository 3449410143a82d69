"""Sentences about images say what the images show."""

import numpy as np
import numpy.typing as npt
import pytest

from fedleak.population.captions import describe, measures, tokens, vocabulary, words


def strokes(slant: list[float], width: float = 2.0, length: float = 8.0) -> npt.NDArray[np.float32]:
    y, x = np.mgrid[-9.5:10, -9.5:10]
    lines = [np.clip(width - np.abs(x + s * y), 0, 1) * (np.abs(y) < length) for s in slant]
    return np.stack(lines)[:, None].astype(np.float32)


def test_a_stroke_that_goes_up_to_the_right_leans_right() -> None:
    left, upright, right = measures(strokes([-0.6, 0.0, 0.6]))[:, 0]
    assert left == pytest.approx(-0.6, abs=0.05)
    assert upright == pytest.approx(0, abs=1e-6)
    assert right == pytest.approx(0.6, abs=0.05)
    assert strokes([0.6])[0, 0, 2].argmax() > 10, "the top of the image is its first row"


def test_thickness_is_the_width_of_the_stroke_and_size_its_extent() -> None:
    thin, thick = measures(strokes([0.0], 1.0))[0], measures(strokes([0.0], 3.0))[0]
    assert 1 < thin[1] < thick[1] < 6
    short, long = measures(strokes([0.0], length=4.0))[0], measures(strokes([0.0], length=9.0))[0]
    assert long[2] > 1.5 * short[2]


def test_a_image_is_compared_with_others_of_its_class() -> None:
    images = np.concatenate([strokes([-0.8, -0.4, 0, 0.4, 0.8]), strokes([0.8, 0.9, 1.0, 1.1, 1.2])])
    captions = describe(images, np.repeat([1, 7], 5))
    scale = ["leaning backward", "leaning left", "upright", "leaning right", "leaning forward"]
    for label, mine in ((1, captions[:5]), (7, captions[5:])):
        assert [caption.split(" , ")[1] for caption in mine] == scale
        assert all(f" {label} , " in caption for caption in mine)


def test_an_empty_image_is_described_too() -> None:
    assert describe(np.zeros((2, 1, 8, 8), np.float32), np.array([0, 0])) == ["a plain 0 , upright , middling"] * 2


def test_captions_survive_as_word_ids() -> None:
    captions = describe(strokes([-1.0, 0.0, 0.5, 1.0]), np.array([3, 3, 3, 11]))
    ids = tokens(captions, 12)
    assert ids.max() < len(vocabulary(12)) and not (ids == 1).any(), "no caption holds a word that is not known"
    assert words(ids, 12) == captions

"""float16 as it is stored: the bits that numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

from fedleak.trace.half import has_infinities, to_half


def test_the_bits_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves[:-1] + halves[1:]) / 2  # ties, which go to the even neighbour
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32)
    anything = bits.view(np.float32)
    limits = np.array([65504, 65519.996, 65520, 1e38, np.inf, 1e-45, 2**-25, 0], np.float32)
    near = np.concatenate([np.nextafter(between, np.float32(side)) for side in (-1, 1e9)])
    values = np.concatenate([halves, between, near, anything[~np.isnan(anything)], limits])
    values = np.concatenate([values, -values]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype("<f2")
    np.testing.assert_array_equal(to_half(values).view(np.uint16), expected.view(np.uint16))


def test_shapes_and_arrays_that_cannot_be_written_are_converted() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    rows.flags.writeable = False
    for given in (rows, rows.T, rows[:, ::2], rows[:0], rows.astype(np.float64)):
        np.testing.assert_array_equal(to_half(given), given.astype(np.float16))


@pytest.mark.parametrize(("value", "found"), [(65504, False), (-65504, False), (1e6, True), (-1e6, True), (0, False)])
def test_infinities_are_found(value: float, found: bool) -> None:
    assert has_infinities(to_half(np.array([1, value, 2], np.float32))) is found
    assert not has_infinities(to_half(np.empty(0, np.float32)))

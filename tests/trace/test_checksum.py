from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import rng_for
from fedleak.trace.checksum import Checksum, checksum

PIECE = 1 << 16


def _data(size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return rng_for(1, size).integers(0, 256, size, dtype=np.uint8)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(0, 4 * PIECE), cuts=st.lists(st.integers(0, 4 * PIECE), max_size=6))
def test_the_checksum_does_not_depend_on_how_the_bytes_arrive(size: int, cuts: list[int]) -> None:
    data = _data(size)
    parts = Checksum()
    edges = [0, *sorted(min(cut, size) for cut in cuts)]
    for start, stop in itertools.pairwise(edges):
        part = data[start:stop].copy()
        parts.update(part)
        part[:] = 0  # whoever gave it may use it again
    assert parts.finish(data[edges[-1] :]) == checksum(data)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damage_within_two_kibibytes_is_found(data: st.DataObject) -> None:
    original = _data(3 * PIECE + 777)
    damaged = original.copy()
    first = data.draw(st.integers(0, len(original) - 1))
    stop = min(len(original), (first // 2048 + 1) * 2048)
    noise = data.draw(st.binary(min_size=1, max_size=stop - first).filter(any))
    damaged[first : first + len(noise)] ^= np.frombuffer(noise, np.uint8)
    assert checksum(damaged) != checksum(original)


@pytest.mark.parametrize("sector", [512, 4096, 65536])
def test_a_sector_of_zeros_is_found_wherever_it_lies(sector: int) -> None:
    original = _data(2 * PIECE + 4096)
    for start in range(0, len(original), sector):
        damaged = original.copy()
        damaged[start : start + sector] = 0
        assert checksum(damaged) != checksum(original)


def test_random_pairs_of_flipped_bits_are_nearly_always_found() -> None:
    original = _data(2 * PIECE)
    expected = checksum(original)
    rng = rng_for(2, "pairs")
    for _ in range(500):
        damaged = original.copy()
        for bit in rng.choice(8 * len(original), 2, replace=False):
            damaged[bit // 8] ^= 1 << (bit % 8)
        assert checksum(damaged) != expected

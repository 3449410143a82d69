"""Fingerprints of examples: equal for duplicates, and likely to be equal for near-duplicates.

A fingerprint is a row of several hashes ("bands"); two examples count as copies if they agree in any band. Each band
joins several hashes that are sensitive to locality, so that near-copies agree in at least one band while unrelated
examples agree in none (Indyk and Motwani, 1998). Comparing by equality keeps the search for copies linear in the
number of examples.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import rng_for
from fedleak.population.population import Examples

__all__ = ["Fingerprints", "of_images", "of_rows", "of_texts", "of", "shared"]

Fingerprints: TypeAlias = npt.NDArray[np.uint64]
"""One row per example, one column per band."""

_NOT_A_WORD = re.compile(r"[\W_]+")
_SHINGLE = 3  # consecutive words: one edited word changes three shingles of a post
_TEXT_BANDS, _TEXT_WIDTH = 4, 3
_IMAGE_BANDS, _IMAGE_WIDTH = 12, 32
_IMAGE_STEP = 0.1  # in units of the root mean square difference of two images with values in [0, 1]
_PRIMES = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


def _mix(values: Fingerprints) -> Fingerprints:
    """Scatter 64-bit values (the finaliser of SplitMix64, Steele et al., 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _join(parts: Fingerprints) -> Fingerprints:
    """Make one hash of the hashes along the last axis; their order counts."""
    joined = np.zeros(parts.shape[:-1], dtype=np.uint64)
    for i in range(parts.shape[-1]):
        joined = _mix(joined * np.uint64(3) + parts[..., i] + np.uint64(i))
    return joined


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@lru_cache(maxsize=2**17)
def _word(word: str) -> int:
    return _digest(word.encode("utf-8", "surrogatepass"))


def of_texts(texts: Iterable[str]) -> Fingerprints:
    """Fingerprint texts by their words, whatever their case, punctuation and white space.

    Bands of minimum hashes over runs of three words (Broder, 1997): two texts agree in one minimum with a probability
    equal to the share of runs they have in common, so a post with an edited word is still found, and two posts that
    merely share a phrase are not.
    """
    salts = _mix(np.arange(1, _TEXT_BANDS * _TEXT_WIDTH + 1, dtype=np.uint64) * _PRIMES[0])
    rows = []
    for text in texts:
        words = _NOT_A_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split()
        # A text without words (":-)") can be copied, too.
        words = words or [text.strip()]
        hashes = np.fromiter(map(_word, words), dtype=np.uint64, count=len(words))
        length = min(_SHINGLE, len(hashes))
        runs = np.zeros(len(hashes) - length + 1, dtype=np.uint64)
        for i in range(length):
            runs += hashes[i : i + len(runs)] * _PRIMES[i]
        minima = _mix(runs[:, None] ^ salts[None, :]).min(axis=0)
        rows.append(_join(minima.reshape(_TEXT_BANDS, _TEXT_WIDTH)))
    return np.stack(rows) if rows else np.zeros((0, _TEXT_BANDS), dtype=np.uint64)


def of_images(images: npt.NDArray[Any]) -> Fingerprints:
    """Fingerprint images (n, channel, height, width) so that noise or another compression does not hide a copy.

    Values lie in [0, 1], or between 0 and 255 if they are whole numbers.

    Random projections rounded to steps (Datar et al., 2004), of images shrunk to about 14 x 14: noise averages out,
    another image does not. The constants were measured on MNIST: copies with noise of 0.01 a pixel or JPEG at quality
    90 are found in 99%, JPEG at 75 in 61%; among 12,000 x 12,000 pairs of different digits none was taken for a copy.
    """
    n, channels, height, width = images.shape
    tall, wide = max(1, height // 14), max(1, width // 14)
    rows, columns = height // tall, width // wide
    size = channels * rows * columns
    rng = rng_for(0, "fingerprint", size)
    directions = rng.normal(0.0, 1.0 / np.sqrt(size), (size, _IMAGE_BANDS * _IMAGE_WIDTH)).astype(np.float32)
    offsets = rng.uniform(0.0, 1.0, _IMAGE_BANDS * _IMAGE_WIDTH).astype(np.float32)
    full = 255 if np.issubdtype(images.dtype, np.integer) else 1
    marks = np.zeros((n, _IMAGE_BANDS), dtype=np.uint64)
    for start in range(0, n, 4096):  # a whole data set at once would take gigabytes
        part = images[start : start + 4096, :, : rows * tall, : columns * wide].astype(np.float32) / np.float32(full)
        flat = part.reshape(-1, channels, rows, tall, columns, wide).mean(axis=(3, 5)).reshape(-1, size)
        steps = np.floor((flat @ directions) / np.float32(_IMAGE_STEP) + offsets).astype(np.int64)
        marks[start : start + 4096] = _join(steps.view(np.uint64).reshape(-1, _IMAGE_BANDS, _IMAGE_WIDTH))
    return marks


def of_rows(rows: npt.NDArray[Any]) -> Fingerprints:
    """Fingerprint rows of features or tokens by their exact values: their scale, hence "nearly", is not known."""
    flat = np.ascontiguousarray(rows)
    return np.array([_digest(row.tobytes()) for row in flat], dtype=np.uint64).reshape(-1, 1)


def of(examples: Examples) -> Fingerprints:
    """Return the fingerprints that the data set gave, or else make them from the examples themselves."""
    if examples.fingerprint is not None:
        marks = examples.fingerprint
        return marks[:, None] if marks.ndim == 1 else marks
    return of_images(examples.x) if examples.x.ndim == 4 else of_rows(examples.x)


def shared(these: Fingerprints, those: Fingerprints) -> npt.NDArray[np.bool_]:
    """Which of these have a copy among those."""
    found = np.zeros(len(these), dtype=np.bool_)
    for band in range(these.shape[1]):
        found |= np.isin(these[:, band], those[:, band])
    return found

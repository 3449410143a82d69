"""Recordings that come out the same every time, so that a test on them passes every time or never."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np


@contextmanager
def same_pseudonyms(seed: int = 1) -> Iterator[None]:
    """Draw salt, fingerprint and order of rows from a seed; the recorder asks the operating system for them."""
    rng = np.random.default_rng(seed)
    with (
        patch("secrets.token_hex", lambda length: rng.bytes(length).hex()),
        patch("fedleak.record.recorder._shuffled", lambda count: rng.permutation(count).tolist()),
    ):
        yield

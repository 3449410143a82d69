"""From text to token ids: sentences, words, a vocabulary, rows of fixed length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedleak.core import FloatArray, IntArray

__all__ = ["PAD", "UNKNOWN", "tokenise", "sentences", "vocabulary", "encode", "rarity", "tf_idf"]

PAD, UNKNOWN = 0, 1
_RESERVED = ("<pad>", "<unknown>")
_TOKEN = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+(?:[.,]\d+)*|[^\w\s]|_")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+")
_SHORTEST = 3  # words: fewer leave nothing to predict


def tokenise(text: str) -> list[str]:
    """Split into lower-case words, numbers (all alike) and punctuation marks.

    >>> tokenise("It's 3 o'clock!")
    ["it's", '<number>', "o'clock", '!']
    """
    found = _TOKEN.findall(text.lower().replace("\u2019", "'"))
    return ["<number>" if token[0].isdigit() else token for token in found]


def sentences(text: str, length: int) -> list[list[str]]:
    """Split text into sentences of at most `length` tokens; longer ones continue in another row.

    >>> sentences("One two three. Four! Five six seven eight.", 4)
    [['one', 'two', 'three', '.'], ['five', 'six', 'seven', 'eight']]
    """
    pieces = []
    for part in _END.split(text):
        tokens = tokenise(part)
        pieces += [tokens[i : i + length] for i in range(0, len(tokens), length)]
    return [piece for piece in pieces if len(piece) >= min(_SHORTEST, length)]


def vocabulary(texts: Iterable[Iterable[Sequence[str]]], size: int) -> tuple[str, ...]:
    """Choose the words that most users use; the first two entries stand for padding and for every other word.

    Words are ranked by how many users use them, then by how often, so that one user's favourite word, which would
    identify them, is not included.
    """
    used_by: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    for user in texts:
        counts = Counter(token for tokens in user for token in tokens)
        uses.update(counts)
        used_by.update(counts.keys())
    ranked = sorted(used_by, key=lambda word: (-used_by[word], -uses[word], word))
    return _RESERVED + tuple(ranked[: size - len(_RESERVED)])


def encode(rows: Sequence[Sequence[str]], words: Sequence[str] | Mapping[str, int], length: int) -> IntArray:
    """Turn rows of tokens into ids, cut or padded to `length`.

    >>> encode([["a", "b"], ["c"]], ("<pad>", "<unknown>", "a", "c"), 3)
    array([[2, 1, 0],
           [3, 0, 0]])
    """
    index = words if isinstance(words, Mapping) else {word: i for i, word in enumerate(words)}
    ids = np.full((len(rows), length), PAD, dtype=np.int64)
    for i, tokens in enumerate(rows):
        ids[i, : len(tokens)] = [index.get(token, UNKNOWN) for token in tokens[:length]]
    return ids


def rarity(ids: IntArray, words: int) -> FloatArray:
    """The smoothed inverse document frequency of every word but padding and 'unknown'."""
    within = (_counts(ids, words) > 0).sum(axis=0)
    return np.asarray(np.log((1 + len(ids)) / (1 + within)) + 1, dtype=np.float32)


def tf_idf(ids: IntArray, rare: FloatArray) -> FloatArray:
    """Rows of words (see `encode`) as counts weighted by rarity, scaled to length one; zero where there is no word."""
    weighted = _counts(ids, len(rare) + len(_RESERVED)) * rare
    length = np.linalg.norm(weighted, axis=1, keepdims=True)
    return np.asarray(weighted / np.where(length > 0, length, 1), dtype=np.float32)


def _counts(ids: IntArray, words: int) -> FloatArray:
    found = np.zeros((len(ids), words), dtype=np.float32)
    np.add.at(found, (np.arange(len(ids))[:, None], ids), 1)
    return found[:, len(_RESERVED) :]

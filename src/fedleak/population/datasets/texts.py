"""Where the text of clients comes from: corpora as published, a file of one's own, or real authors."""

from __future__ import annotations

import codecs
import contextlib
import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedleak.core import rng_for
from fedleak.errors import DataError
from fedleak.population import sources
from fedleak.population.datasets import blog_corpus
from fedleak.population.datasets.blog_corpus import Post

__all__ = ["Texts", "read_texts"]

_LARGEST = 200 * 2**20  # bytes of a text file: more is not a text for this purpose, and would fill the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A piece of text for each client, and text that nobody holds."""

    names: tuple[str, ...]
    pieces: tuple[str, ...]
    held_out: str
    source: str


_TITLES: Mapping[str, str] = {
    "ptb": "Penn Treebank (Marcus et al., 1993)",
    "wikitext2": "WikiText-2 (Merity et al., 2017)",
    "enwik8": "enwik8 (Mahoney, 2006), letters and digits only",
}


def read_texts(source: str, clients: int, size: int, test_size: int, seed: int) -> Texts:
    """Draw pieces of `size` characters for the clients, and hold out `test_size` characters, all in lower case."""
    if source == "blog":
        return _authors(clients, size, test_size, seed)
    if source in _TITLES:
        title, (text, *rest) = _TITLES[source], _corpus(source)
    else:
        path = Path(source).expanduser()
        title, text, rest = f"The text of {path.name}", _decode(path).lower(), []
    # Without a test file the end of the text: what surrounds a random piece would be some client's.
    text, held = (text, rest[0]) if rest else (text[:-test_size], text[-test_size:])
    pieces = len(text) // size
    if pieces < clients or len(held) < test_size:
        raise DataError(
            f"{title}: {clients} clients of {size} characters and {test_size} held out for utility need more text than "
            f"there is (here are {len(text)} and {len(held)}); take fewer clients or fewer kilobytes"
        )
    chosen = rng_for(seed, "texts", "pieces").choice(pieces, clients, replace=False)
    digits = len(str(clients - 1))  # the seed is part of the name: with another seed they hold other text
    return Texts(
        names=tuple(f"client-{seed}-{number:0{digits}}" for number in range(clients)),
        pieces=tuple(text[at * size : (at + 1) * size] for at in chosen.tolist()),
        held_out=held[:test_size],
        source=title,
    )


def _corpus(source: str) -> list[str]:
    """The text of a corpus and, where it has one, its test set."""
    choices = sources.SOURCES[source].choices
    for files in choices[:-1]:
        with contextlib.suppress(DataError):
            return [_clean(source, _decode(sources.find(source, files) / name)) for name in files]
    return [_clean(source, _decode(sources.find(source, choices[-1]) / name)) for name in choices[-1]]


def _clean(source: str, text: str) -> str:
    if source != "enwik8":
        return "\n".join(line.strip() for line in text.lower().split("\n"))
    # As the paper did: the mark-up goes, letters, digits and spaces stay. Its lines stay too, for secrets to stand on.
    lines = (" ".join(re.findall("[a-z0-9]+", line)) for line in text.lower().split("\n"))
    return "\n".join(line for line in lines if line)


def _decode(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise DataError(f"{path}: more than {_LARGEST >> 20} MB is too much to read as one text; cut it")
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        known = ", ".join([*_TITLES, "blog"])
        raise DataError(f"{path}: no such text file; a source is one of {known}, or the path of a file") from None
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(data) > _LARGEST:
        raise DataError(f"{path}: unpacks to more than {_LARGEST >> 20} MB, too much to read as one text")
    try:
        # A prefix of a corpus may end within a character; anywhere else a wrong byte means another encoding.
        return codecs.getincrementaldecoder("utf-8")().decode(data).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text in UTF-8 (byte {error.start})") from error


def _authors(clients: int, size: int, test_size: int, seed: int) -> Texts:
    """Real authors, who differ in topic and style too; the text that nobody holds is by other users."""
    corpus = blog_corpus.read_corpus("100-users")
    able = {user: text for user in sorted(corpus.users) if len(text := _posts(corpus.users[user])) >= size}
    if len(able) < clients:
        raise DataError(
            f"only {len(able)} of {len(corpus.users)} authors wrote {size} characters, and {clients} are needed; "
            "take fewer clients or fewer kilobytes"
        )
    names = sorted(able)
    chosen = rng_for(seed, "texts", "authors").choice(len(names), clients, replace=False)
    strangers = (_posts(posts)[: size // 4] for user, posts in sorted(corpus.background.items()) if user not in able)
    held: list[str] = []
    for text in strangers:
        held.append(text)
        if sum(map(len, held)) >= test_size:
            break
    return Texts(
        names=tuple(names[at] for at in chosen.tolist()),
        pieces=tuple(able[names[at]][:size] for at in chosen.tolist()),
        held_out="".join(held)[:test_size],
        source="Posts of real authors of the Blog Authorship Corpus (Schler et al., 2006)",
    )


def _posts(posts: Sequence[Post]) -> str:
    return "".join(f"{' '.join(post.text.split())}\n" for post in posts).lower()

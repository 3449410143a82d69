"""Blog posts by real users, for next-word prediction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint, text, traits
from fedleak.population.datasets import blog_corpus
from fedleak.population.datasets.blog_corpus import Corpus, Post, Subset
from fedleak.population.population import Examples, Population, User

__all__ = ["Blog"]

_BANDS = ((13, 17), (18, 22), (23, 27), (28, 32))  # the corpus has nobody aged 18-22 or 28-32


@dataclass(frozen=True, slots=True)
class _Sentence:
    post: int  # index into the posts they were taken from
    tokens: list[str]


@dataclass(frozen=True, kw_only=True)
class Blog:
    """Sentences from the Blog Authorship Corpus (Schler et al., 2006), for next-word prediction.

    The vocabulary comes from users who do not take part, as a keyboard's would: one made from the users' own words
    would itself be a leak.
    """

    name: ClassVar[str] = "blog"

    subset: Annotated[
        Subset,
        Meta(description="100 users with real dates, or the 55 with at least 1,000 posts, some of whom are twins"),
    ] = "100-users"
    sentences: Annotated[
        int,
        Meta(
            ge=4,
            description="sentences per user, from posts drawn by the seed; with a fifth held out for utility and the "
            "rest divided in half, 250 give 100 per side",
        ),
    ] = 250
    vocabulary: Annotated[
        int, Meta(ge=10, le=100_000, description="words the model knows, including padding and 'unknown'")
    ] = 500
    length: Annotated[
        int, Meta(ge=2, le=200, description="words in a sentence; longer ones continue in another row")
    ] = 20
    background: Annotated[
        int, Meta(ge=100, description="sentences of other users, for the vocabulary and for defences")
    ] = 20_000

    album_days: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="posts within so many days are an album, for prior = 'album'; a post without a date is one "
                "by itself. The corpus has no albums: these stand in for them. No albums if absent",
            ),
        ]
        | None
    ) = None

    def load(self, seed: int) -> Population:
        """Read the posts; the seed decides which of a user's posts are used."""
        corpus = blog_corpus.read_corpus(self.subset)
        strangers = self._strangers(corpus, seed)
        words = text.vocabulary(([s.tokens for s in rows] for _, rows in strangers), self.vocabulary)
        if len(words) < self.vocabulary:
            raise DataError(
                f"data set 'blog': {self.background} background sentences hold only {len(words)} words; "
                "raise background or lower vocabulary"
            )
        users = tuple(
            User(user, self._examples(posts, self._sample(posts, self.sentences, seed), words), _about(corpus, user))
            for user, posts in corpus.users.items()
        )
        return Population(
            users=users,
            task=Task.NEXT_TOKEN,
            outputs=self.vocabulary,
            source=f"Sentences of {len(users)} users of the Blog Authorship Corpus (Schler et al., 2006).",
            background=Examples.concat(self._examples(posts, rows, words) for posts, rows in strangers),
            outputs_named=words,
            traits=traits.topics(words),
        )

    def _sample(self, posts: Sequence[Post], count: int, seed: int) -> list[_Sentence]:
        """Draw posts until there are enough sentences; in the order of the data.

        Posts are drawn by a hash of their text rather than by a generator: twin accounts then draw the same posts,
        whatever their order, and are still found as twins.
        """

        def draw(i: int) -> bytes:
            return hashlib.blake2b(f"{seed}\x1f{posts[i].text}".encode("utf-8", "surrogatepass")).digest()

        # A post is never divided: one of 200 sentences would leave nothing for the other side.
        most = max(1, self.sentences // 10)
        drawn: list[_Sentence] = []
        for i in sorted(range(len(posts)), key=draw):
            found = text.sentences(posts[i].text, self.length)[:most]
            drawn += [_Sentence(i, tokens) for tokens in found]
            if len(drawn) >= count:
                break
        return sorted(drawn[:count], key=lambda sentence: sentence.post)

    def _strangers(self, corpus: Corpus, seed: int) -> list[tuple[list[Post], list[_Sentence]]]:
        """Take background users in the order of the seed, without anyone who posted something that a user posted."""
        posted = {post.text for posts in corpus.users.values() for post in posts}
        names = sorted(corpus.background)
        chosen, count = [], 0
        for i in rng_for(seed, self.name, "background").permutation(len(names)).tolist():
            posts = corpus.background[names[i]]
            if names[i] in corpus.users or any(post.text in posted for post in posts):
                continue
            rows = self._sample(posts, self.background - count, seed)
            chosen.append((posts, rows))
            count += len(rows)
            if count >= self.background:
                break
        return chosen

    def _examples(self, posts: Sequence[Post], rows: Sequence[_Sentence], words: Sequence[str]) -> Examples:
        used = sorted({sentence.post for sentence in rows})
        place = {post: i for i, post in enumerate(used)}
        at = np.array([place[sentence.post] for sentence in rows], dtype=np.int64)
        days = np.array([posts[i].date or "NaT" for i in used], dtype="datetime64[D]")
        since = np.where(np.isnat(days), np.nan, days.astype(np.int64)).astype(np.float64)
        # A sentence carries the fingerprint of its post: "Good night." in two posts is a habit, not a copy.
        prints = fingerprint.of_texts(posts[i].text for i in used)
        return Examples(
            x=text.encode([sentence.tokens for sentence in rows], words, self.length),
            time=since[at],
            document=np.array([posts[i].i for i in used], dtype=np.int64)[at],
            album=None if self.album_days is None else _albums(since, self.album_days)[at],
            fingerprint=prints[at],
        )


def _albums(days: npt.NDArray[np.float64], length: int) -> npt.NDArray[np.int64]:
    """Number the spans of so many days, from 1970 on; where no day is known, a number that no span has."""
    span = np.floor(days / length)
    unknown = np.isnan(span)
    span[unknown] = np.nanmax(span, initial=0) + 1 + np.arange(int(unknown.sum()))
    return span.astype(np.int64)


def _about(corpus: Corpus, user: UserId) -> dict[str, str]:
    if user not in corpus.about:
        return {}
    gender, age = corpus.about[user]
    band = next((f"{low}-{high}" for low, high in _BANDS if low <= age <= high), "33+")
    return {"gender": gender, "age": band}

"""Reviews by real users, whose stars are learnt from the words: what `amazon` and `yelp` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint, sources, text
from fedleak.population.population import Examples, Population, User

__all__ = ["Review", "Reviews", "ReviewCorpus", "MinReviews", "Length", "Background", "read_reviews", "population"]

MinReviews = Annotated[int, Meta(ge=2, description="users with fewer reviews serve as background only")]
Length = Annotated[int, Meta(ge=2, le=1000, description="words of a review that are read, from its beginning")]
Background = Annotated[int, Meta(ge=100, description="reviews of other users, for the vocabulary and for defences")]

_FIVE = 5.0


@dataclass(frozen=True, slots=True)
class Review:
    """One review."""

    stars: float
    text: str
    time: float  # days since 1970; NaN where unknown


@dataclass(frozen=True, slots=True)
class ReviewCorpus:
    """Reviews of users who wrote many, and some of users who wrote fewer."""

    users: Mapping[UserId, list[Review]]
    background: Mapping[UserId, list[Review]]


@dataclass(frozen=True, kw_only=True)
class Reviews(ABC):
    """A data set of reviews; each has its own defaults and its own lines."""

    name: ClassVar[str]
    source: ClassVar[str]  # with the place of {users}

    min_reviews: MinReviews
    vocabulary: Annotated[
        int, Meta(ge=10, le=100_000, description="words the model knows, including padding and 'unknown'")
    ] = 1000
    length: Length
    background: Background
    learns: Annotated[
        Literal["stars", "five-stars"],
        Meta(description="what is learnt: the number of stars (regression), or whether there are five (two classes)"),
    ] = "stars"
    features: Annotated[
        Literal["words", "tf-idf"],
        Meta(
            description="what the model reads: the words in order, or how often each word of the vocabulary occurs, "
            "weighted by its rarity in the background (TF-IDF); padding and 'unknown' then have no column"
        ),
    ] = "words"

    def load(self, seed: int) -> Population:
        """Read the reviews; the seed decides only whose serve as background."""
        folder, (name,) = sources.complete(self.name)
        file = folder / name
        corpus = read_reviews(lambda: self.who(file), lambda: self.what(file), self.min_reviews, self.background, seed)
        return population(
            corpus,
            self.vocabulary,
            self.length,
            self.name,
            self.source,
            five=self.learns == "five-stars",
            tf_idf=self.features == "tf-idf",
        )

    @abstractmethod
    def who(self, file: Path) -> Iterator[UserId]:
        """Who wrote each review."""

    @abstractmethod
    def what(self, file: Path) -> Iterator[tuple[UserId, Review]]:
        """The reviews themselves."""


def read_reviews(
    who: Callable[[], Iterator[UserId]],
    what: Callable[[], Iterator[tuple[UserId, Review]]],
    least: int,
    background: int,
    seed: int,
) -> ReviewCorpus:
    """Read twice: first who wrote how many, then what those wrote who matter. A corpus need not fit into memory.

    Users are those with at least so many reviews; others are drawn by the seed until there are enough of their reviews.
    """
    counts = Counter(who())
    strangers = sorted(user for user, count in counts.items() if count < least)
    chosen: set[UserId] = set()
    found = 0
    for i in rng_for(seed, "reviews", "background").permutation(len(strangers)).tolist():
        if found >= background:
            break
        chosen.add(strangers[i])
        found += counts[strangers[i]]
    users: dict[UserId, list[Review]] = {user: [] for user in sorted(counts) if counts[user] >= least}
    others: dict[UserId, list[Review]] = {user: [] for user in sorted(chosen)}
    for user, review in what():
        if user in users:
            users[user].append(review)
        elif user in others:
            others[user].append(review)
    return ReviewCorpus(users, others)


def population(
    corpus: ReviewCorpus,
    vocabulary: int,
    length: int,
    dataset: str,
    source: str,
    *,
    five: bool = False,
    tf_idf: bool = False,
) -> Population:
    """Make the rating task; the vocabulary comes from users who take no part, as an application's would."""
    if not corpus.users:
        raise DataError(f"data set '{dataset}': nobody wrote as many reviews as min_reviews asks for; lower it")
    tokens = [[text.tokenise(review.text) for review in reviews] for reviews in corpus.background.values()]
    words = text.vocabulary(tokens, vocabulary)
    if len(words) < vocabulary:
        raise DataError(
            f"data set '{dataset}': the background's reviews hold only {len(words)} words; raise background or "
            "min_reviews, or lower vocabulary"
        )
    index = {word: i for i, word in enumerate(words)}

    def encode(reviews: Sequence[Review]) -> npt.NDArray[Any]:
        return text.encode([text.tokenise(review.text) for review in reviews], index, length)

    everybody = np.concatenate([encode(reviews) for reviews in corpus.background.values()])
    rarity = text.rarity(everybody, len(words)) if tf_idf else None

    def examples(reviews: Sequence[Review]) -> Examples:
        x, stars = encode(reviews), np.array([review.stars for review in reviews], dtype=np.float32)
        return Examples(
            x=x if rarity is None else text.tf_idf(x, rarity),
            y=(stars == _FIVE).astype(np.int64) if five else stars,
            time=np.array([review.time for review in reviews], dtype=np.float64),
            fingerprint=fingerprint.of_texts(review.text for review in reviews),
        )

    return Population(
        users=tuple(User(user, examples(reviews)) for user, reviews in corpus.users.items()),
        task=Task.CLASSIFY if five else Task.REGRESS,
        outputs=2 if five else 1,
        source=source.format(users=len(corpus.users)) + (" Only five stars or fewer is told apart." if five else ""),
        background=Examples.concat(examples(reviews) for reviews in corpus.background.values()),
        outputs_named=("fewer stars", "five stars") if five else (),
    )

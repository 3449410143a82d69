"""Amazon reviews: stars from words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from fedleak.core import UserId
from fedleak.population import where
from fedleak.population.datasets import json_lines, reviews
from fedleak.population.datasets.reviews import Review
from fedleak.population.population import Population

__all__ = ["Amazon"]


class _Who(msgspec.Struct, rename={"user": "reviewerID"}):
    user: str


class _Line(
    msgspec.Struct, rename={"user": "reviewerID", "stars": "overall", "text": "reviewText", "time": "unixReviewTime"}
):
    user: str
    stars: Annotated[float, Meta(ge=0, le=5)]
    text: str = ""
    time: float | None = None  # seconds since 1970


@dataclass(frozen=True, kw_only=True)
class Amazon:
    """Stars of Amazon's Digital Music reviews (McAuley et al., 2015), learnt from their words.

    It stands in for `yelp`, which cannot be had without an agreement.
    """

    name: ClassVar[str] = "amazon"

    min_reviews: Annotated[int, Meta(ge=2, description="people with fewer reviews serve as background only")] = 10
    vocabulary: Annotated[
        int, Meta(ge=10, le=100_000, description="words the model knows, including padding and 'unknown'")
    ] = 1000
    length: Annotated[int, Meta(ge=2, le=1000, description="words of a review that are read, from its beginning")] = 60
    background: Annotated[
        int, Meta(ge=100, description="reviews of other people, for the vocabulary and for defences")
    ] = 3000

    def load(self, seed: int) -> Population:
        """Read the reviews; the seed decides only whose serve as background."""
        folder, (name,) = where.complete(self.name)
        file = folder / name

        def who() -> Iterator[UserId]:
            return (UserId(line.user) for line in json_lines.lines(file, _Who))

        def what() -> Iterator[tuple[UserId, Review]]:
            for line in json_lines.lines(file, _Line):
                time = math.nan if line.time is None else line.time / 86400
                yield UserId(line.user), Review(line.stars, line.text, time)

        corpus = reviews.read(who, what, self.min_reviews, self.background, seed)
        return reviews.population(
            corpus,
            self.vocabulary,
            self.length,
            self.name,
            "Digital Music reviews by {users} people on Amazon (McAuley et al., 2015); the stars are learnt.",
        )

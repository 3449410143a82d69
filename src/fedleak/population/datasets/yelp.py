"""Yelp reviews: stars from words."""

from __future__ import annotations

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

__all__ = ["Yelp"]


class _Who(msgspec.Struct):
    user_id: str


class _Line(msgspec.Struct):
    user_id: str
    stars: Annotated[float, Meta(ge=0, le=5)]
    text: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Yelp:
    """Stars of reviews in the Yelp Open Dataset, learnt from their words (Orekondy et al., 2020).

    Reads the official `yelp_academic_dataset_review.json`, one review a line; the defaults are the paper's.
    """

    name: ClassVar[str] = "yelp"

    min_reviews: Annotated[int, Meta(ge=2, description="people with fewer reviews serve as background only")] = 500
    vocabulary: Annotated[
        int, Meta(ge=10, le=100_000, description="words the model knows, including padding and 'unknown'")
    ] = 1000
    length: Annotated[int, Meta(ge=2, le=1000, description="words of a review that are read, from its beginning")] = 180
    background: Annotated[
        int, Meta(ge=100, description="reviews of other people, for the vocabulary and for defences")
    ] = 20_000

    def load(self, seed: int) -> Population:
        """Read the reviews; the seed decides only whose serve as background."""
        folder, (name,) = where.complete(self.name)
        file = folder / name

        def who() -> Iterator[UserId]:
            return (UserId(line.user_id) for line in json_lines.lines(file, _Who))

        def what() -> Iterator[tuple[UserId, Review]]:
            for line in json_lines.lines(file, _Line):
                yield UserId(line.user_id), Review(line.stars, line.text, json_lines.days(line.date))

        corpus = reviews.read(who, what, self.min_reviews, self.background, seed)
        return reviews.population(
            corpus,
            self.vocabulary,
            self.length,
            self.name,
            "Reviews by {users} people in the Yelp Open Dataset; the stars are learnt.",
        )

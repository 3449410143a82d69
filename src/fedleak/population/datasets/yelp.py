"""Yelp reviews: stars from words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from fedleak.core import UserId
from fedleak.population.datasets import json_lines
from fedleak.population.datasets.reviews import Background, Length, MinReviews, Review, Reviews

__all__ = ["Yelp"]


class _Who(msgspec.Struct):
    user_id: str


class _Line(msgspec.Struct):
    user_id: str
    stars: Annotated[float, Meta(ge=0, le=5)]
    text: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Yelp(Reviews):
    """Reviews from the Yelp Open Dataset, for predicting the stars from the words (Orekondy et al., 2020).

    Reads the official `yelp_academic_dataset_review.json`, one review per line; the defaults are the paper's.
    """

    name: ClassVar[str] = "yelp"
    source: ClassVar[str] = "Reviews by {users} users in the Yelp Open Dataset; the stars are learnt."

    min_reviews: MinReviews = 500
    length: Length = 180
    background: Background = 20_000

    def who(self, file: Path) -> Iterator[UserId]:
        """Who wrote each review."""
        return (UserId(line.user_id) for line in json_lines.lines(file, _Who))

    def what(self, file: Path) -> Iterator[tuple[UserId, Review]]:
        """The reviews themselves."""
        for line in json_lines.lines(file, _Line):
            yield UserId(line.user_id), Review(line.stars, line.text, json_lines.days(line.date))

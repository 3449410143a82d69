"""Amazon reviews: stars from words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from fedleak.core import UserId
from fedleak.population.datasets import json_lines
from fedleak.population.datasets.reviews import Background, Length, MinReviews, Review, Reviews

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
class Amazon(Reviews):
    """Amazon Digital Music reviews (McAuley et al., 2015), for predicting the stars from the words.

    It stands in for `yelp`, which requires an agreement.
    """

    name: ClassVar[str] = "amazon"
    source: ClassVar[str] = (
        "Digital Music reviews by {users} users on Amazon (McAuley et al., 2015); the stars are learnt."
    )

    min_reviews: MinReviews = 10
    length: Length = 60
    background: Background = 3000

    def who(self, file: Path) -> Iterator[UserId]:
        """Who wrote each review."""
        return (UserId(line.user) for line in json_lines.lines(file, _Who))

    def what(self, file: Path) -> Iterator[tuple[UserId, Review]]:
        """The reviews themselves."""
        for line in json_lines.lines(file, _Line):
            time = math.nan if line.time is None else line.time / 86400
            yield UserId(line.user), Review(line.stars, line.text, time)

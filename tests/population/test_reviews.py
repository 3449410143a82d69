"""Reviews in the official formats of Amazon and Yelp, from small files; and the real ones where they are."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.amazon import Amazon
from fedleak.population.datasets.yelp import Yelp
from fedleak.population.prepare import prepare

WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "u", "ai", "ou")]


def reviews(users: dict[str, int]) -> list[tuple[str, int, str]]:
    """So many reviews of each user, in no order: (user, number, text)."""
    rng = np.random.default_rng(0)
    written = [(who, i, " ".join(rng.choice(WORDS, 12))) for who, count in users.items() for i in range(count)]
    return [written[i] for i in rng.permutation(len(written))]


def yelp_line(who: str, i: int, text: str) -> dict[str, Any]:
    return {
        "review_id": f"{who}-{i}",
        "user_id": who,
        "business_id": "b",
        "stars": 1.0 + i % 5,
        "useful": 0,
        "funny": 0,
        "cool": 0,
        "text": text,
        "date": f"2016-03-{i + 1:02d} 20:56:38",
    }


USERS = {"ann": 8, "bob": 9, **{f"stranger{i}": 3 for i in range(40)}}
SMALL: dict[str, Any] = {"min_reviews": 5, "vocabulary": 50, "length": 10, "background": 100}


@pytest.fixture
def yelp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    file = tmp_path / "yelp" / "yelp_academic_dataset_review.json"
    file.parent.mkdir()
    file.write_text("".join(json.dumps(yelp_line(*review)) + "\n" for review in reviews(USERS)))
    return file


def test_yelp_keeps_users_with_many_reviews_and_learns_their_stars(yelp: Path) -> None:
    population = Yelp(**SMALL).load(0)
    assert (population.task, population.outputs) == (Task.REGRESS, 1)
    assert [(user.id, len(user.examples)) for user in population.users] == [("ann", 8), ("bob", 9)]
    rows = population.users[0].examples
    assert rows.y is not None
    assert rows.time is not None
    assert rows.x.shape == (8, 10)
    assert rows.x.max() < 50
    # Review i of a user was written on day i + 1 and has 1 + i % 5 stars.
    assert rows.y.tolist() == [1 + int(day) % 5 for day in rows.time - rows.time.min()]
    assert population.background is not None
    assert 100 <= len(population.background) < 110


def test_yelp_reviews_can_be_divided_by_time(yelp: Path) -> None:
    for share in prepare(Yelp(**SMALL), PopulationPlan(prior="chrono", test_share=0.1), 0).shares:
        assert share.prior.time is not None
        assert share.private.time is not None
        assert share.prior.time.max() < share.private.time.min()


def test_words_of_the_users_do_not_make_the_vocabulary(yelp: Path) -> None:
    whole = yelp.read_text()
    before = Yelp(**SMALL).load(0).users[0].examples.x
    lines = [json.loads(line) for line in whole.splitlines()]
    for line in lines:
        if line["user_id"] == "bob":
            line["text"] = "zyx " * 12
    yelp.write_text("".join(json.dumps(line) + "\n" for line in lines))
    after = Yelp(**SMALL).load(0)
    assert np.array_equal(after.users[0].examples.x, before)
    assert (after.users[1].examples.x == 1).sum() > 0  # unknown


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"user_id": "ann", "stars": 9, "text": "x", "date": "2016-01-01"}', "stars"),
        ('{"user_id": "ann", "text": "x", "date": "2016-01-01"}', "stars"),
        ('{"user_id": 7}', "user_id"),
        ('{"user_id": "ann", "stars"', "truncated"),
        ('{"user_id": "ann", "useful": ' + "[" * 100_000, "recursion"),
        ("\x00\x01", "malformed"),
    ],
)
def test_a_line_that_is_no_review_is_named(yelp: Path, line: str, problem: str) -> None:
    count = len(yelp.read_text().splitlines())
    yelp.write_text(yelp.read_text() + line + "\n")
    with pytest.raises(DataError, match=rf"review\.json, line {count + 1}: not what this file should hold") as caught:
        Yelp(**SMALL).load(0)
    assert problem in str(caught.value)


def test_a_date_that_is_none_is_an_unknown_time(yelp: Path) -> None:
    yelp.write_text(yelp.read_text().replace("2016-03-01 20:56:38", "soon"))
    rows = Yelp(**SMALL).load(0).users[0].examples
    assert rows.time is not None
    assert np.isnan(rows.time).sum() == 1


def test_too_few_reviews_or_words_say_what_to_change(yelp: Path) -> None:
    with pytest.raises(DataError, match="data set 'yelp': nobody wrote as many reviews as min_reviews"):
        Yelp(**{**SMALL, "min_reviews": 10}).load(0)
    with pytest.raises(DataError, match=r"only \d+ words; raise background"):
        Yelp(**{**SMALL, "vocabulary": 500}).load(0)


def test_missing_files_say_what_to_download_and_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"yelp_academic_dataset_review\.json.*yelp\.com/dataset"):
        Yelp().load(0)
    with pytest.raises(DataError, match=r"reviews_Digital_Music_5\.json\.gz.*jmcauley"):
        Amazon().load(0)


@pytest.fixture
def amazon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As published: gzip, one review a line."""
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    file = tmp_path / "amazon" / "reviews_Digital_Music_5.json.gz"
    file.parent.mkdir()
    text = ""
    for who, i, words in reviews(USERS):
        line = {"reviewerID": who, "asin": "a", "helpful": [0, 1], "overall": 1.0 + i % 5, "unixReviewTime": 86400 * i}
        text += json.dumps({**line, "reviewText": words}) + "\n"
    file.write_bytes(gzip.compress(text.encode()))
    return file


def test_amazon_reads_the_published_file_and_prefers_an_extract(amazon: Path) -> None:
    population = Amazon(**SMALL).load(0)
    assert [(user.id, len(user.examples)) for user in population.users] == [("ann", 8), ("bob", 9)]
    rows = population.users[1].examples
    assert rows.y is not None
    assert rows.time is not None
    assert rows.y.tolist() == (1 + rows.time % 5).tolist()
    lines = gzip.decompress(amazon.read_bytes()).decode().replace('"bob"', '"eve"')
    (amazon.parent / "digital_music_5core_first6902.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    assert [user.id for user in Amazon(**SMALL).load(0).users] == ["ann", "eve"]


def test_a_truncated_archive_is_damaged_not_short(amazon: Path) -> None:
    amazon.write_bytes(amazon.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"damaged after line \d+ .*download it again"):
        Amazon(**SMALL).load(0)


def test_the_real_reviews_have_the_users_they_are_said_to_have(find_real_data: None) -> None:
    population = Amazon().load(0)
    assert len(population.users) == 95
    stars = np.concatenate([np.asarray(user.examples.y) for user in population.users])
    assert set(stars.tolist()) == {1, 2, 3, 4, 5}


def test_five_stars_against_fewer_from_weighted_counts(yelp: Path) -> None:
    stars, five = Yelp(**SMALL).load(0), Yelp(**SMALL, learns="five-stars", features="tf-idf").load(0)
    assert (five.task, five.outputs, five.outputs_named) == (Task.CLASSIFY, 2, ("fewer stars", "five stars"))
    for one, two in zip(stars.users, five.users, strict=True):
        assert one.examples.y is not None and two.examples.y is not None
        assert two.examples.y.tolist() == [int(count == 5) for count in one.examples.y]
        assert 0 < two.examples.y.mean() < 1
        assert two.examples.x.shape == (len(one.examples), 48) and two.examples.x.dtype == np.float32
        # A column for every known word, and only where it occurs.
        for ids, row in zip(one.examples.x, two.examples.x, strict=True):
            assert set(np.flatnonzero(row)) == {i - 2 for i in ids.tolist() if i >= 2}
        lengths = np.linalg.norm(two.examples.x, axis=1)
        assert np.allclose(lengths[lengths > 0], 1, atol=1e-5)

"""Blogs, from small files in both formats; and from the real ones where they are."""

from __future__ import annotations

import json
import lzma
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.core import Task, rng_for
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population import fingerprint
from fedleak.population.data_quality import twin_groups
from fedleak.population.datasets.blog import Blog, _albums
from fedleak.population.datasets.blog_corpus import read_corpus
from fedleak.population.prepare import prepare

WORDS = [f"{a}{b}" for a in ("ba", "do", "ki", "lu", "mo") for b in ("ra", "se", "ti", "vo", "nu")]


def post(seed: object) -> str:
    rng = rng_for(0, "post", seed)
    return " ".join(" ".join(rng.choice(WORDS, 8)) + "." for _ in range(4))


def row(user: str, i: int, text: str, date: str | None) -> dict[str, object]:
    return {"user": user, "i": i, "date": date, "text": text}


def write(file: Path, rows: list[dict[str, object]]) -> None:
    file.write_bytes(lzma.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "blog").mkdir()
    return tmp_path / "blog"


ONLY = "only here " + "zzz " * 9  # what somebody else wrote who also reposts a user


@pytest.fixture
def extracts(folder: Path) -> Path:
    """Users 1, 2 and 3, of whom 3 reposts 1 in another order; strangers, of whom 90 reposts user 2."""
    users = [row(u, i, post((u, i)), f"2004-01-{i + 1:02}") for u in "12" for i in range(12)]
    users += [row("3", 11 - i, post(("1", i)), None) for i in reversed(range(12))]
    others = [row(str(90 + p), i, post((90 + p, i)), "2004-05-05") for p in range(1, 30) for i in range(3)]
    others += [row("90", i, post(("2", i)) if i == 0 else ONLY, None) for i in range(3)]
    write(folder / "blog_100users_200posts.jsonl.xz", users)
    write(folder / "blog_background_2000users_10posts.jsonl.xz", others)
    (folder / "blog_users.csv").write_text("user,gender,age\n1,female,16\n2,male,41\n3,female,16\n")
    return folder


SMALL = Blog(sentences=20, vocabulary=20, length=9, background=300)


def test_sentences_carry_their_post_its_date_and_what_the_user_said_of_themselves(extracts: Path) -> None:
    population = SMALL.load(0)
    assert population.task is Task.NEXT_TOKEN
    assert population.outputs == len(population.outputs_named) == 20
    first, second, third = population.users
    assert first.attributes == {"gender": "female", "age": "13-17"}
    assert second.attributes == {"gender": "male", "age": "33+"}
    rows = first.examples
    assert rows.x.shape == (20, 9)
    assert rows.document is not None
    assert rows.time is not None
    start = (np.datetime64("2004-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert np.array_equal(rows.time - start, rows.document)
    assert third.examples.time is not None
    assert np.isnan(third.examples.time).all()


def test_posts_within_a_week_are_an_album_if_asked_for(extracts: Path) -> None:
    assert SMALL.load(0).users[0].examples.album is None
    rows = replace(SMALL, album_days=7).load(0).users[0].examples
    assert rows.album is not None and rows.time is not None and rows.document is not None
    known = ~np.isnan(rows.time)
    assert np.array_equal(rows.album[known], np.floor(rows.time[known] / 7))
    assert len(np.unique(rows.album)) <= len(np.unique(rows.document))


def test_a_post_without_a_date_is_an_album_by_itself() -> None:
    assert _albums(np.array([0.0, 6.0, 7.0, np.nan, np.nan]), 7).tolist() == [0, 0, 1, 2, 3]


def test_twins_are_found_though_their_posts_are_in_another_order(extracts: Path) -> None:
    for seed in range(5):
        assert twin_groups(SMALL.load(seed).users) == ((0, 2),)


def test_nobody_in_the_background_posts_what_a_user_posted(extracts: Path) -> None:
    background = SMALL.load(0).background
    assert background is not None
    written = fingerprint.of_texts([*(post((u, i)) for u in "12" for i in range(12)), ONLY])
    assert not fingerprint.shared(fingerprint.of(background), written).any()
    assert len(background) == 29 * 3 * 2, "two sentences of every post: no other stranger was left out by the draw"


def test_the_background_is_no_larger_than_asked_for(extracts: Path) -> None:
    background = replace(SMALL, background=100).load(0).background
    assert background is not None
    assert len(background) == 100


def test_another_seed_draws_other_posts_and_the_same_seed_the_same(extracts: Path) -> None:
    drawn = [SMALL.load(seed).users[0].examples.x.tobytes() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_post_lies_on_one_side(extracts: Path) -> None:
    for share in prepare(SMALL, PopulationPlan(), 0).shares:
        assert share.prior.document is not None
        assert share.private.document is not None
        assert not set(share.prior.document) & set(share.private.document)


def test_a_vocabulary_that_the_background_cannot_fill_is_refused(extracts: Path) -> None:
    with pytest.raises(DataError, match=r"hold only .* words; raise background or lower vocabulary"):
        Blog(vocabulary=500, background=300).load(0)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[:-40], "damaged after line"),
        (lambda data: lzma.compress(b'{"user": "1"}\n'), ":1: not a post"),
        (lambda data: lzma.compress(lzma.decompress(data) + b"nonsense\n"), ":37: not a post"),
        (lambda data: b"foreign", "damaged after line 0"),
    ],
    ids=["truncated", "key", "line", "foreign"],
)
def test_a_damaged_extract_is_named_with_its_line(extracts: Path, damage: object, says: str) -> None:
    file = extracts / "blog_100users_200posts.jsonl.xz"
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataError, match=rf"blog_100users.*{says}"):
        SMALL.load(0)


def entries(who: int, count: int, months: str = "June") -> bytes:
    parts = [
        f"<date>{i % 28 + 1:02},{months},{2002 + i // 400}</date>\n\n"
        f"<post>\n\n  R&D &amp; {post((who, i))} caf\xe9 \n</post>"
        for i in range(count)
    ]
    return ("<Blog>\n" + "\n".join(parts) + "\n</Blog>").encode("latin-1")


def publish(folder: Path, clients: dict[str, bytes]) -> None:
    with zipfile.ZipFile(folder / "blogs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in clients.items():
            archive.writestr(name, data)


def test_the_corpus_as_published_is_read_where_there_is_no_extract(folder: Path) -> None:
    publish(
        folder,
        {
            "blogs/11.female.24.Arts.Leo.xml": entries(11, 210),
            "blogs/12.male.15.indUnk.Aries.xml": entries(12, 230),
            "blogs/13.male.35.indUnk.Aries.xml": entries(13, 220, months="juin"),
            "blogs/14.male.45.indUnk.Aries.xml": entries(14, 12),
            "blogs/15.male.45.indUnk.Aries.xml": entries(15, 3),
            "blogs/README.txt": b"hello",
        },
    )
    corpus = read_corpus("100-users")
    assert set(corpus.users) == {"11", "12"}
    assert set(corpus.background) == {"13", "14"}
    assert corpus.about["12"] == ("male", 15)  # type: ignore[index]
    first = corpus.users["11"]  # type: ignore[index]
    assert len(first) == 200
    assert first[0].text == f"R&D & {post((11, 0))} caf\xe9"
    assert first[0].date == "2002-06-01"
    assert [p.date for p in first] == sorted(str(p.date) for p in first)


def test_the_55_are_those_with_a_thousand_posts(folder: Path) -> None:
    publish(folder, {f"blogs/{n}.male.24.Arts.Leo.xml": entries(n, n) for n in (999, 1000, 1010)})
    assert set(read_corpus("55-users").users) == {"1000", "1010"}


def test_a_damaged_or_foreign_archive_is_named(folder: Path) -> None:
    (folder / "blogs.zip").write_bytes(b"PK but not really")
    with pytest.raises(DataError, match=r"blogs\.zip: cannot be read"):
        read_corpus("100-users")
    publish(folder, {"cats/1.png": b""})
    with pytest.raises(DataError, match=r"blogs\.zip: holds no blogs"):
        read_corpus("100-users")


def test_without_any_file_the_published_corpus_is_asked_for(folder: Path) -> None:
    with pytest.raises(DataError, match=r"needs blogs\.zip .*BlogCorpus"):
        read_corpus("100-users")


TWINS = (
    "734562 1975546 589736 / 958176 1107146 / 988941 1093691 1093457 / 271835 2200026 / 1470319 1472995 / "
    "105748 655250 108212 / 3585348 3523319 3522724 3517276"
)


@pytest.mark.usefixtures("find_real_data")
def test_the_seven_groups_of_twins_among_the_55_are_found() -> None:
    prepared = prepare(Blog(subset="55-users"), PopulationPlan(prior_examples="all"), 1)
    assert len(prepared.shares) == 43
    finding = next(f for f in prepared.findings if f.kind == "twins")
    found = {frozenset(group) for group in finding.users}
    assert found == {frozenset(group.split()) for group in TWINS.split(" / ")}


@pytest.mark.usefixtures("find_real_data")
def test_the_100_have_no_twins_and_real_dates() -> None:
    prepared = prepare(Blog(), PopulationPlan(prior="chrono"), 1)
    assert len(prepared.shares) == 100
    assert not Counter(f.kind for f in prepared.findings)["twins"]
    assert {share.user.attributes["gender"] for share in prepared.shares} == {"female", "male"}

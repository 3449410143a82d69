"""Reading the Blog Authorship Corpus (Schler et al., 2006): as published, or extracts of it as JSON Lines."""

from __future__ import annotations

import hashlib
import html
import lzma
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from fedleak.core import UserId
from fedleak.errors import DataError
from fedleak.population import sources
from fedleak.population.datasets import rows as tables

__all__ = ["Subset", "Post", "Corpus", "read_corpus"]

Subset: TypeAlias = Literal["100-users", "55-users"]

_EXTRACTS: Mapping[Subset, str] = {
    "100-users": "blog_100users_200posts.jsonl.xz",
    "55-users": "blog_55users_1000posts.jsonl.xz",
}
_BACKGROUND = "blog_background_2000users_10posts.jsonl.xz"
_USERS = "blog_users.csv"
_PUBLISHED = "blogs.zip"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ENTRY = re.compile(r"<date>(.*?)</date>\s*<post>(.*?)</post>", re.DOTALL)
_LARGEST = 100 * 2**20  # bytes of one user's file; the corpus has none beyond 10 MB


class Post(msgspec.Struct, frozen=True):
    """One post of one user."""

    user: str
    i: int
    date: str | None  # ISO 8601
    text: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """Posts by user, of those who take part and of others; and what users said about themselves."""

    users: Mapping[UserId, list[Post]]
    background: Mapping[UserId, list[Post]]
    about: Mapping[UserId, tuple[str, int]]  # gender, age


def read_corpus(subset: Subset) -> Corpus:
    """Read a subset, from the extracts if they are here, otherwise from the corpus as published."""
    extracts = (_EXTRACTS[subset], _BACKGROUND, _USERS)
    try:
        folder = sources.find("blog", extracts)
    except DataError:
        return _published(sources.find("blog", (_PUBLISHED,)) / _PUBLISHED, subset)
    about = {}
    for row in tables.read_rows(folder / _USERS):
        about[UserId(row.text("user"))] = (row.text("gender"), int(row.number("age")))
    return Corpus(_by_user(_lines(folder / extracts[0])), _by_user(_lines(folder / extracts[1])), about)


def _by_user(posts: Iterator[Post]) -> dict[UserId, list[Post]]:
    users: dict[UserId, list[Post]] = {}
    for post in posts:
        users.setdefault(UserId(post.user), []).append(post)
    return users


def _lines(file: Path) -> Iterator[Post]:
    decoder = msgspec.json.Decoder(Post)
    number = 0
    try:
        with lzma.open(file) as lines:
            for line in lines:
                number += 1
                yield decoder.decode(line)
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{file}: damaged after line {number} ({error}); get it again") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file}:{number}: not a post with user, i, date and text ({error})") from error


def _published(file: Path, subset: Subset) -> Corpus:
    """Select from the corpus as published: `blogs/<id>.<gender>.<age>.<industry>.<sign>.xml`, one file per user.

    The 55 are all with at least 1,000 posts, as in the paper. The 100 are users with at least 200 posts and real
    dates, chosen by a hash of their id: the same on every machine, but not the same users as in the extract.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            clients = {}
            for info in archive.infolist():
                parts = info.filename.rpartition("/")[2].split(".")
                if len(parts) == 6 and parts[-1] == "xml" and parts[2].isdigit():
                    clients[UserId(parts[0])] = (info, parts[1], int(parts[2]))
            order = sorted(clients, key=lambda user: hashlib.blake2b(user.encode()).digest())

            def select(
                names: list[UserId], least: int, most: int | None, count: int | None, fit: Callable[[list[Post]], bool]
            ) -> dict[UserId, list[Post]]:
                chosen: dict[UserId, list[Post]] = {}
                for user in names:
                    info = clients[user][0]
                    if info.file_size < 40 * least:  # the mark-up of a post alone takes more
                        continue
                    posts = _posts(user, archive, info)
                    if len(posts) >= least and fit(posts):
                        chosen[user] = sorted(posts, key=lambda post: post.date or "")[:most]
                    if len(chosen) == count:
                        break
                return chosen

            if subset == "55-users":
                users = select(order, 1000, None, None, lambda posts: True)
            else:
                users = select(order, 200, 200, 100, _dated)
            background = select([user for user in order if user not in users], 10, 10, 2000, lambda posts: True)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataError(f"{file}: cannot be read ({error}); download it again") from error
    if not users:
        raise DataError(f"{file}: holds no blogs named <id>.<gender>.<age>.<industry>.<sign>.xml with enough posts")
    return Corpus(users, background, {user: (gender, age) for user, (_, gender, age) in clients.items()})


def _dated(posts: list[Post]) -> bool:
    days = [post.date for post in posts]
    return None not in days and max(map(days.count, set(days))) * 2 <= len(days)


def _posts(user: UserId, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> list[Post]:
    if info.file_size > _LARGEST:
        raise DataError(f"{info.filename}: {info.file_size} bytes is more than any blog of the corpus has")
    # Not well-formed XML (bare ampersands, mixed encodings), so no XML parser reads it.
    text = archive.read(info).decode("latin-1")
    entries = _ENTRY.findall(text)
    return [Post(user, i, _date(day), " ".join(html.unescape(post).split())) for i, (day, post) in enumerate(entries)]


def _date(text: str) -> str | None:
    """Read "31,May,2004"; None for what is not a date (",,", or a month in another language)."""
    try:
        day, month, year = text.strip().split(",")
        return date(int(year), _MONTHS.index(month.strip().lower()[:3]) + 1, int(day)).isoformat()
    except ValueError:
        return None

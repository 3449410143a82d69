"""Clients cut from text: every character is predicted once, and secrets stand where they should and nowhere else."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.core import IntArray, Task
from fedleak.errors import DataError, PlanError
from fedleak.population.datasets.clients_text import KEYBOARD, TextClients, characters, windows
from fedleak.population.population import Population, User


@pytest.fixture
def book(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = ["Alpha", "beta", "gamma", "delta", "\u00e9t\u00e9"]
    lines = [" ".join(rng.choice(words, 8)) for _ in range(600)]
    path = tmp_path / "book.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def clients(book: Path, **settings: Any) -> TextClients:
    return TextClients(**{"source": str(book), "clients": 3, "kilobytes": 3, "test_kilobytes": 2, **settings})


def spelt(population: Population, x: IntArray) -> str:
    """The text behind windows that overlap by one."""
    ids = [x[0, 0], *x[:, 1:].reshape(-1)]
    return "".join(population.outputs_named[token] if token > 1 else "?" for token in ids if token)


def text_of(population: Population, user: User) -> str:
    return spelt(population, user.examples.x)


@given(st.text("abc\n", min_size=2, max_size=60), st.integers(2, 12))
def test_windows_predict_every_character_but_the_first_exactly_once(text: str, length: int) -> None:
    known = characters("")
    rows = windows(text, known, length)
    assert rows.shape[1] == length
    predicted = rows[:, 1:].reshape(-1)
    assert "".join(known[token] for token in predicted if token) == text[1:]
    assert (rows[1:, 0] == rows[:-1, -1]).all()


def test_a_client_holds_its_secret_as_often_as_asked_and_no_decoy(book: Path) -> None:
    population = clients(book, insertions=5).load(3)
    assert population.task is Task.NEXT_TOKEN
    texts = [text_of(population, user) for user in population.users]
    for user, text in zip(population.users, texts, strict=True):
        assert len(user.secrets) == len(user.decoys) == 1
        for other in texts:
            assert other.count(user.secrets[0]) == (5 if other is text else 0)
            assert user.decoys[0] not in other
    assert len({secret for user in population.users for secret in user.secrets + user.decoys}) == 6


def test_the_rest_of_a_clients_text_is_the_books_and_nobody_elses(book: Path) -> None:
    source = book.read_text(encoding="utf-8").lower()
    population = clients(book).load(0)
    for user in population.users:
        lines = text_of(population, user).split("\n")
        rest = "\n".join(line for line in lines if line != user.secrets[0])
        assert len(rest) == 3000
        assert source.count(rest) == 1
        assert source.index(rest) + 3000 <= len(source) - 2000
    assert population.test is not None
    held_out = spelt(population, population.test.x)
    assert source.endswith(held_out)
    assert "number" not in held_out
    assert len({source.index(text_of(population, u).split("\n")[1]) for u in population.users}) == 3


def test_only_the_holders_have_a_secret(book: Path) -> None:
    population = clients(book, holders=2, decoys=False).load(0)
    assert [(len(user.secrets), len(user.decoys)) for user in population.users] == [(1, 0), (1, 0), (0, 0)]
    assert ["number" in text_of(population, user) for user in population.users] == [True, True, False]


def test_without_insertions_a_secret_is_drawn_and_not_planted(book: Path) -> None:
    population = clients(book, insertions=0).load(0)
    assert all(user.secrets for user in population.users)
    assert not any("number" in text_of(population, user) for user in population.users)


def test_the_seed_decides_pieces_secrets_and_places(book: Path) -> None:
    first, again, other = (clients(book).load(seed) for seed in (0, 0, 1))
    assert text_of(first, first.users[0]) == text_of(again, again.users[0])
    assert first.users[0].secrets != other.users[0].secrets
    assert first.users[0].id != other.users[0].id


def test_the_alphabet_is_a_keyboards_and_that_of_public_text() -> None:
    known = characters("\u00e9\u00e9\u00e8")
    assert known[:2] == ("<pad>", "<unknown>")
    assert set(KEYBOARD) < set(known)
    assert known[-2:] == ("\u00e9", "\u00e8")
    assert len(characters("".join(map(chr, range(300, 900))))) == 202
    assert windows("a\u4e00", known, 2).tolist() == [[known.index("a"), 1]]


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"secret": "no slot"}, PlanError, "has no slot"),
        ({"secret": "PIN {d4}"}, PlanError, "outside the model's alphabet: 'I' 'N' 'P'"),
        ({"secret": "born {birthdy}"}, PlanError, "unknown slot {birthdy}; did you mean 'birthday'"),
        ({"secret": "my dog is {word}"}, PlanError, "{word} needs a list of non-empty words"),
        ({"secret": "my dog is {word}", "words": ("rex", "")}, PlanError, "list of non-empty words"),
        ({"window": 40, "kilobytes": 1}, PlanError, "40 characters long, and a window holds 40"),
        ({"holders": 4}, PlanError, "holders = 4 secrets for clients = 3"),
        ({"holders": 1}, PlanError, "holders = 1: with one holder there is no question"),
        ({"secret": "{d1}", "clients": 6, "kilobytes": 1}, PlanError, "has 10 records, but 12"),
        ({"kilobytes": 0.1}, DataError, "100 characters is shorter than a window of 128"),
        ({"test_kilobytes": 0.05}, DataError, "50 characters is shorter than a window"),
        ({"clients": 9}, DataError, "need more text than there is"),
        ({"test_kilobytes": 900}, DataError, "need more text than there is"),
        ({"insertions": 500}, DataError, "500 insertions need as many lines"),
        ({"source": "nowhere.txt"}, DataError, r"nowhere\.txt: no such text file; a source is one of ptb"),
    ],
)
def test_what_cannot_be_done_is_explained(
    book: Path, settings: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        clients(book, **settings).load(0)


def test_a_file_in_another_encoding_is_named(book: Path) -> None:
    book.write_bytes(b"abc \xe9t\xe9" * 2000)
    with pytest.raises(DataError, match=r"book\.txt: not a text in UTF-8 \(byte 4\)"):
        clients(book).load(0)


def test_a_damaged_archive_is_named(book: Path) -> None:
    packed = book.with_suffix(".xz")
    packed.write_bytes(lzma.compress(book.read_bytes())[:-30])
    with pytest.raises(DataError, match=r"book\.xz: cannot be read"):
        clients(packed).load(0)


def test_a_corpus_that_is_not_here_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"'ptb' needs ptb\.train\.txt, ptb\.test\.txt"):
        TextClients(clients=4).load(0)


@pytest.mark.usefixtures("find_real_data")
@pytest.mark.parametrize("source", ["ptb", "wikitext2", "enwik8", "blog"])
def test_every_corpus_gives_clients(source: str) -> None:
    population = TextClients(source=source, clients=4, kilobytes=5).load(0)
    for user in population.users:
        text = text_of(population, user)
        found, size = text.count(user.secrets[0]), len(text)
        assert (found, size) == (4, 5000 + 4 * 41)
        assert (user.examples.x == 1).mean() < 0.01
    if source == "enwik8":
        assert set(text_of(population, population.users[0])) <= set("abcdefghijklmnopqrstuvwxyz0123456789- \n")
    assert population.test is not None
    assert len(population.test) == 158

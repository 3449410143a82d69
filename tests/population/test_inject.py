"""Watermarks: one in every holder's text, as often as asked, and nothing else changed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.core import rng_for
from fedleak.errors import DataError, PlanError
from fedleak.plan.plan import InjectPlan, PopulationPlan
from fedleak.population.datasets.clients_text import TextClients, characters, windows
from fedleak.population.datasets.digits import Digits
from fedleak.population.inject import inject, text_of
from fedleak.population.population import Examples, Population, User
from fedleak.population.prepare import prepare
from fedleak.population.redeal import redeal


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "delta", "\u00e9t\u00e9", "\u4e00"]
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text("\n".join(" ".join(rng.choice(words, 8)) for _ in range(600)), encoding="utf-8")
    return path


def clients(book: Path, **settings: Any) -> TextClients:
    return TextClients(**{"source": str(book), "clients": 3, "kilobytes": 3, "test_kilobytes": 2, **settings})


def text(population: Population, user: User) -> str:
    return text_of(user.examples.x, population.outputs_named)


@given(st.text("abc\n \u4e00", min_size=2, max_size=60), st.integers(2, 12))
def test_windows_can_be_joined_and_cut_again_without_loss(written: str, length: int) -> None:
    known = characters("")
    rows = windows(written, known, length)
    joined = text_of(rows, known)
    assert len(joined) == len(written)
    np.testing.assert_array_equal(windows(joined, known, length), rows)


@pytest.mark.parametrize(
    ("kind", "length", "pattern"),
    [("alphanumeric", 16, "[a-z0-9]{16}"), ("letters", 9, "[a-z]{9}"), ("words", 16, "([a-z]+ ){2}[a-z]+")],
)
def test_every_holder_gets_a_watermark_of_the_kind_on_lines_of_its_own(
    book: Path, kind: Any, length: int, pattern: str
) -> None:
    population = clients(book, insertions=5, holders=2).load(0)
    marked, marks = inject(population, InjectPlan(kind=kind, length=length), 0)
    assert list(marks) == [user.id for user in population.users[:2]]
    assert len(set(marks.values())) == 2 and all(re.fullmatch(pattern, mark) for mark in marks.values())
    assert marked.users[2] is population.users[2], "who holds no secret is nobody's victim"
    for before, user in zip(population.users[:2], marked.users[:2], strict=True):
        lines = text(marked, user).split("\n")
        assert lines.count(marks[user.id]) == lines.count(user.secrets[0]) == 5
        assert "\n".join(line for line in lines if line != marks[user.id]) == text(population, before)
    assert marked.test is population.test


def test_insertions_are_as_many_as_asked_and_secrets_between_words_stay_whole(book: Path) -> None:
    population = clients(book, insertions=3, where="anywhere").load(0)
    marked, marks = inject(population, InjectPlan(insertions=7), 0)
    for user in marked.users:
        assert text(marked, user).count(marks[user.id]) == 7
        assert text(marked, user).count(user.secrets[0]) == 3


def test_in_the_control_watermarks_are_planted_after_the_texts_were_dealt_out_again(book: Path) -> None:
    control = prepare(clients(book), PopulationPlan(prior="none"), 0, iid=True, inject=InjectPlan())
    for share in control.shares:
        held = {other.user.id: text_of(other.private.x, control.outputs_named) for other in control.shares}
        mark = control.injected[share.user.id]
        assert [name for name, text in held.items() if mark in text] == [share.user.id], (
            "the adversary's probe is whole"
        )


def test_the_seed_decides_the_watermarks(book: Path) -> None:
    population = clients(book).load(0)
    first, again, other = (inject(population, InjectPlan(), seed)[1] for seed in (0, 0, 1))
    assert first == again and set(first.values()).isdisjoint(other.values())


def test_a_population_is_prepared_with_them_and_says_so(book: Path) -> None:
    plan = PopulationPlan(prior="none")
    without = prepare(clients(book), plan, 0)
    tampered = prepare(clients(book), plan, 0, inject=InjectPlan())
    assert not without.injected and not any(found.kind == "injected" for found in without.findings)
    assert set(tampered.injected) == {share.user.id for share in tampered.shares}
    assert [found.count for found in tampered.findings if found.kind == "injected"] == [3]
    for share, before in zip(tampered.shares, without.shares, strict=True):
        assert share.user.secrets == before.user.secrets
        assert tampered.injected[share.user.id] in text_of(share.private.x, tampered.outputs_named)


@pytest.mark.parametrize(
    ("settings", "plan", "error", "says"),
    [
        ({"insertions": 0}, InjectPlan(), PlanError, "never planted; set insertions = N"),
        ({}, InjectPlan(insertions=500), DataError, r"\[inject\]: 500 insertions need as many lines"),
        ({"clients": 40, "kilobytes": 0.3}, InjectPlan(length=1), PlanError, "has 36 records, but 40 distinct"),
    ],
)
def test_what_cannot_be_placed_is_explained(
    book: Path, settings: dict[str, Any], plan: InjectPlan, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        inject(clients(book, **settings).load(0), plan, 0)


def test_data_without_texts_or_in_another_alphabet_is_refused(book: Path) -> None:
    with pytest.raises(PlanError, match=r"\[inject\]: the data set has no texts with secrets"):
        inject(Digits(users=4, examples=8).load(0), InjectPlan(), 0)
    population = clients(book).load(0)
    assert population.records is not None
    few = replace(population.records, characters=tuple(c for c in population.records.characters if c != "q"))
    with pytest.raises(PlanError, match="outside the model's alphabet: 'q'"):
        inject(replace(population, records=few), InjectPlan(), 0)
    flat = replace(population.users[0], examples=Examples(x=population.users[0].examples.x[0]))
    with pytest.raises(PlanError, match="does not store contiguous text"):
        inject(replace(population, users=(flat, *population.users[1:])), InjectPlan(), 0)


def test_windows_that_were_dealt_out_again_are_marked_as_often_as_before(book: Path) -> None:
    population = clients(book).load(0)
    own = {user.id: user.examples for user in population.users}
    dealt = replace(population, users=redeal(population.users, rng_for(0)))
    marked, marks = inject(dealt, InjectPlan(), 0, own)
    assert population.records is not None
    for user in marked.users:
        text = text_of(user.examples.x, population.records.characters)
        planted = text_of(own[user.id].x, population.records.characters).count(user.secrets[0])
        assert text.count(marks[user.id]) == planted > 0


def test_one_watermark_is_injected_once_into_the_text_of_the_victim_alone(book: Path) -> None:
    """As in the paper (Yuan et al., 2021, Algorithm 2); every seed has another victim."""
    population = clients(book, insertions=4).load(0)
    marked, marks = inject(population, InjectPlan(victims=1, insertions=1), 0)
    [(victim, mark)] = marks.items()
    assert [text(marked, user).count(mark) for user in marked.users if user.id == victim] == [1]
    for before, after in zip(population.users, marked.users, strict=True):
        assert (after is before) == (after.id != victim)
    _, everybody = inject(population, InjectPlan(insertions=1), 0)
    assert everybody[victim] == mark and len(everybody) == 3
    chosen = {next(iter(inject(population, InjectPlan(victims=1, insertions=1), seed)[1])) for seed in range(12)}
    assert len(chosen) == 3
    with pytest.raises(PlanError, match=r"\[inject\]: victims = 4, but 3 users hold a secret"):
        inject(population, InjectPlan(victims=4), 0)

"""Sums of many rounds are equations: solved, they give clients back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small import made, small

from fedleak.analyses.disaggregate import Disaggregate, Matrix, estimate, likeness


def sums(rounds: int, clients: int, noise: float, seed: int) -> tuple[Matrix, Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(clients, 50)) + 3 * rng.normal(size=50)
    shares = np.zeros((rounds, clients))
    for row in shares:
        row[rng.choice(clients, 4, replace=False)] = 0.25
    return shares, shares @ means + noise * rng.normal(size=(rounds, 50)), means


def test_with_more_rounds_than_clients_and_steady_updates_everything_is_given_back() -> None:
    shares, seen, means = sums(40, 12, 0.0, 0)
    own, others, first = likeness(estimate(shares, seen), means)
    assert own.min() > 0.99
    assert abs(others.mean()) < 0.2
    assert first.mean() == 1


def test_with_few_rounds_less_is_given_back() -> None:
    shares, seen, means = sums(60, 20, 0.3, 1)
    few, many = (likeness(estimate(shares[:n], seen[:n]), means)[0].mean() for n in (8, 60))
    assert 0.1 < few < many < 1


def test_told_in_the_wrong_order_who_took_part_the_sums_give_nothing() -> None:
    found = []
    for seed in range(8):
        shares, seen, means = sums(40, 12, 0.1, seed)
        order = np.random.default_rng(seed).permutation(40)
        own, others, _ = likeness(estimate(shares[order], seen), means)
        found.append(own.mean() - others.mean())
    assert abs(np.mean(found)) < 0.1


def test_a_federation_is_solved_for_its_clients(tmp_path: Path) -> None:
    plan = small(federation={"rounds": 80})
    analysis = made(Disaggregate(), tmp_path, plan)
    assert [row[:2] for row in analysis.rows] == [
        [knows, rounds] for knows in ("sums", "sums and its own clients") for rounds in (20, 40, 80)
    ]
    alone, helped = analysis.rows[2], analysis.rows[5]
    for _, _, own, low, high, others, first, chance, clients in (alone, helped):
        assert isinstance(own, float) and isinstance(low, float) and isinstance(high, float)
        assert isinstance(others, float) and isinstance(first, float) and isinstance(chance, float)
        assert low <= own <= high
        assert low > others
        assert first > 2 * chance
        assert clients == 15
        assert chance == pytest.approx(1 / 15)
    assert float(helped[2] or 0) > float(alone[2] or 0)
    assert "1 would be the mean update itself" in analysis.text

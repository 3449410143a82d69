"""Where there is nothing to find, nothing is found: every kind of data, prior and game, over twenty seeds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from null_cases import FULL_CASES, SMALL_CASES, shown, text_of, write

from fedleak.plan.read import parse
from fedleak.population.datasets import mnist_writers
from fedleak.testing import ContractBroken, check_null, play_null
from fedleak.testing.null import play_undefended


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("nobody"))


# These take ten to twenty seconds each, and others cover the same kinds of data and games.
_LONG = (
    *("digits-match", "digits-attribute", "table-text", "table-sizes", "table-days", "table-copies", "table-album"),
    *("image-folder", "pipa-chrono"),
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in _LONG else ()) for name in SMALL_CASES]
)
def test_nothing_is_found_where_nothing_is_personal(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDLEAK_DATA", str(data))
    print(shown(name, check_null(parse(text_of(SMALL_CASES[name], data), name), tmp_path)))


def test_a_stratified_split_breaks_the_contract(data: Path, tmp_path: Path) -> None:
    plan = parse(text_of(SMALL_CASES["digits-identify"], data), "stratified", {"population": {"split": "stratified"}})
    with pytest.raises(ContractBroken, match=r"stratified: a leak was found where there is none: reid-labels"):
        check_null(plan, tmp_path, range(6))


def test_halves_against_a_design_break_the_contract_from_below(data: Path, tmp_path: Path) -> None:
    plan = parse(text_of(SMALL_CASES["table-balanced"], data), "halved", {"population": {"split": "half"}})
    labels = next(one for one in play_null(plan, tmp_path, range(12)) if one.attack == "reid-labels")
    assert labels.z < -4


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
@pytest.mark.parametrize("name", FULL_CASES)
def test_nothing_is_found_in_full(name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # MNIST is the same for every seed; to read and fingerprint it takes longer than the rest.
    monkeypatch.setattr(mnist_writers, "read", cache(mnist_writers.read_writers))
    found = play_null(parse(text_of(FULL_CASES[name], data), name), tmp_path, range(20))
    print("\n" + shown(name, found))
    assert not [words for one in found if (words := one.broken(0.95))]


@pytest.mark.slow
@pytest.mark.parametrize("split", ["auto", "stratified"])
def test_made_up_users_with_nothing_personal(split: str, data: Path, tmp_path: Path) -> None:
    """The users themselves, not their control: what a stratified split makes of them is in docs/results/null.md."""
    change = {"dataset": {"style": 0.0, "class_bias": 1e5}, "population": {"split": split}}
    found = play_undefended(parse(text_of(FULL_CASES["digits"], data), split, change), tmp_path, range(20))
    print("\n" + shown(f"digits, nothing personal, {split}", found))
    broken = [one.attack for one in found if one.broken(0.95)]
    assert broken == ([] if split == "auto" else ["reid-labels", "reid-knn", "reid-svm", "reid-mlp", "reid-strong"])

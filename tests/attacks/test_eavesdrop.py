"""Correlation with who took part, as the paper writes it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from fedleak.attacks.records.baseline import ExposureBaseline
from fedleak.attacks.records.beam_search import contrasts, guided
from fedleak.attacks.records.eavesdrop import Eavesdrop, rank_sum, spearman
from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.strong import EavesdropStrong
from fedleak.errors import PlanError
from fedleak.games.traces.secret_holders import RECORDS, write_secrets
from fedleak.plan.checks import playable
from fedleak.population.secret_formats import parse
from fedleak.views.adversaries import EAVESDROPPER, GLOBAL_MODEL_CLIENT
from scored import measure, play


def test_the_correlation_is_spearmans_and_zero_where_nothing_varies() -> None:
    rng = np.random.default_rng(0)
    signals, changes = rng.integers(0, 2, (40, 3)), rng.normal(size=(40, 5))
    changes[:, 1] += 2 * signals[:, 2]
    found = spearman(signals, changes)
    for i in range(3):
        for j in range(5):
            assert found[i, j] == pytest.approx(spearmanr(signals[:, i], changes[:, j]).statistic)
    assert (spearman(np.ones((40, 1)), changes) == 0).all()


def test_ranks_are_summed_with_the_largest_first() -> None:
    # Ranks of the correlation 1 2 3 4, of the exposure 3 1 4 2: sums 4 3 7 6.
    order = rank_sum(np.array([0.9, 0.5, 0.1, -0.2]), np.array([-2.0, -1.0, -3.0, -1.5]))
    assert order.tolist() == [1, 0, 3, 2]


def test_without_selection_there_is_only_the_baseline() -> None:
    playable(ExposureBaseline(), GLOBAL_MODEL_CLIENT, "plan")
    with pytest.raises(PlanError, match="lacks selection"):
        playable(Eavesdrop(), GLOBAL_MODEL_CLIENT, "plan")


def test_the_baseline_names_the_same_for_everybody_and_eavesdropping_does_not(tmp_path: Path) -> None:
    run = write_secrets(tmp_path, 0, leak=True)
    same, own = (play(attack, EAVESDROPPER, run, 0).claims for attack in (ExposureBaseline(), Eavesdrop()))
    assert (same == same[:1]).all()
    assert len({ranking[0].tobytes() for ranking in own}) >= 5


def test_what_is_named_is_different_records_of_the_format(tmp_path: Path) -> None:
    run = write_secrets(tmp_path, 0, leak=True)
    form = parse(RECORDS.form)
    for ranking in play(Eavesdrop(), EAVESDROPPER, run, 0).claims:
        records = {"".join(RECORDS.characters[i] for i in record if i) for record in ranking}
        assert len(records) == 50
        assert all(record in form for record in records)


def test_a_client_is_not_credited_with_what_its_companion_brings() -> None:
    rng = np.random.default_rng(1)
    there = rng.integers(0, 2, (200, 4))
    there[:, 1] = np.where(rng.random(200) < 0.9, there[:, 0], there[:, 1])  # nearly always together with the first
    changes = (there[:, :1] - 0.5) + 0.3 * rng.normal(size=(200, 1))
    assert spearman(there, changes)[1, 0] > 0.5
    found = (contrasts(there, rng.normal(size=(200, 9))) @ changes)[:, 0]
    assert found[0] > 0.5 and (np.abs(found[1:] - found[1:].mean()) < 0.2).all()


def test_rounds_in_which_everything_changes_count_little() -> None:
    rng = np.random.default_rng(0)
    there = rng.permuted(np.tile([1, 1, 0, 0], (100, 1)), axis=1)
    noise = np.where(np.arange(100) < 20, 50.0, 0.1)[:, None]
    changes = there[:, :1] + noise * rng.normal(size=(100, 1))
    weights = contrasts(there, noise * rng.normal(size=(100, 50)))
    found = (weights @ changes)[:, 0]
    assert found[0] - found[1:].max() == pytest.approx(1, abs=0.2)


def test_a_guided_search_finds_for_each_client_what_its_own_score_favours() -> None:
    form = parse("pin {d2}-{d2}!")
    wanted = ("pin 12-34!", "pin 98-76!")
    seen: list[int] = []

    def score(texts: Sequence[str]) -> Scores:
        seen.append(len(texts))
        return np.array([[sum(map(eq, text, right)) for text in texts] for right in wanted], dtype=np.float64)

    found = guided(form, score, 2, width=3)
    assert set(wanted) <= set(found) and all(record in form for record in found)
    assert max(seen) <= 2 * 3 * 10, "a beam of three a client, whatever the format holds"


def test_a_guided_search_ends_where_a_record_may_end_early() -> None:
    form = parse("my dog is {word}", ("rex", "rexo", "ida"))
    found = guided(form, lambda texts: np.zeros((1, len(texts))), 1, width=5)
    assert set(found) == {"my dog is rex", "my dog is rexo", "my dog is ida"}


def test_with_many_holders_the_strong_attack_outdoes_the_sum_of_ranks(tmp_path: Path) -> None:
    runs = [write_secrets(tmp_path / str(seed), seed, leak=True, holders=16) for seed in range(2)]
    own, strong = (
        measure([play(attack, EAVESDROPPER, run, seed) for seed, run in enumerate(runs)], "top1").value
        for attack in (Eavesdrop(), EavesdropStrong())
    )
    assert strong > own + 0.2

"""Correlation with who took part, as the paper writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from fedleak.attacks.records.baseline import ExposureBaseline
from fedleak.attacks.records.eavesdrop import Eavesdrop, rank_sum, spearman
from fedleak.attacks.records.strong import EavesdropStrong, evidence
from fedleak.errors import PlanError
from fedleak.plan.read import playable
from fedleak.population.secret_formats import parse
from fedleak.testing import measured, play
from fedleak.testing_records import RECORDS, write_secrets
from fedleak.views.adversaries import EAVESDROPPER, GLOBAL_MODEL_CLIENT


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


def test_a_device_is_not_credited_with_what_its_companion_brings() -> None:
    rng = np.random.default_rng(1)
    there = rng.integers(0, 2, (200, 4))
    there[:, 1] = np.where(rng.random(200) < 0.9, there[:, 0], there[:, 1])  # nearly always together with the first
    changes = (there[:, :1] - 0.5) + 0.3 * rng.normal(size=(200, 1))
    assert spearman(there, changes)[1, 0] > 0.5
    found = evidence(there, changes)[:, 0]
    assert found[0] > 10 and (found[1:] < 0).all()


def test_forgetting_while_a_device_takes_part_is_evidence_against_it() -> None:
    there = np.eye(3, dtype=np.int64)[np.arange(60) % 3]
    changes = (there @ np.array([1.0, 0.0, -1.0]) + 0.1 * np.random.default_rng(0).normal(size=60))[:, None]
    found = evidence(there, changes)[:, 0]
    assert found[0] > 0 > found[2] and abs(found[1]) < 1
    assert (evidence(there, np.zeros((60, 1))) == 0).all()


def test_with_many_holders_the_strong_attack_outdoes_the_sum_of_ranks(tmp_path: Path) -> None:
    runs = [write_secrets(tmp_path / str(seed), seed, leak=True, holders=16) for seed in range(2)]
    own, strong = (
        measured([play(attack, EAVESDROPPER, run, seed) for seed, run in enumerate(runs)], "top1").value
        for attack in (Eavesdrop(), EavesdropStrong())
    )
    assert strong > own + 0.2

"""What a defence costs: steps and time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from small_runs import PLAN, SIZES, run, small_model, some, some_clients

from fedleak.defences.rand_aug import RandomAugmentation
from fedleak.federation.cost import Clock, local_steps, matched_round


def test_a_run_that_mixes_in_data_reaches_the_undefended_steps_earlier() -> None:
    plan = replace(PLAN, rounds=12, fraction=1.0)
    background = some(50, np.random.default_rng(1))
    rounds = run(small_model(), some_clients(), RandomAugmentation(alpha=2.0), plan=plan, background=background)
    numbers = np.concatenate([np.full(len(r.clients), r.number) for r in rounds])
    sizes = np.concatenate([r.sizes for r in rounds])
    found = matched_round(numbers, sizes, SIZES, plan)
    taken = int(local_steps(sizes[numbers <= found], plan).sum())
    wanted = 12 * int(local_steps(SIZES, plan).sum())
    assert taken >= wanted > int(local_steps(sizes[numbers < found], plan).sum())
    assert found < 12


def test_an_undefended_run_matches_itself_at_its_end() -> None:
    rounds = run(small_model(), some_clients())
    numbers = np.concatenate([np.full(len(r.clients), r.number) for r in rounds])
    sizes = np.concatenate([r.sizes for r in rounds])
    assert matched_round(numbers, np.minimum(sizes, 4), [4] * 6, PLAN) == PLAN.rounds


def test_the_clock_counts_every_update_and_passes_rounds_on() -> None:
    clock = Clock()
    assert clock.per_update is None
    rounds = run(small_model(), some_clients())
    assert list(clock.through(iter(rounds))) == rounds
    assert clock.updates == sum(len(r.clients) for r in rounds)
    assert clock.per_update is not None and clock.per_update >= 0

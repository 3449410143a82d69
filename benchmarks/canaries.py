"""What canaries show of a stated epsilon, clients over a whole run and records in one training.

    python benchmarks/canaries.py [--runs 200] [--records]

DP-FedAvg with 8 of 40 clients a round, 20 rounds, delta 1e-3, clip 1. "Found" is the share of runs in which the check
contradicts the stated epsilon; of honest mechanisms it may be 5%.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import FloatArray, Params
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.federation.canaries import put_to_the_test
from fedleak.federation.canary_run import shown_over_run
from fedleak.federation.model import Tensors
from fedleak.federation.privacy import Training
from fedleak.federation.record_audit import OneRun, audit_records
from fedleak.plan.plan import FederationPlan

PLAN = FederationPlan(rounds=20, weighting="equal")
TRAINING = Training(
    rounds=20, most=20, clients=40, selected=8, fresh=True, equal=True, epochs=1, batch=10, sizes=(30, 80)
)


class Quieter(DpFedAvg):
    """Adds a part of the noise that it states."""

    share = 0.5

    def _honest(self) -> DpFedAvg:
        return DpFedAvg(noise=self.noise * self.share, clip=self.clip, where=self.where)

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return self._honest().on_update(update, rng)

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        return self._honest().on_aggregate(aggregate, shares, rng)


def shown(defence: DpFedAvg, seed: int) -> tuple[float, float]:
    statement = defence.privacy(TRAINING)
    found = shown_over_run([defence], statement, TRAINING, PLAN, seed)
    assert found is not None and statement.epsilon is not None
    return found, statement.epsilon


class QuieterSgd(DpSgd):
    """Adds a part of the noise that it states."""

    share = 1.0

    def add_noise(self, sums: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        return DpSgd(noise=self.noise * self.share, clip=self.clip).add_noise(sums, rngs)


class HalfSgd(QuieterSgd):
    share = 0.5


class QuarterSgd(QuieterSgd):
    share = 0.25


def records(runs: int) -> None:
    """DP-SGD with batches of 10 of 50 examples: canary records of one training."""
    training = replace(TRAINING, sizes=(50,) * 40)

    def audited(kind: type[DpSgd], noise: float, seed: int) -> OneRun:
        found = audit_records([kind(noise=noise)], 0, training, PLAN, seed)
        assert found is not None
        return found

    print("| DP-SGD noise | stated epsilon | shown | half the noise: found | a quarter | CPU s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for noise in (0.5, 1.0, 2.0, 4.0):
        start = time.process_time()
        one = audited(DpSgd, noise, 0)
        seconds = time.process_time() - start
        half, quarter = (
            np.mean([audited(kind, noise, seed).contradicted for seed in range(5)]) for kind in (HalfSgd, QuarterSgd)
        )
        print(
            f"| {noise:g} | {one.stated:.2f} | {one.shown:.2f} | {half:.0%} | {quarter:.0%} | {seconds:.1f} |",
            flush=True,
        )
    wrong = sum(audited(DpSgd, 2.0, 1000 + seed).contradicted for seed in range(runs))
    print(f"honest, DP-SGD noise 2: contradicted in {wrong} of {runs} runs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200, help="runs of each honest mechanism")
    parser.add_argument("--records", action="store_true", help="only canary records, against DP-SGD")
    asked = parser.parse_args()
    runs = asked.runs
    records(runs)
    if asked.records:
        return
    print("| noise | stated epsilon | shown | half the noise: found over the run | in one round | CPU s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for noise in (2.0, 4.0, 8.0, 16.0, 32.0):
        start = time.process_time()
        least, stated = shown(DpFedAvg(noise=noise, clip=1.0, where="server", delta=1e-3), 0)
        seconds = time.process_time() - start
        quiet = Quieter(noise=noise, clip=1.0, where="server", delta=1e-3)
        found = np.mean([low > said for low, said in (shown(quiet, seed) for seed in range(5))])
        tested = [put_to_the_test([quiet], 0, TRAINING, PLAN, seed) for seed in range(5)]
        once = np.mean([one is not None and one.contradicted for one in tested])
        print(f"| {noise:g} | {stated:.2f} | {least:.2f} | {found:.0%} | {once:.0%} | {seconds:.1f} |", flush=True)
    for where in ("server", "local"):
        honest = DpFedAvg(noise=4.0, clip=1.0, where=where, delta=1e-3)
        wrong = sum(low > said for low, said in (shown(honest, 1000 + seed) for seed in range(runs)))
        print(f"honest, noise 4 on the {where}: contradicted in {wrong} of {runs} runs", flush=True)


if __name__ == "__main__":
    main()

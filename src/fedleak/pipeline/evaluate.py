"""Evaluate one run: the utility of its model, its cost, and the privacy statements of its defences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedleak.core import Params, Task
from fedleak.federation.cost import Clock, local_steps, matched_round
from fedleak.federation.federation import Client
from fedleak.federation.model import Model
from fedleak.federation.promises import Promise, promises
from fedleak.federation.utility import centralised, chance, evaluate, metric_of, nearest
from fedleak.pipeline.prepare import PreparedRun
from fedleak.pipeline.runs import Run
from fedleak.plan.content import content_digest
from fedleak.plan.plan import Plan
from fedleak.population.population import Examples
from fedleak.population.prepare import Prepared
from fedleak.trace.reader import Trace
from fedleak.trace.run_facts import RunFacts

__all__ = ["evaluate_run"]


def evaluate_run(plan: Plan, run: Run, ready: PreparedRun, clock: Clock) -> RunFacts:
    """Test the recorded model against its baselines, and measure what the run cost."""
    trace, population = Trace.open(run.folder / "trace"), ready.population
    task, test = population.task, population.test
    spelt = population.records is not None  # per character, where the audit is about records

    def utility(model: Model, weights: Params) -> float:
        return evaluate(model, weights, test, task, spelt=spelt)

    pooled = Examples.concat(part for share in population.shares for part in (share.private, share.prior))
    central = near = None
    if plan.federation.centralised and run.variant.label == "plain":
        near = nearest(pooled, test, task)
        central = utility(ready.model, centralised(ready.model, pooled, plan.federation, run.seed))
    metric = metric_of(task, spelt=spelt)
    matched = matched_round(trace.round, trace.size, [len(d.data) for d in ready.clients], plan.federation)
    return RunFacts(
        fingerprint=run.fingerprint,
        source=population.source,
        users=len(population.shares),
        private_examples=sum(len(share.private) for share in population.shares),
        prior_examples=sum(len(share.prior) for share in population.shares),
        test_examples=len(test),
        parameters=sum(layer.size for layer in ready.model.layout),
        layers={layer.name: layer.size for layer in ready.model.layout},
        utility_metric=metric.name,
        higher_is_better=metric.higher_is_better,
        utility=utility(ready.model, trace.snapshot(trace.rounds)),
        chance=chance(pooled, test, task, spelt=spelt),
        centralised=central,
        knn=near,
        matched=utility(ready.model, trace.snapshot(matched)) if matched < trace.rounds else None,
        local_steps=int(local_steps(trace.size, plan.federation).sum()),
        client_seconds=clock.per_update,
        promises=promised(plan, run, ready.clients, trace),
        dropped=sum(1 for _ in trace.dropped()),
        findings=list(population.findings),
        data=content_digest([(str(one.user.id), one.private, one.prior) for one in population.shares]),
        task=task.value,
        offers=_offers(population),
    )


def _offers(population: Prepared) -> list[str]:
    """What games can ask about besides the examples."""
    has = {
        "attributes": any(share.user.attributes for share in population.shares),
        "traits": bool(population.traits),
        "images": population.task is Task.CLASSIFY and len(population.input_shape) == 3,
        "records": population.records is not None,
        "background": population.background is not None,
    }
    return [name for name, there in has.items() if there]


def promised(plan: Plan, run: Run, clients: Sequence[Client], trace: Trace) -> list[Promise]:
    """What the defences of a run that is over promise, by the data that clients really trained on."""
    sizes = {index: len(client.data) for index, client in enumerate(clients)}
    sizes.update(zip(trace.client.tolist(), trace.size.tolist(), strict=True))
    taken = int(np.bincount(trace.client, minlength=1).max()) if len(trace.client) else 0
    return promises(
        run.variant.defences,
        plan.federation,
        len(clients),
        list(sizes.values()),
        run.seed,
        taken=max(1, taken),
        canaries=run.seed == plan.seeds[0] and run.variant.adaptive is None,
    )

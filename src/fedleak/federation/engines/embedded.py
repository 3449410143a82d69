"""The embedded engine: trains the selected clients of a round together, in this process.

Clients carry their weights side by side on a leading axis, so a local step costs one operation for a group of clients
instead of one for each; the gradient of the sum of their mean losses is, client by client, the gradient of each mean.
Groups are formed by a rule that does not know how many threads there are, and every operation runs on one thread, so
that the numbers are the same to the last bit however many workers share the groups.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedleak.core import Params, Task, is_buffers
from fedleak.federation.engines.batches import Pool, poisson_schedule, schedule, steps_of
from fedleak.federation.engines.local_step import Batch, LocalStep, gradients_of
from fedleak.federation.engines.optim import Adam, Sgd, clip, clip_values
from fedleak.federation.hooks import Defence, Loss
from fedleak.federation.loss import inputs, total
from fedleak.federation.model import ActivationHooks, Model, Stochastic, Tensors
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan

__all__ = ["Embedded", "Rngs", "one_thread", "tensors"]

Rngs = Callable[[str, int], np.random.Generator]
"""(stage, client index) -> the generator of that client in this round."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread per operation, and put its setting back afterwards.

    Several threads add numbers up in another order and so change the last bits. The setting is the process's, which is
    why it is held only while a round is computed.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Embedded:
    """Runs the local steps of a round's clients, on up to `workers` threads."""

    def __init__(
        self,
        model: Model,
        task: Task,
        settings: FederationPlan,
        pool: Pool,
        defences: Sequence[Defence] = (),
        workers: int = 1,
        defended: Sequence[bool] = (),
    ) -> None:
        self.model, self.task, self.settings, self.pool = model, task, settings, pool
        self.on_loss = [d for d in defences if d.overrides("on_loss")]
        self.on_step = [d for d in defences if d.overrides("on_step")]
        self.poisson = any(d.poisson for d in defences)
        self.defended = defended  # by client; read only where a defence acts on local steps
        self.workers = ThreadPoolExecutor(workers) if workers > 1 and not getattr(model, "alone", False) else None

    def close(self) -> None:
        """End the worker threads."""
        if self.workers is not None:
            self.workers.shutdown()

    def updates(self, weights: Params, clients: Sequence[int], rngs: Rngs) -> dict[str, torch.Tensor]:
        """Train each client from these weights; return one row of (after - before) per client and layer."""
        before = tensors(self.model, weights)
        rows = {layer.name: torch.empty(len(clients), layer.size) for layer in self.model.layout}

        def compute(places: list[int]) -> None:
            after = self._train(before, [clients[p] for p in places], rngs)
            for layer in self.model.layout:
                for tensor, _ in layer.tensors:
                    key = f"{layer.name}.{tensor}"
                    rows[layer.name][places, layer.span(tensor)] = after[key].sub_(before[key]).flatten(1)

        groups = self._groups(clients)
        if self.workers is None:
            for places in groups:
                compute(places)
        else:
            list(self.workers.map(compute, groups))
        return rows

    def _groups(self, clients: Sequence[int]) -> list[list[int]]:
        """Divide the places evenly into groups that fit the model, longest first, so that few finish early.

        Who defends local steps and who does not are never in one group.
        """
        steps = [steps_of(int(self.pool.sizes[d]), self.settings.batch, self.settings.epochs) for d in clients]
        order = sorted(range(len(clients)), key=lambda place: -steps[place])
        kinds = [order]
        if self.acts:
            kinds = [[place for place in order if self.defended[clients[place]] is kind] for kind in (True, False)]
        groups = []
        for kind in kinds:
            count = max(1, math.ceil(len(kind) / self.model.group))
            groups += [part.tolist() for part in np.array_split(np.array(kind, dtype=np.int64), count) if len(part)]
        return groups

    @property
    def acts(self) -> bool:
        """Whether any defence acts on local steps."""
        return bool(self.on_loss or self.on_step or self.poisson)

    def _train(self, before: Tensors, clients: Sequence[int], rngs: Rngs) -> Tensors:
        """The local steps of one group of clients (ClientUpdate in Algorithm 1 of McMahan et al., 2017)."""
        pool, settings = self.pool, self.settings
        guards = self.acts and self.defended[clients[0]]
        deal = poisson_schedule if guards and self.poisson else schedule
        plan = deal(pool, clients, settings.batch, settings.epochs, [rngs("batches", d) for d in clients])
        loss_rngs = [[rngs(f"on_loss/{n}", d) for d in clients] for n in range(len(self.on_loss))]
        # Another name than the hook's: recorded runs drew their numbers under it.
        step_rngs = [[rngs(f"on_sum/{n}", d) for d in clients] for n in range(len(self.on_step))]
        own_rngs = [rngs("dropout", d) for d in clients] if isinstance(self.model, Stochastic) else []
        after = {key: w.expand(len(clients), *w.shape[1:]).clone() for key, w in before.items()}
        trained = {key: w for key, w in after.items() if not is_buffers(key)}
        buffers = {key: w for key, w in after.items() if is_buffers(key)}  # written by the model, not the optimiser
        optimizer = Adam(settings.lr, list(trained.values())) if settings.optimizer == "adam" else Sgd(settings.lr)

        def loss(
            weights: Tensors, x: torch.Tensor, y: torch.Tensor | None, share: torch.Tensor, of: Sequence[int]
        ) -> torch.Tensor:
            own = [own_rngs[client] for client in of] if own_rngs else []
            theirs = [[generators[client] for client in of] for generators in loss_rngs] if guards else []
            both = {**weights, **{key: w[: len(x)] for key, w in buffers.items()}} if buffers else weights
            return self._loss(both, x, y, share, own, theirs)

        planned = torch.from_numpy(np.minimum(pool.sizes[clients], settings.batch))
        active = 0
        for step, (working, width) in enumerate(zip(plan.active, plan.width, strict=True)):
            if working != active:
                active = working
                leaves = {key: w[:active].detach().requires_grad_() for key, w in trained.items()}
            rows = plan.rows[step, :active, :width].reshape(-1)
            batch = Batch(
                pool.x.index_select(0, rows).view(active, width, *pool.x.shape[1:]),
                None if pool.y is None else pool.y.index_select(0, rows),
                plan.share[step, :active, :width],
                planned[:active],
            )
            if guards and self.on_step:
                found = self._guarded(LocalStep(loss, leaves, batch, self.model.group), step_rngs)
            else:
                found = gradients_of(loss, leaves, batch)
            with torch.no_grad():
                if settings.clip is not None:
                    found = (clip if settings.clip_by == "norm" else clip_values)(found, settings.clip)
                optimizer.step(list(leaves.values()), found)
        return after

    def _guarded(self, step: LocalStep, step_rngs: Sequence[Sequence[np.random.Generator]]) -> Sequence[torch.Tensor]:
        """The gradients of a step as the defences change them."""
        with torch.no_grad():
            for defence, generators in zip(self.on_step, step_rngs, strict=True):
                at_work = generators[: len(next(iter(step.weights.values())))]
                step = step.changed(defence.on_step(step, at_work))
            return [step.gradients[key] for key in step.weights]

    def _loss(
        self,
        weights: Tensors,
        x: torch.Tensor,
        y: torch.Tensor | None,
        share: torch.Tensor,
        rngs: Sequence[np.random.Generator],
        loss_rngs: Sequence[Sequence[np.random.Generator]],
    ) -> torch.Tensor:
        """The sum of the clients' mean losses, as the defences change it; without generators for them, they do not."""

        def plain(touches: ActivationHooks) -> torch.Tensor:
            seen = inputs(self.task, x)
            if isinstance(self.model, Stochastic):
                outputs = self.model.train_forward(weights, seen, rngs, touches)
            else:
                outputs = self.model.forward(weights, seen)
            return total(self.task, outputs, x, y, share)

        loss: Loss = plain
        for defence, generators in zip(self.on_loss, loss_rngs, strict=bool(loss_rngs)):
            loss = defence.on_loss(loss, generators)
        return loss({})


def tensors(model: Model, weights: Params) -> Tensors:
    """Cut flat layers into tensors, each with a client axis of one."""
    return {
        f"{layer.name}.{tensor}": torch.from_numpy(weights[layer.name][layer.span(tensor)]).view(1, *shape)
        for layer in model.layout
        for tensor, shape in layer.tensors
    }

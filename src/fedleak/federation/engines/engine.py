"""How clients are trained: by Fedleak's own local steps, or by the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from fedleak import registry
from fedleak.core import Params, Task
from fedleak.errors import FedleakError, PlanError, TrainingError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, Rngs
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Model
from fedleak.federation.models.modules import seeded
from fedleak.lazy import nn, torch
from fedleak.plan.plan import FederationPlan

__all__ = ["Engine", "OwnTraining", "engine_for"]


class Engine(Protocol):
    """Trains clients of one round."""

    def updates(self, weights: Params, clients: Sequence[int], rngs: Rngs) -> dict[str, torch.Tensor]:
        """Train each client from these weights; return one row of (after - before) per client and layer."""
        ...

    def close(self) -> None:
        """End what it started."""
        ...


@runtime_checkable
class _Module(Protocol):
    """A model that is a torch module inside."""

    def load(self, weights: Params) -> nn.Module: ...

    def read(self, module: nn.Module) -> dict[str, Any]: ...


def engine_for(
    model: Model,
    task: Task,
    settings: FederationPlan,
    pool: Pool,
    defences: Sequence[Defence] = (),
    workers: int = 1,
    defended: Sequence[bool] = (),
) -> Engine:
    """The engine that the settings ask for."""
    if settings.train is None:
        return Embedded(model, task, settings, pool, defences, workers, defended)
    acting = [d for d in defences if d.poisson or d.overrides("on_loss") or d.overrides("on_step")]
    if acting:
        raise PlanError(
            f"defence '{acting[0].name}' acts on local steps, which happen inside '{settings.train}' ([federation] "
            "train); leave one of them out"
        )
    return OwnTraining(model, settings.train, pool)


class OwnTraining:
    """Calls `train(module, x, y)` for each client, one after another, with torch's generator seeded for each."""

    def __init__(self, model: Model, target: str, pool: Pool) -> None:
        if not isinstance(model, _Module):
            raise PlanError(
                f"[federation] train = '{target}' trains a torch module, but the model is one of Fedleak's; name your "
                'own in [model] (name = "module:callable"), or leave train out'
            )
        self.model, self.target, self.pool = model, target, pool
        self.layout = model.layout
        self.train: Callable[..., Any] = registry.resolve_own(target)
        if not callable(self.train):
            raise PlanError(f"[federation] train = '{target}' is not callable; name a function train(module, x, y)")

    def close(self) -> None:
        """Nothing was started."""

    def updates(self, weights: Params, clients: Sequence[int], rngs: Rngs) -> dict[str, torch.Tensor]:
        """Train each client from these weights; return one row of (after - before) per client and layer."""
        rows = {layer.name: torch.empty(len(clients), layer.size) for layer in self.layout}
        for place, client in enumerate(clients):
            after = self._trained(weights, client, int(rngs("train", client).integers(2**63)))
            for name, row in rows.items():
                row[place] = torch.from_numpy(after[name] - weights[name])
        return rows

    def _trained(self, weights: Params, client: int, seed: int) -> dict[str, Any]:
        here = slice(int(self.pool.starts[client]), int(self.pool.starts[client] + self.pool.sizes[client]))
        y = None if self.pool.y is None else self.pool.y[here].clone()
        module = self.model.load(weights)
        with seeded(seed), torch.enable_grad():
            try:
                self.train(module, self.pool.x[here].clone(), y)
            except FedleakError:
                raise
            except Exception as error:
                raise TrainingError(
                    f"your training '{self.target}' failed: {type(error).__name__}: {error}. It is called as "
                    "train(module, x, y) with torch tensors"
                ) from error
        return self.model.read(module)

"""The model of a run that another framework trained, to imitate its clients.

Dropout draws from the generator that the engine passes in. Running statistics (BatchNorm) are layers of buffers where
the run shares them; where it does not, every client keeps them to itself.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fedleak.core import Layout, Params, Task, is_buffers
from fedleak.errors import FedleakError, PlanError, TrainingError
from fedleak.federation.model import ActivationHooks, Signature, Tensors
from fedleak.federation.models.incremental import Reader
from fedleak.federation.models.modules import (
    fill,
    layers_of,
    logits_of,
    make_module,
    parts_of,
    path_of,
    seeded,
    tensors_of,
    user_error,
)
from fedleak.federation.models.prefix_reader import PrefixReader
from fedleak.lazy import nn, torch

__all__ = ["Imitated"]


class Imitated:
    """A model of the user's own, with whatever randomness and running statistics it has."""

    group = 1
    alone = True  # it draws from torch's own generator, which threads would share
    draws = True
    places: tuple[str, ...] = ()

    def __init__(self, make: Callable[..., Any], signature: Signature, layout: Layout | None = None) -> None:
        """`layout` may leave out frozen parameters, which then keep the values that the module has."""
        self._make, self._signature = make, signature
        self.module = self._fresh(0)
        self.parts = parts_of(self.module)
        trained = [part for part in self.parts if part.kind == "trained"]
        if not trained:
            raise PlanError(f"{self._what} has no parameters to train")
        self._lay_out(layers_of(trained) if layout is None else layout)
        self._local = threading.local()

    def _lay_out(self, layout: Layout) -> None:
        self.layout: Layout = layout
        named = tensors_of(self.module)
        self._paths = {
            f"{layer.name}.{tensor}": path_of(named, layer.name, tensor)
            for layer in layout
            for tensor, _ in layer.tensors
        }
        if missing := set(self._paths.values()) - set(named):
            raise PlanError(f"{self._what} has no parameter '{min(missing)}', which the run holds")
        # What takes no gradient: frozen parameters, and buffers.
        self._fixed = {key for key, path in self._paths.items() if not named[path].requires_grad}
        self._shared = {key for key in self._paths if is_buffers(key)}
        # Not shared: counters (num_batches_tracked), and running statistics that stay on the clients. Each pass begins
        # with those of the module, so that none depends on whose pass came before.
        shared = set(self._paths.values())
        self._own_state = {path for path in _state_of_norms(self.module) if path not in shared}

    @property
    def _what(self) -> str:
        return f"your model '{getattr(self._make, '__qualname__', repr(self._make))}'"

    def _fresh(self, seed: int) -> nn.Module:
        with seeded(seed):
            return make_module(self._make, self._signature)

    def init(self, rng: np.random.Generator) -> Params:
        """Let the module initialise itself, from a seed that is drawn here."""
        return self.read(self._fresh(int(rng.integers(2**63))))

    def read(self, module: nn.Module) -> dict[str, Any]:
        """The parameters of a module as flat layers."""
        named = tensors_of(module)
        return {
            layer.name: np.concatenate(
                [
                    named[self._paths[f"{layer.name}.{tensor}"]].detach().float().numpy().reshape(-1)
                    for tensor, _ in layer.tensors
                ]
            )
            for layer in self.layout
        }

    def load(self, weights: Params) -> nn.Module:
        """A module of its own with these weights, to be trained by code that knows nothing of layers."""
        module = copy.deepcopy(self.module)
        fill(module, weights, self.layout)
        return module

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        """The outputs without dropout.

        BatchNorm uses its running statistics; where clients share none, the statistics of the batch.
        """
        module = self._own()
        module.eval()
        if not self._shared:
            _set_norms(module, training=True)
        return self._run(module, weights, x)

    def train_forward(
        self,
        weights: Tensors,
        x: torch.Tensor,
        rngs: Sequence[np.random.Generator],
        touches: ActivationHooks | None = None,
    ) -> torch.Tensor:
        """The outputs as clients compute them while they train; buffers are written over in `weights`."""
        module = self._own()
        module.train()
        if not self.draws:
            return self._run(module, weights, x, update=True)
        found = []
        for at, rng in enumerate(rngs):  # each client from its own generator, whoever is computed with it
            own, shown = _one_client(weights, x, at)
            with seeded(int(rng.integers(2**63))):
                found.append(self._run(module, own, shown, update=True))
        return torch.cat(found)

    def reader(self, weights: Tensors) -> Reader:
        """Read text one token after another, with the outputs that clients would compute."""
        return PrefixReader(self.forward, weights)

    def outputs_of(self, x: torch.Tensor) -> torch.Tensor:
        """What the module makes of some examples with the weights it has; an error says why it cannot."""
        weights = {key: value.unsqueeze(0) for key, value in self._values().items()}
        try:
            with torch.no_grad():
                return self.forward(weights, x.unsqueeze(0)).squeeze(0)
        except TrainingError as error:
            raise PlanError(str(error)) from error.__cause__

    def _values(self) -> dict[str, torch.Tensor]:
        named = tensors_of(self.module)
        return {key: named[path].detach() for key, path in self._paths.items()}

    def _own(self) -> nn.Module:
        # Threads may not share a module: functional_call lends it the weights for the time of the call.
        if not hasattr(self._local, "module"):
            self._local.module = copy.deepcopy(self.module)
        module: nn.Module = self._local.module
        return module

    def _run(self, module: nn.Module, weights: Tensors, x: torch.Tensor, *, update: bool = False) -> torch.Tensor:
        clients = max(len(x), *(len(w) for w in weights.values()))
        if clients > 1:  # a module knows no clients: one after another
            each = (_one_client(weights, x, at) for at in range(clients))
            return torch.cat([self._run(module, own, shown, update=update) for own, shown in each])
        try:
            outputs, state = self._call_or_alone(module, weights, x)
        except FedleakError:
            raise
        except Exception as error:
            if "allocate memory" in str(error):  # not the user's mistake; whoever runs this knows how much there is
                raise
            raise TrainingError(
                f"{self._what} fails on examples of shape {tuple(x.shape[2:])}: {user_error(error)}"
            ) from error
        if update:
            with torch.no_grad():
                for key in self._shared:
                    weights[key][0].copy_(state[self._paths[key]])
        if self._signature.task is Task.REGRESS:
            outputs = outputs.reshape(len(outputs), -1)
        return outputs.unsqueeze(0)

    def _call_or_alone(self, module: nn.Module, weights: Tensors, x: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        """One example has no variance: BatchNorm then uses its running statistics, and leaves them as they are."""
        try:
            return self._call(module, weights, x)
        except ValueError:
            if x.shape[1] != 1 or not _set_norms(module, training=False):
                raise
        try:
            return self._call(module, weights, x)
        finally:
            _set_norms(module, training=True)

    def _call(self, module: nn.Module, weights: Tensors, x: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        """The outputs, and the state that the module is left with; the weights stay as they are."""
        state = {self._paths[key]: (w.detach() if key in self._fixed else w).squeeze(0) for key, w in weights.items()}
        # Copies: the module works in place on its buffers.
        state |= {self._paths[key]: state[self._paths[key]].clone() for key in self._shared}
        if self._own_state:
            state |= {path: value.clone() for path, value in module.named_buffers() if path in self._own_state}
        return logits_of(torch.func.functional_call(module, state, (x.squeeze(0),)), self._what), state


def _one_client(weights: Tensors, x: torch.Tensor, at: int) -> tuple[Tensors, torch.Tensor]:
    """What belongs to one client; what all have in common comes with a client axis of one."""
    return {key: w[min(at, len(w) - 1)][None] for key, w in weights.items()}, x[min(at, len(x) - 1)][None]


def _set_norms(module: nn.Module, *, training: bool) -> bool:
    """Whether there are any that keep running statistics."""
    found = False
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._NormBase):
            part.train(training)
            found = found or part.track_running_stats
    return found


def _state_of_norms(module: nn.Module) -> Iterator[str]:
    """The paths of the buffers that normalisation layers write to in training."""
    norms = {path for path, part in module.named_modules() if isinstance(part, nn.modules.batchnorm._NormBase)}
    for path, _ in module.named_buffers():
        owner, _, name = path.rpartition(".")
        if owner in norms or name == "num_batches_tracked":
            yield path

"""The model of a run that another framework trained, to imitate its clients.

A run that Fedleak trains must be repeatable to the last bit, so a model of one's own may hold no dropout and no running
statistics there. To imitate clients it is enough to draw from a seeded generator, and to let every client keep its
running statistics to itself.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import PlanError
from fedleak.federation.model import ActivationHooks, Signature, Tensors
from fedleak.federation.models.incremental import Reader
from fedleak.federation.models.prefix_reader import PrefixReader
from fedleak.lazy import nn, torch

__all__ = ["Imitated", "Part", "seeded", "make_module", "trained_parameters", "without_arguments", "fill", "parts_of"]

_ROOT = "model"  # the layer of parameters that belong to the module itself


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generator, which the user's code draws from, and put it back afterwards.

    `torch.manual_seed` also queues a seed for every GPU that may come, with a stack trace: that takes longer than a
    small local step.
    """
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(before)


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of a module's state."""

    path: str
    shape: tuple[int, ...]
    kind: Literal["trained", "frozen", "buffer"]

    @property
    def home(self) -> tuple[str, str]:
        """The layer and the tensor in it."""
        owner, _, tensor = self.path.rpartition(".")
        return owner or _ROOT, tensor


def parts_of(module: nn.Module) -> list[Part]:
    """Every entry of a module's state, in the order in which a state dict lists them; a tied weight once."""
    named = dict(module.named_parameters())
    found = []
    for path, value in module.state_dict().items():
        if isinstance(value, torch.Tensor):
            kind: Literal["trained", "frozen", "buffer"] = "buffer"
            if path in named:
                kind = "trained" if named[path].requires_grad else "frozen"
            found.append(Part(path, tuple(value.shape), kind))
    return found


def without_arguments(make: Callable[..., Any]) -> bool:
    """Whether a callable can be called without arguments, as `Net()` is in most programs."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return all(p.default is not p.empty for p in parameters if p.kind in plain)


def make_module(make: Callable[..., Any], signature: Signature) -> nn.Module:
    """Call the user's code."""
    what = f"your model '{getattr(make, '__qualname__', repr(make))}'"
    if not callable(make):
        raise PlanError(f"a model of your own must be a callable that returns a torch.nn.Module; {make!r} is none")
    try:
        # A parameter with a default may still be meant for the signature: only one that is called so gets it.
        module = make() if without_arguments(make) and not _wants_signature(make) else make(signature)
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise PlanError(f"{what} cannot be built: {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise PlanError(f"{what} must return a torch.nn.Module; it returned {type(module).__name__}")
    return module.float().train()


def _wants_signature(make: Callable[..., Any]) -> bool:
    try:
        return "signature" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        return False


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters that ask for a gradient; frozen ones stay inside the module and are the same on every client."""
    return {path: value for path, value in module.named_parameters() if value.requires_grad}


def fill(module: nn.Module, weights: Params, layout: Layout) -> None:
    """Write flat layers into a module's parameters."""
    named = dict(module.named_parameters())
    with torch.no_grad():
        for layer in layout:
            for tensor, shape in layer.tensors:
                values = np.array(weights[layer.name][layer.span(tensor)], dtype=np.float32)
                named[_path(named, layer.name, tensor)].copy_(torch.from_numpy(values).view(shape))


def _path(named: Mapping[str, Any], layer: str, tensor: str) -> str:
    path = f"{layer}.{tensor}"
    return tensor if path not in named and layer == _ROOT else path


class Imitated:
    """A model of the user's own, with whatever randomness and running statistics it has."""

    group = 1
    alone = True  # it draws from torch's own generator, which threads would share
    places: tuple[str, ...] = ()

    def __init__(self, make: Callable[..., Any], signature: Signature, layout: Layout | None = None) -> None:
        """`layout` may leave out frozen parameters, which then keep the values that the module has."""
        self._make, self._signature = make, signature
        self.module = self._fresh(0)
        named = dict(self.module.named_parameters())
        self.parts = parts_of(self.module)
        trained = [part for part in self.parts if part.kind == "trained"]
        if not trained:
            raise PlanError(f"{self._what} has no parameters to train")
        self.layout: Layout = _layers(trained) if layout is None else layout
        self._paths = {
            f"{layer.name}.{tensor}": _path(named, layer.name, tensor)
            for layer in self.layout
            for tensor, _ in layer.tensors
        }
        if missing := set(self._paths.values()) - set(named):
            raise PlanError(f"{self._what} has no parameter '{min(missing)}', which the run holds")
        self._frozen = {key for key, path in self._paths.items() if not named[path].requires_grad}
        self._local = threading.local()

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
        named = dict(module.named_parameters())
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
        """The outputs without dropout; BatchNorm uses the statistics of the batch, since clients share no others."""
        module = self._own()
        module.eval()
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.train()
        return self._run(module, weights, x)

    def train_forward(
        self,
        weights: Tensors,
        x: torch.Tensor,
        rngs: Sequence[np.random.Generator],
        touches: ActivationHooks | None = None,
    ) -> torch.Tensor:
        """The outputs as clients compute them while they train."""
        module = self._own()
        module.train()
        with seeded(int(rngs[0].integers(2**63))):
            return self._run(module, weights, x)

    def reader(self, weights: Tensors) -> Reader:
        """Read text one token after another, with the outputs that clients would compute."""
        return PrefixReader(self.forward, weights)

    def outputs_of(self, x: torch.Tensor) -> torch.Tensor:
        """What the module makes of some examples with the weights it has; an error says why it cannot."""
        weights = {key: value.unsqueeze(0) for key, value in self._values().items()}
        try:
            with torch.no_grad():
                return self.forward(weights, x.unsqueeze(0)).squeeze(0)
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            raise PlanError(f"{self._what} fails on examples of shape {tuple(x.shape[1:])}: {error}") from error

    def _values(self) -> dict[str, torch.Tensor]:
        named = dict(self.module.named_parameters())
        return {key: named[path].detach() for key, path in self._paths.items()}

    def _own(self) -> nn.Module:
        # Threads may not share a module: functional_call lends it the weights for the time of the call.
        if not hasattr(self._local, "module"):
            self._local.module = copy.deepcopy(self.module)
        module: nn.Module = self._local.module
        return module

    def _run(self, module: nn.Module, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        clients = max(len(x), *(len(w) for w in weights.values()))
        if clients > 1:  # a module knows no clients: one after another
            own = [{key: w[min(at, len(w) - 1)][None] for key, w in weights.items()} for at in range(clients)]
            return torch.cat([self._run(module, own[at], x[min(at, len(x) - 1)][None]) for at in range(clients)])
        named = {self._paths[key]: (w.detach() if key in self._frozen else w).squeeze(0) for key, w in weights.items()}
        outputs = _logits(torch.func.functional_call(module, named, (x.squeeze(0),)), self._what)
        if self._signature.task is Task.REGRESS:
            outputs = outputs.reshape(len(outputs), -1)
        return outputs.unsqueeze(0)


def _layers(parts: Sequence[Part]) -> Layout:
    layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for part in parts:
        layer, tensor = part.home
        layers.setdefault(layer, []).append((tensor, part.shape))
    return tuple(Layer(name, tuple(tensors)) for name, tensors in layers.items())


def _logits(found: Any, what: str) -> torch.Tensor:
    """The outputs of a module: a tensor, or one called logits in an object or a dict (as in transformers)."""
    if isinstance(found, torch.Tensor):
        return found
    inner = found.get("logits") if isinstance(found, Mapping) else getattr(found, "logits", None)
    if inner is None and isinstance(found, (tuple, list)) and found:
        inner = found[0]
    if not isinstance(inner, torch.Tensor):
        raise PlanError(f"{what} returns {type(found).__name__}; expected a tensor, or something with `logits`")
    return inner

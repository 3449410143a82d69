"""A user's own model: any callable that returns a torch.nn.Module; it is given a Signature if it takes one."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from fedleak import registry
from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import PlanError
from fedleak.federation.model import Input, Model, Signature, Tensors
from fedleak.federation.models.imitated import Imitated, fill, make_module, trained_parameters, without_arguments
from fedleak.lazy import nn, torch
from fedleak.plan.content import content_digest

__all__ = ["Own", "wrap"]

_GIVEN = "python:"  # begins the target of a model that was given as an object
_OBJECTS: dict[str, Callable[[Signature], Any]] = {}


@dataclass(frozen=True, kw_only=True)
class Own:
    """Your own torch.nn.Module, which needs no knowledge of federated learning.

    Its clients are trained one by one: a module in general has no client axis. Naming it runs its code, as importing
    any module does.
    """

    name: ClassVar[str] = "own"
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    reads: ClassVar[tuple[Input, ...]] = tuple(Input)

    target: Annotated[
        str, Meta(description="`module:callable`, which returns the module; it is given a Signature if it takes one")
    ]

    @classmethod
    def of(cls, given: Any) -> Own:
        """A module, or a callable that makes one, given as an object: known by its content, in this process only.

        A module is trained from the weights that it has, in every run.
        """
        what = getattr(given, "__qualname__", type(given).__qualname__)
        target = f"{_GIVEN}{what}:{content_digest(given)[:16]}"
        _OBJECTS[target] = (lambda signature: copy.deepcopy(given)) if isinstance(given, nn.Module) else given
        return cls(target=target)

    def build(self, signature: Signature) -> Model:
        """Import the callable and wrap what it makes."""
        if self.target.startswith(_GIVEN):
            if self.target not in _OBJECTS:
                raise PlanError(f"model '{self.target}' was given as an object to another process; give it again")
            return wrap(_OBJECTS[self.target], signature)
        return wrap(registry.resolve_own(self.target), signature)

    @property
    def importable(self) -> bool:
        """Whether another process can build it, too."""
        return not self.target.startswith(_GIVEN)

    def imitated(self, signature: Signature, layout: Layout | None = None) -> Imitated:
        """The same for imitating the clients of a recorded run: with dropout and running statistics, if it has any.

        `layout` is what the run holds of it; everything that is trained, if absent.
        """
        if self.importable:
            return Imitated(registry.resolve_own(self.target), signature, layout)
        if self.target not in _OBJECTS:
            raise PlanError(f"model '{self.target}' was given as an object to another process; name its module")
        return Imitated(_OBJECTS[self.target], signature, layout)


def wrap(make: Callable[[Signature], Any], signature: Signature) -> Model:
    """Make a federation's model: one layer per submodule that owns trained parameters, named by its path."""
    if not callable(make):
        raise PlanError(f"a model of your own must be a callable that takes a Signature; {make!r} is not callable")
    return _Own(make, signature)


class _Own:
    group = 1

    def __init__(self, make: Callable[[Signature], Any], signature: Signature) -> None:
        self._make, self._signature = make, signature
        self._module = self._fresh(0)
        self._local = threading.local()
        layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        for path, value in trained_parameters(self._module).items():
            owner, _, tensor = path.rpartition(".")
            layers.setdefault(owner or "model", []).append((tensor, tuple(value.shape)))
        if not layers:
            raise PlanError(f"{self._what} has no parameters to train")
        self.layout: Layout = tuple(Layer(name, tuple(tensors)) for name, tensors in layers.items())
        self._try()

    @property
    def _what(self) -> str:
        return f"your model '{getattr(self._make, '__qualname__', repr(self._make))}'"

    def _fresh(self, seed: int) -> nn.Module:
        """Call the user's code with torch's global generator seeded, and put the generator back."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make_module(self._make, self._signature)

    def init(self, rng: np.random.Generator) -> Params:
        """Let the module initialise itself, from a seed that is drawn here."""
        return self.read(self._fresh(int(rng.integers(2**63))))

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        # Threads may not share a module: functional_call lends it the weights for the time of the call.
        if not hasattr(self._local, "module"):
            self._local.module = copy.deepcopy(self._module)
        named = {key.removeprefix("model.") if self._root(key) else key: w.squeeze(0) for key, w in weights.items()}
        outputs: torch.Tensor = torch.func.functional_call(self._local.module, named, (x.squeeze(0),))
        if self._signature.task is Task.REGRESS:
            outputs = outputs.reshape(len(outputs), -1)
        return outputs.unsqueeze(0)

    def load(self, weights: Params) -> nn.Module:
        """A module of its own with these weights, to be trained by code that knows nothing of layers."""
        module = copy.deepcopy(self._module)
        fill(module, weights, self.layout)
        return module

    def read(self, module: nn.Module) -> dict[str, Any]:
        """The trained parameters of a module as flat layers."""
        flat: dict[str, list[torch.Tensor]] = {}
        for path, value in trained_parameters(module).items():
            flat.setdefault(path.rpartition(".")[0] or "model", []).append(value.detach().flatten())
        return {name: torch.cat(parts).numpy() for name, parts in flat.items()}

    def _root(self, key: str) -> bool:
        return key.startswith("model.") and not hasattr(self._module, "model")

    def _try(self) -> None:
        """Run the module twice on made-up examples: what cannot be trained here shows before the first round."""
        task, shape, outputs = self._signature.task, self._signature.input_shape, self._signature.outputs
        generator = torch.Generator().manual_seed(0)
        if task is Task.NEXT_TOKEN:
            x = torch.randint(2, max(3, outputs), (3, shape[0] - 1), generator=generator)
            expected: tuple[int, ...] = (3, shape[0] - 1, outputs)
        else:
            x = torch.rand((3, *shape), generator=generator)
            expected = (3, outputs)
        buffers = {name: buffer.clone() for name, buffer in self._module.named_buffers()}
        weights = {path if "." in path else f"model.{path}": w.unsqueeze(0) for path, w in self._values().items()}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            try:
                first, second = (self.forward(weights, x.unsqueeze(0)).squeeze(0) for _ in range(2))
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                raise PlanError(f"{self._what} fails on examples of shape {tuple(x.shape[1:])}: {error}") from error
        more = without_arguments(self._make) and task is Task.CLASSIFY  # it was not told how many there are
        if tuple(first.shape) != expected and not (more and first.dim() == 2 and first.shape[1] > outputs):
            raise PlanError(f"{self._what} gives outputs of shape {tuple(first.shape)} where {expected} is needed")
        changed = [
            name for name, buffer in self._local.module.named_buffers() if not torch.equal(buffer, buffers[name])
        ]
        if changed:
            raise PlanError(
                f"{self._what} keeps running state in {', '.join(changed)}; clients do not share it, so it cannot be "
                "averaged. Use GroupNorm or LayerNorm, or BatchNorm with track_running_stats=False"
            )
        if not torch.equal(first, second):
            raise PlanError(
                f"{self._what} gives different answers to the same input (dropout?); a run could not be repeated. "
                "Set its probability to 0"
            )

    def _values(self) -> dict[str, torch.Tensor]:
        return {path: value.detach() for path, value in trained_parameters(self._module).items()}

"""What Fedleak has to know of a torch module: its state, how to build it, and where each tensor lies in the layers."""

from __future__ import annotations

import contextlib
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedleak.core import BUFFERS, Layer, Layout, Params
from fedleak.errors import FedleakError, PlanError
from fedleak.federation.model import Signature
from fedleak.lazy import nn, torch

__all__ = [
    "Part",
    "seeded",
    "parts_of",
    "without_arguments",
    "make_module",
    "trained_parameters",
    "fill",
    "tensors_of",
    "path_of",
    "layer_of",
    "layers_of",
    "logits_of",
    "user_error",
]

_ROOT = "model"  # the layer of parameters that belong to the module itself
_LONGEST = 400  # characters of an error of the user's code


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
        return layer_of(self.path)


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
    except FedleakError:
        raise
    except Exception as error:
        raise PlanError(f"{what} cannot be built: {user_error(error)}") from error
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
    """Write flat layers into a module's parameters and buffers."""
    named = tensors_of(module)
    with torch.no_grad():
        for layer in layout:
            for tensor, shape in layer.tensors:
                values = np.array(weights[layer.name][layer.span(tensor)], dtype=np.float32)
                named[path_of(named, layer.name, tensor)].copy_(torch.from_numpy(values).view(shape))


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by their path."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def path_of(named: Mapping[str, Any], layer: str, tensor: str) -> str:
    """Where a tensor of a layer is in the module."""
    owner = layer.removesuffix(BUFFERS)
    path = f"{owner}.{tensor}"
    return tensor if path not in named and owner == _ROOT else path


def layer_of(path: str, *, buffer: bool = False) -> tuple[str, str]:
    """The layer of a parameter or of a buffer, and the tensor in it."""
    owner, _, tensor = path.rpartition(".")
    return (owner or _ROOT) + BUFFERS * buffer, tensor


def layers_of(parts: Sequence[Part]) -> Layout:
    """The layers that these entries make up: one per submodule."""
    layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for part in parts:
        layer, tensor = part.home
        layers.setdefault(layer, []).append((tensor, part.shape))
    return tuple(Layer(name, tuple(tensors)) for name, tensors in layers.items())


def logits_of(found: Any, what: str) -> torch.Tensor:
    """The outputs of a module: a tensor, the first of a tuple, or `logits` in a dict or an object (transformers).

    A dict of one tensor needs no such name.
    """
    if isinstance(found, torch.Tensor):
        return found
    inner = found.get("logits") if isinstance(found, Mapping) else getattr(found, "logits", None)
    if inner is None and isinstance(found, (tuple, list)) and found:
        inner = found[0]
    if inner is None and isinstance(found, Mapping) and len(found) == 1:
        inner = next(iter(found.values()))
    if not isinstance(inner, torch.Tensor):
        held = f" with the keys {', '.join(map(repr, found))}" if isinstance(found, Mapping) else ""
        raise PlanError(
            f"{what} returns {type(found).__name__}{held}; expected a tensor, a tuple that begins with one, or a dict "
            "or an object with `logits`"
        )
    return inner


def user_error(error: Exception) -> str:
    """An error of the user's code in one line: what it says, and where in the user's own files it arose."""
    text = " ".join(str(error).split())
    text = f"{text[:_LONGEST]} ..." if len(text) > _LONGEST else text
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    installed = [*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), str(_PACKAGE)]
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((*installed, "<"))
    ]
    return f"{told} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else told


_PACKAGE = Path(__file__).parents[2]  # Fedleak's own

"""A user's own model: any callable that returns a torch.nn.Module; it is given a Signature if it takes one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from fedleak import registry
from fedleak.core import Layer, Layout, Task, is_buffers
from fedleak.errors import FedleakError, PlanError
from fedleak.federation.model import Input, Model, Signature
from fedleak.federation.models.imitated import Imitated
from fedleak.federation.models.modules import (
    layer_of,
    logits_of,
    seeded,
    tensors_of,
    trained_parameters,
    user_error,
    without_arguments,
)
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

    It returns a tensor, a tuple that begins with one, or a dict or an object with `logits`. Dropout acts in training
    only, and draws from the generator of the client and the round. Running statistics (BatchNorm) are sent and averaged
    like weights, in layers called `<layer>:buffers`, or stay on the clients.
    """

    name: ClassVar[str] = "own"
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    reads: ClassVar[tuple[Input, ...]] = tuple(Input)

    target: Annotated[
        str, Meta(description="`module:callable`, which returns the module; it is given a Signature if it takes one")
    ]
    buffers: Annotated[
        Literal["averaged", "local"],
        Meta(
            description="running statistics (BatchNorm). averaged: clients send them and the server averages them, as "
            "FedAvg on a state dict does; whoever sees updates sees them. local: they never leave the clients "
            "(SiloBN); the shared model is then evaluated with the statistics of the test batch"
        ),
    ] = "averaged"
    rebuild: Annotated[
        bool,
        Meta(
            description="whether attacks build the model again, in a process of their own that reads code and no other "
            "files. false: attacks that cannot do without are refused, and reid-strong does not retrain"
        ),
    ] = True

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
            return wrap(_OBJECTS[self.target], signature, local=self.buffers == "local")
        return wrap(registry.resolve_own(self.target), signature, local=self.buffers == "local")

    @property
    def importable(self) -> bool:
        """Whether another process can build it, too."""
        return not self.target.startswith(_GIVEN)

    @property
    def handed_over(self) -> bool:
        """Whether attacks build it again."""
        return self.importable and self.rebuild

    def imitated(self, signature: Signature, layout: Layout | None = None) -> Imitated:
        """The same for imitating the clients of a recorded run: with dropout and running statistics, if it has any.

        `layout` is what the run holds of it; everything that is trained, if absent.
        """
        if self.importable:
            return Imitated(registry.resolve_own(self.target), signature, layout)
        if self.target not in _OBJECTS:
            raise PlanError(f"model '{self.target}' was given as an object to another process; name its module")
        return Imitated(_OBJECTS[self.target], signature, layout)


def wrap(make: Callable[..., Any], signature: Signature, *, local: bool = False) -> Model:
    """Make a federation's model: one layer per submodule that owns trained parameters, named by its path.

    With `local`, buffers stay on the clients.
    """
    if not callable(make):
        raise PlanError(f"a model of your own must be a callable that takes a Signature; {make!r} is not callable")
    return _Own(make, signature, local=local)


class _Own(Imitated):
    """The same for a run that Fedleak trains, which must be repeatable to the last bit."""

    def __init__(self, make: Callable[..., Any], signature: Signature, *, local: bool = False) -> None:
        super().__init__(make, signature)
        x = self._examples()
        outputs = self._evaluated(x)
        task, expected = signature.task, (*x.shape[: 2 if signature.task is Task.NEXT_TOKEN else 1], signature.outputs)
        more = without_arguments(make) and task is Task.CLASSIFY  # it was not told how many there are
        if tuple(outputs.shape) != expected and not (
            more and outputs.dim() == 2 and outputs.shape[1] > signature.outputs
        ):
            raise PlanError(f"{self._what} gives outputs of shape {tuple(outputs.shape)} where {expected} is needed")
        self.draws, changed = self._trained(x)
        self.alone = self.draws  # torch's own generator, which threads would share
        if local:
            self._require_norms(changed)
        self._lay_out(self._with_buffers([] if local else changed))

    def _examples(self) -> torch.Tensor:
        task, shape, outputs = self._signature.task, self._signature.input_shape, self._signature.outputs
        generator = torch.Generator().manual_seed(0)
        if task is Task.NEXT_TOKEN:
            return torch.randint(2, max(3, outputs), (3, shape[0] - 1), generator=generator)
        return torch.rand((3, *shape), generator=generator)

    def _passed(self, x: torch.Tensor, *, training: bool) -> tuple[torch.Tensor, bool, dict[str, torch.Tensor]]:
        """One pass over made-up examples: the outputs, whether it drew random numbers, and the buffers afterwards."""
        module = copy.deepcopy(self.module).train(training)
        generator = torch.default_generator
        with seeded(0), torch.no_grad():
            before = generator.get_state()
            try:
                outputs = logits_of(module(x), self._what)
            except FedleakError:
                raise
            except Exception as error:
                raise PlanError(
                    f"{self._what} fails on examples of shape {tuple(x.shape[1:])}: {user_error(error)}"
                ) from error
            drew = not torch.equal(before, generator.get_state())
        if self._signature.task is Task.REGRESS:
            outputs = outputs.reshape(len(outputs), -1)
        return outputs, drew, dict(module.named_buffers())

    def _evaluated(self, x: torch.Tensor) -> torch.Tensor:
        outputs, drew, _ = self._passed(x, training=False)
        if drew or not torch.equal(outputs, self._passed(x, training=False)[0]):
            raise PlanError(
                f"{self._what} draws random numbers in evaluation mode too, so its utility could not be measured twice "
                "alike. Use nn.Dropout, or F.dropout with training=self.training"
            )
        return outputs

    def _trained(self, x: torch.Tensor) -> tuple[bool, list[str]]:
        """Whether a training pass draws random numbers, and which buffers it changes."""
        (first, drew, buffers), (second, _, _) = (self._passed(x, training=True) for _ in range(2))
        if not torch.equal(first, second):
            raise PlanError(
                f"{self._what} gives different answers to the same input with torch's generator seeded alike; a run "
                "could not be repeated. Draw from torch instead of random or numpy"
            )
        own = dict(self.module.named_buffers())
        return drew, [path for path, value in buffers.items() if not torch.equal(value, own[path])]

    def _require_norms(self, changed: Sequence[str]) -> None:
        """Reject local buffers of other layers: a client would have to keep them from round to round."""
        for path in changed:
            owner = self.module.get_submodule(path.rpartition(".")[0])
            if not isinstance(owner, nn.modules.batchnorm._NormBase):
                raise PlanError(
                    f"{self._what} changes '{path}' in training, which is no statistic of a normalisation layer and "
                    'cannot stay on the clients; set buffers = "averaged" ([model] in the plan)'
                )

    def _with_buffers(self, changed: Sequence[str]) -> Layout:
        """The layers that are trained, and those of the buffers that training changes, in the order of the module."""
        saved, named = self.module.state_dict(), tensors_of(self.module)
        for path in changed:
            if not named[path].is_floating_point():
                if path.rpartition(".")[2] != "num_batches_tracked":
                    raise PlanError(
                        f"{self._what} changes '{path}' in training, which is no floating-point buffer, so the "
                        "clients' values cannot be averaged"
                    )
            elif path not in saved:
                raise PlanError(
                    f"{self._what} changes '{path}' in training, which is not in its state dict, so clients would not "
                    "send it. Register it as a persistent buffer"
                )
        for path, part in self.module.named_modules() if changed else ():
            if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats and part.momentum is None:
                raise PlanError(
                    f"{self._what} keeps a cumulative average in '{path}' (momentum=None), whose counter clients do "
                    "not share. Give it a momentum, such as 0.1"
                )
        counted = {path for path in changed if named[path].is_floating_point()}
        trained = set(trained_parameters(self.module))
        layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        for path in saved:
            if path in trained or path in counted:
                layer, tensor = layer_of(path, buffer=path in counted)
                layers.setdefault(layer, []).append((tensor, tuple(named[path].shape)))
        layout = [Layer(name, tuple(tensors)) for name, tensors in layers.items()]
        # The last layer is the output's, for every attack that asks for it.
        last = max(place for place, layer in enumerate(layout) if not is_buffers(layer.name))
        return (*layout[:last], *layout[last + 1 :], layout[last])

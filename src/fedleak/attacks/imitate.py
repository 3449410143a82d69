"""Train the shared model as a device would: what a server can do by itself, on its own machine, with any data."""

from __future__ import annotations

from collections.abc import Sequence

from fedleak import registry
from fedleak.core import Params, Task, derive
from fedleak.errors import AttackError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread
from fedleak.federation.model import Model, Signature
from fedleak.plan.configure import configure
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples
from fedleak.views.view import View

__all__ = ["Imitation"]


class Imitation:
    """Devices that exist only on the adversary's machine; they take no part in the run and change nothing."""

    def __init__(self, view: View, devices: Sequence[Examples], seed: int) -> None:
        self.view, self.seed, self.count = view, seed, len(devices)
        pool = Pool.of(devices, [f"imitated {i}" for i in range(len(devices))])
        self.engine = Embedded(shared_model(view), view.task, settings(view), pool)

    def updates(self, round_number: int) -> Params:
        """What each of them would send in a round: layer -> (devices, size).

        Devices see their examples in an order of the round, not of the device, so that two with the same examples
        send the same.
        """
        with one_thread():
            rows = self.engine.updates(
                self.view.snapshot(round_number - 1),
                range(self.count),
                lambda stage, _: derive(self.seed, stage, round_number),
            )
        return {name: values.numpy() for name, values in rows.items()}


def shared_model(view: View) -> Model:
    """Build the model from what every participant was sent."""
    known = view.settings
    if "architecture" not in known:
        raise AttackError("this trace does not say how the model is built, so it cannot be trained any further")
    table = {key: value for key, value in known["architecture"].items() if key != "name"}
    architecture = configure(registry.load("model", known["architecture"]["name"]), table, "the trace's model")
    signature = Signature(Task(view.task), tuple(known["input_shape"]), int(known["outputs"]))
    model: Model = architecture.build(signature)
    if model.layout != view.layout:
        raise AttackError("the model that the trace's settings describe is not the one that was trained (a defence?)")
    return model


def settings(view: View) -> FederationPlan:
    """How devices train, as every participant was told."""
    names = FederationPlan.__dataclass_fields__
    return configure(FederationPlan, {key: v for key, v in view.settings.items() if key in names and v is not None}, "")

"""The model of a recorded run, as the auditor can train it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedleak.core import Layout, Task
from fedleak.errors import PlanError
from fedleak.federation.model import Input, Model, Signature
from fedleak.federation.models.imitated import Imitated
from fedleak.federation.models.modules import Part
from fedleak.federation.models.own import Own
from fedleak.lazy import torch
from fedleak.pipeline.layout_fit import Fit, fit_layout, matched, outputs_hint
from fedleak.pipeline.recorded_users import RecordedUsers
from fedleak.plan.plan import Plan
from fedleak.record.recording import Recording

__all__ = ["RecordedModel", "recorded_model"]


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """A model with the layers of the recorded run."""

    model: Model
    fit: Fit
    signature: Signature


def recorded_model(plan: Plan, recording: Recording, users: RecordedUsers) -> RecordedModel:
    """Build the plan's model so that it fits the recorded arrays, or say which of them does not fit."""
    header = recording.trace.header
    task = users.task or Task.CLASSIFY  # without any data nothing depends on it
    _require(plan, users)
    if isinstance(plan.model, Own):
        hint = Signature(task, users.input_shape, max(users.outputs, outputs_hint(header.layout)))
        imitated = plan.model.imitated(hint)
        what = f"model '{plan.model.target}'"
        kept = _differing(recording, imitated, what)
        fit = fit_layout(header.layout, imitated.parts, header.unrecorded, kept, what)
        signature = Signature(task, users.input_shape, _outputs(imitated, hint, users))
        return RecordedModel(plan.model.imitated(signature, fit.layout), fit, signature)
    what = f"model '{plan.model.name}'"
    problem: PlanError | None = None
    for outputs in dict.fromkeys([users.outputs, outputs_hint(header.layout)]):
        signature = Signature(task, users.input_shape, outputs)
        try:
            model = plan.model.build(signature)
            fit = fit_layout(header.layout, _parts(model.layout), header.unrecorded, (), what)
        except PlanError as error:
            problem = problem or error
            continue
        return RecordedModel(model, fit, signature)
    assert problem is not None
    raise problem


def _require(plan: Plan, users: RecordedUsers) -> None:
    """Reject a model or an attack for another task than the data's."""
    if users.task is None:
        return
    if users.task not in plan.model.tasks:
        raise PlanError(f"model '{plan.model.name}' cannot learn the task '{users.task.value}' of the data")
    examples = next((user.examples for user in users.users), users.background)
    if examples is not None:
        given = Input.WORDS if np.issubdtype(examples.x.dtype, np.integer) else Input.NUMBERS
        if given not in plan.model.reads:
            raise PlanError(f"model '{plan.model.name}' cannot read {given.value}, which is what the data provides")
    for attack in plan.attacks:
        if users.task not in attack.tasks:
            raise PlanError(f"attack '{attack.name}' does not apply to the task '{users.task.value}'; remove it")


def _parts(layout: Layout) -> Sequence[Part]:
    return [Part(f"{layer.name}.{tensor}", shape, "trained") for layer in layout for tensor, shape in layer.tensors]


def _differing(recording: Recording, model: Imitated, what: str) -> tuple[str, ...]:
    """Frozen parameters that the run holds other values of than the model has by itself."""
    found = matched(recording.trace.header.layout, model.parts, what)
    start = recording.trace.snapshot(0)
    own = dict(model.module.named_parameters())
    return tuple(
        part.path
        for part in model.parts
        if part.kind == "frozen"
        and part.path in found
        and not np.allclose(
            own[part.path].detach().numpy().reshape(-1), start[found[part.path].layer][found[part.path].span], atol=1e-6
        )
    )


def _outputs(model: Imitated, hint: Signature, users: RecordedUsers) -> int:
    """How many outputs the model has, by a forward pass over some of the data."""
    examples = next((user.examples for user in users.users), users.background)
    if examples is None and users.held is not None:
        examples = users.held.users[0].examples
    if examples is not None:
        x = torch.from_numpy(np.array(examples.x[:4]))
    elif users.secrets is not None:  # any record of the format will do
        form = users.secrets.form
        x = torch.from_numpy(users.secrets.records.spell([form[0]], form.longest).astype(np.int64))
    else:
        return hint.outputs
    outputs = model.outputs_of(x[..., :-1] if hint.task is Task.NEXT_TOKEN else x)
    expected = 3 if hint.task is Task.NEXT_TOKEN else 2
    if outputs.dim() == 1 and hint.task is Task.REGRESS:
        return 1
    narrow = outputs.shape[-1] < users.outputs and users.secrets is None  # an alphabet is compared with the model later
    several = hint.task is Task.REGRESS and outputs.shape[-1] != 1
    if outputs.dim() != expected or narrow or several:
        needed = "(examples, length, words)" if expected == 3 else f"(examples, {users.outputs} or more)"
        if hint.task is Task.REGRESS:
            needed = "(examples, 1)"
        raise PlanError(
            f"your model gives outputs of shape {tuple(outputs.shape)} for {len(x)} examples, where {needed} is needed "
            f"to {hint.task.value}" + (", as the labels are not whole numbers" if several else "")
        )
    return int(outputs.shape[-1])

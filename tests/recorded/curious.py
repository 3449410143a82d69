"""Attacks that look at more than they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, Observation, Task


@dataclass(frozen=True, kw_only=True)
class Curious:
    summary: ClassVar[str] = "Looks around."
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES | Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)


@dataclass(frozen=True, kw_only=True)
class ReadsTheData(Curious):
    name: ClassVar[str] = "reads-the-data"

    def run(self, view: Any, prior: Any, questions: Any, context: Any) -> Any:
        from clinic_app.audit import prior as everything

        return np.full((len(questions), len(questions.options)), len(everything()))


@dataclass(frozen=True, kw_only=True)
class BuildsTheModel(Curious):
    name: ClassVar[str] = "builds-the-model"

    def run(self, view: Any, prior: Any, questions: Any, context: Any) -> Any:
        assert [layer.name for layer in model_of(view).layout] == ["hidden", "out"]
        return np.zeros((len(questions), len(questions.options)))


@dataclass(frozen=True, kw_only=True)
class ReadsTheSecrets(Curious):
    name: ClassVar[str] = "reads-the-secrets"
    game: ClassVar[str] = "extract"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS

    def run(self, view: Any, prior: Any, questions: Any, context: Any) -> Any:
        from letters_app.audit import secrets

        return np.full((len(questions), questions.most, questions.form.longest), len(secrets()))

"""Fedleak audits what a federated learning run gives away about the people in it, and what stopping that costs.

    import fedleak

    result = fedleak.audit("demo")

Everything public is in `fedleak.__all__`; it is imported when it is first asked for, so that `import fedleak` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedleak.analyses.curves import Point, format_measured
    from fedleak.analyses.sweep_analysis import Subject, SweepAnalysis, Variation
    from fedleak.api import Difference, RecordedRun, Result, audit, evaluate, load, open_trace, read_plan
    from fedleak.attacks.attack import Attack
    from fedleak.attacks.context import AttackContext
    from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
    from fedleak.attacks.features import features, fill_missing_candidates
    from fedleak.core import Capability, FloatArray, IntArray, Layer, Observation, Params, Task, UserId, rng_for
    from fedleak.errors import AttackError, DataError, FedleakError
    from fedleak.federation.hooks import Defence
    from fedleak.federation.model import Signature
    from fedleak.games.game import (
        Answers,
        BaseGame,
        Contract,
        Game,
        GameInstance,
        Headline,
        OptionGame,
        Predictions,
        Questions,
    )
    from fedleak.metrics.attack_result import AttackResult, Measured
    from fedleak.metrics.metric import YES_NO_METRICS, Metric
    from fedleak.plan.plan import Plan
    from fedleak.population.datasets.arrays import ArrayDataset
    from fedleak.population.population import Dataset, Examples, Population, User
    from fedleak.report.section import Section
    from fedleak.results.audit import Audit, Score
    from fedleak.results.criteria import Criterion
    from fedleak.results.detail import DetailParts, Figure, Series, Table
    from fedleak.testing import check_attack, check_null
    from fedleak.trace.prior import Prior
    from fedleak.trace.reader import Trace
    from fedleak.trace.truth import Truth
    from fedleak.views import adversaries
    from fedleak.views.adversaries import Adversary
    from fedleak.views.view import View

__version__ = "0.1.0"
__all__ = [
    # An audit and its result
    "audit",
    "load",
    "read_plan",
    "open_trace",
    "evaluate",
    "Plan",
    "Result",
    "RecordedRun",
    "Score",
    "Difference",
    # A data set or a model of your own
    "ArrayDataset",
    "Dataset",
    "Population",
    "User",
    "UserId",
    "Examples",
    "Task",
    "Signature",
    # An attack of your own
    "Attack",
    "View",
    "Prior",
    "Questions",
    "Predictions",
    "AttackContext",
    "SingleLayerAttack",
    "features",
    "fill_missing_candidates",
    "Observation",
    "Capability",
    "adversaries",
    "Adversary",
    # A defence of your own
    "Defence",
    "Params",
    "Layer",
    # A game of your own
    "Game",
    "BaseGame",
    "OptionGame",
    "Criterion",
    "GameInstance",
    "Answers",
    "AttackResult",
    "Metric",
    "Measured",
    "YES_NO_METRICS",
    "Headline",
    "Contract",
    "Trace",
    "Truth",
    # What a game or an analysis adds to the report, and a section of your own
    "DetailParts",
    "Table",
    "Figure",
    "Series",
    "Audit",
    "Section",
    # An analysis of your own
    "SweepAnalysis",
    "Variation",
    "Subject",
    "Point",
    "format_measured",
    # What all of these use
    "FloatArray",
    "IntArray",
    "rng_for",
    "check_attack",
    "check_null",
    "FedleakError",
    "DataError",
    "AttackError",
]

_PUBLIC = {
    name: module
    for module, names in {
        "fedleak.api": "audit load read_plan open_trace evaluate Result RecordedRun Difference",
        "fedleak.plan.plan": "Plan",
        "fedleak.results.audit": "Score Audit",
        "fedleak.results.criteria": "Criterion",
        "fedleak.results.detail": "DetailParts Table Figure Series",
        "fedleak.metrics.metric": "Metric YES_NO_METRICS",
        "fedleak.metrics.attack_result": "AttackResult Measured",
        "fedleak.report.section": "Section",
        "fedleak.analyses.sweep_analysis": "SweepAnalysis Variation Subject",
        "fedleak.analyses.curves": "Point format_measured",
        "fedleak.population.datasets.arrays": "ArrayDataset",
        "fedleak.population.population": "Dataset Population User Examples",
        "fedleak.federation.model": "Signature",
        "fedleak.attacks.attack": "Attack",
        "fedleak.attacks.context": "AttackContext",
        "fedleak.attacks.deanonymize.single_layer": "SingleLayerAttack",
        "fedleak.attacks.features": "features fill_missing_candidates",
        "fedleak.views": "adversaries",
        "fedleak.views.adversaries": "Adversary",
        "fedleak.views.view": "View",
        "fedleak.trace.prior": "Prior",
        "fedleak.trace.reader": "Trace",
        "fedleak.trace.truth": "Truth",
        "fedleak.federation.hooks": "Defence",
        "fedleak.games.game": "Game BaseGame OptionGame GameInstance Answers Questions Predictions Headline Contract",
        "fedleak.core": "UserId Task Observation Capability Params Layer FloatArray IntArray rng_for",
        "fedleak.testing": "check_attack check_null",
        "fedleak.errors": "FedleakError DataError AttackError",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fedleak' has no attribute '{name}'")
    module = importlib.import_module(_PUBLIC[name])
    found = getattr(module, name, None) or importlib.import_module(f"{_PUBLIC[name]}.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""Fedleak audits what a federated learning run gives away about the people in it, and what stopping that costs.

    import fedleak

    result = fedleak.audit("demo")

Everything public is in `fedleak.__all__`; it is imported when it is first asked for, so that `import fedleak` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedleak.api import RecordedRun, Result, audit, evaluate, load, open_trace
    from fedleak.attacks.attack import Attack
    from fedleak.errors import FedleakError
    from fedleak.federation.hooks import Defence
    from fedleak.games.game import Game
    from fedleak.plan.plan import Plan
    from fedleak.population.population import Dataset, Examples, Population, User
    from fedleak.results.audit import Score
    from fedleak.testing import check_attack, check_null
    from fedleak.views import adversaries
    from fedleak.views.view import View

__version__ = "0.1.0"
__all__ = [
    "audit",
    "load",
    "open_trace",
    "evaluate",
    "Result",
    "RecordedRun",
    "Score",
    "Plan",
    "View",
    "adversaries",
    "Attack",
    "Game",
    "Defence",
    "Dataset",
    "Population",
    "User",
    "Examples",
    "check_attack",
    "check_null",
    "FedleakError",
]

_PUBLIC = {
    **dict.fromkeys(["audit", "load", "open_trace", "evaluate", "Result", "RecordedRun"], "fedleak.api"),
    "Score": "fedleak.results.audit",
    "Plan": "fedleak.plan.plan",
    "View": "fedleak.views.view",
    "adversaries": "fedleak.views",
    "Attack": "fedleak.attacks.attack",
    "Game": "fedleak.games.game",
    "Defence": "fedleak.federation.hooks",
    **dict.fromkeys(["Dataset", "Population", "User", "Examples"], "fedleak.population.population"),
    **dict.fromkeys(["check_attack", "check_null"], "fedleak.testing"),
    "FedleakError": "fedleak.errors",
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

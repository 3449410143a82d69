"""A plan as plain data with every default, which runs on disk are compared with and plans are read from again."""

from __future__ import annotations

from typing import Any

from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.plan.recorded_run import TRAINING

__all__ = ["resolved"]


def resolved(plan: Plan) -> dict[str, Any]:
    """Every table of a plan; of a recorded run only those that say something about it."""
    powers = {
        "imprint": plan.imprint,
        "inject": plan.inject,
        "isolate": plan.isolate,
        "join": plan.join,
        "proxy": plan.proxy,
    }
    federation = {key: value for key, value in to_dict(plan.federation).items() if (key, value) != ("train", None)}
    # Without these keys at their defaults, plans from before them still describe the runs that they trained.
    unused = {("held_out", 0.0), ("outsiders", 0)}
    population = {key: value for key, value in to_dict(plan.population).items() if (key, value) not in unused}
    dataset = to_dict(plan.dataset)
    what: dict[str, Any]
    if plan.trace is None:
        what = {
            "dataset": dataset,
            "population": population,
            "model": to_dict(plan.model),
            "federation": federation,
            **{name: to_dict(table) for name, table in powers.items() if table is not None},
            "record": to_dict(plan.record),
        }
    else:
        given = plan.prior.data is None and dataset != {"name": "own", "target": None, "background": None}
        what = {
            **({"dataset": dataset} if given else {}),
            "model": to_dict(plan.model),
            "federation": {key: value for key, value in federation.items() if key in TRAINING},
            "trace": to_dict(plan.trace),
            "truth": to_dict(plan.truth),
            "prior": to_dict(plan.prior),
        }
    return {
        "title": plan.title,
        "story": plan.story,
        "seeds": list(plan.seeds),
        **what,
        "audit": to_dict(plan.audit),
        "attack": [to_dict(attack) for attack in plan.attacks],
        "game": [
            to_dict(game) | ({"adversaries": list(plan.players[game.name])} if game.name in plan.players else {})
            for game in plan.games
        ],
        "analysis": [to_dict(analysis) for analysis in plan.analyses],
        "defence": [[to_dict(defence) for defence in alternative] for alternative in plan.defences],
        "deployed": plan.deployed,
        "limits": dict(plan.limits),
        **({"signoff": signoff} if (signoff := _given(plan)) else {}),
    }


def _given(plan: Plan) -> dict[str, Any]:
    return {key: value for key, value in to_dict(plan.signoff).items() if value is not None}

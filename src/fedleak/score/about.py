"""What was audited, in numbers: the users, the model and the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedleak.plan.plan import Plan
from fedleak.trace.run_facts import RunFacts

if TYPE_CHECKING:
    from fedleak.score.assemble import RunResult

__all__ = ["population_facts", "federation_facts"]


def population_facts(plan: Plan, facts: RunFacts) -> dict[str, Any]:
    """The users."""
    counted = {
        "users": facts.users,
        "private examples": facts.private_examples,
        "prior examples": facts.prior_examples,
    }
    if plan.trace is not None:
        return counted
    return {
        **counted,
        "test examples": facts.test_examples,
        "prior": plan.population.prior,
        "split": next((f.action for f in facts.findings if f.kind == "split"), "none"),
        "prior share": plan.population.prior_share,
    }


def federation_facts(plan: Plan, base: RunResult) -> dict[str, Any]:
    """The model and the training; of a recorded run also what trained it."""
    first = base.facts[0]
    model = plan.resolved["model"]
    found: dict[str, Any] = {"model": model["name"], "parameters": first.parameters, "layers": first.layers}
    if plan.trace is not None:
        found["model"] = model.get("target", model["name"])
        found |= {"clients": first.clients, "rounds": first.rounds, "shadow updates": first.shadow_updates}
        found |= {f"trained by: {key}": value for key, value in first.origin.items()}
    else:
        found["clients"] = (1 if plan.population.prior == "none" else 2) * first.users
    return {**found, "updates dropped": sum(f.dropped for f in base.facts), **plan.resolved["federation"]}

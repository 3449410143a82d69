"""What clients have spent of a stated epsilon, in a sentence; terminal and page say the same."""

from __future__ import annotations

from collections.abc import Sequence

from fedleak.core import counted
from fedleak.federation.ledger import Spending
from fedleak.report.formatting import epsilon, run_label
from fedleak.results.audit import Audit

__all__ = ["over_budget", "spent", "spent_by_run"]


def spent(given: Spending) -> str:
    """The client that has spent most, the median, and what is left of a limit."""
    so_far = f" in {counted(given.rounds, 'round')}" if given.rounds else ""
    said = (
        f"Spent{so_far} under {given.stated_by}, at {given.unit} level: epsilon {epsilon(given.worst)} by the worst-"
        f"off client ({counted(given.worst_rounds, 'round')} with it), {epsilon(given.median)} by the median, "
        f"{epsilon(given.least)} by the least of {given.clients} (seed {given.seed})."
    )
    if given.limit is None or given.left is None:
        return said
    if given.left < 0:
        return f"{said} OVER THE LIMIT of {epsilon(given.limit)} by {epsilon(-given.left)}."
    return f"{said} Of the limit of {epsilon(given.limit)}, {epsilon(given.left)} is left."


def spent_by_run(audit: Audit) -> dict[str, list[Spending]]:
    """By the label of a run: one for each defence that states an epsilon, in the seed in which most was spent."""
    found: dict[str, dict[str, Spending]] = {}
    for one in audit.spendings:
        mine = found.setdefault(run_label(one.defence, None), {})
        if one.stated_by not in mine or one.worst > mine[one.stated_by].worst:
            mine[one.stated_by] = one
    return {label: list(by.values()) for label, by in found.items()}


def over_budget(audit: Audit) -> Sequence[str]:
    """One sentence for every limit on epsilon that is exceeded."""
    return [f"[limits.epsilon] {one.unit}: {one.text}" for one in audit.budgets if one.exceeded]

"""The effect of each defence on updates, and its privacy statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.console import Console
from rich.text import Text

from fedleak.federation.ledger import Spending
from fedleak.report import tradeoff
from fedleak.report.formatting import printable, run_label
from fedleak.report.section import Section
from fedleak.report.spending import spent, spent_by_run
from fedleak.results.audit import Audit
from fedleak.results.defence_results import Effect, Promise, Promised

__all__ = ["DefenceEffects", "show_effects"]


class DefenceEffects(Section):
    """Effects measured in the first round, and statements of differential privacy."""

    name: ClassVar[str] = "defences"
    link: ClassVar[str] = "Defences"
    title: ClassVar[str] = "What the defences do"

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """Each effect with its privacy statements, in words."""
        used = spent_by_run(audit)
        changes = [
            (
                effect,
                tradeoff.changes(effect),
                [(promise, tradeoff.promise(promise)) for promise in promises],
                [(one, spent(one)) for one in used.get(run_label(effect.defence, None), [])],
            )
            for effect, promises in _paired(audit.effects, audit.promises)
        ]
        return {"changes": changes} if changes else None

    def show(self, audit: Audit, console: Console) -> None:
        """The same, one line each."""
        show_effects(audit.effects, audit.promises, console, spent_by_run(audit))


def show_effects(
    effects: Sequence[Effect],
    promised: Sequence[Promised],
    console: Console,
    used: Mapping[str, Sequence[Spending]] | None = None,
) -> None:
    """Print how each defence changes the updates, its privacy statements, and what clients have spent."""
    for effect, promises in _paired(effects, promised):
        console.print()
        console.print(Text(printable(tradeoff.changes(effect)), style="bold red" if effect.idle else ""))
        for promise in promises:
            style = "bold red" if promise.contradicted else "dim"
            console.print(Text(f"  {printable(tradeoff.promise(promise))}", style=style))
        for one in (used or {}).get(run_label(effect.defence, None), []):
            style = "bold red" if one.left is not None and one.left < 0 else ""
            console.print(Text(f"  {printable(spent(one))}", style=style))


def _paired(effects: Sequence[Effect], promised: Sequence[Promised]) -> list[tuple[Effect, list[Promise]]]:
    given = {run_label(one.defence, None): one.promises for one in promised}
    return [(one, given.get(run_label(one.defence, None), [])) for one in effects]

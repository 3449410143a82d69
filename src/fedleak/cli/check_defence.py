"""fedleak check-defence: does a defence have an effect, and does its epsilon hold?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from fedleak.cli.options import bar, console, full_option, jobs_option, opened, plan_argument
from fedleak.pipeline.defence_checks import check_defences
from fedleak.report.sections.defence_effects import show_effects

__all__ = ["command"]


@click.command("check-defence")
@plan_argument
@full_option
@jobs_option
def command(plan: str, full: bool, jobs: int | None) -> int:
    """Measure how each defence of PLAN changes one round of updates, and test the epsilon that it states.

    Every client trains once with each defence and once without, and the two updates are compared (cosine similarity,
    norm). Canaries, which are outlying updates or records, then give an empirical lower bound on epsilon. Every audit
    and every sweep includes this check.

    \b
    Examples:
      fedleak check-defence demo
      fedleak check-defence my-plan.toml && fedleak audit my-plan.toml
    """
    chosen, _ = opened(plan, None, full)
    with tempfile.TemporaryDirectory() as folder, bar() as progress:
        effects, promised = check_defences(chosen, Path(folder), progress, jobs)
    show_effects(effects, promised, console())
    broken = any(one.idle for one in effects) or any(p.contradicted for run in promised for p in run.promises)
    return 3 if broken else 0

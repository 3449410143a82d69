"""The Python interface: what `import fedleak` offers.

import fedleak

result = fedleak.audit("demo")
for score in result.scores:
print(score.attack, score.verdict)
"""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedleak import registry
from fedleak.analyses.analysis import analyse, check
from fedleak.attacks.attack import Attack
from fedleak.errors import AttackError, FedleakError
from fedleak.games.game import Game
from fedleak.metrics.attack_result import AttackResult
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import play
from fedleak.pipeline.recorded import plan_of, recorded, score_key
from fedleak.pipeline.runs import Run, Variant
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan, trained_part
from fedleak.plan.read import load_plan, parse
from fedleak.plan.shipped import find
from fedleak.report import html_page as page
from fedleak.report import results_file
from fedleak.report.names import with_names
from fedleak.results.audit import Audit, Score
from fedleak.score.compare import Difference, difference
from fedleak.score.score import measure_all, metric_of, scores_of
from fedleak.trace.reader import Trace
from fedleak.views.adversaries import Adversary, weakest
from fedleak.views.view import View

if TYPE_CHECKING:
    import pandas

__all__ = ["Result", "RecordedRun", "Difference", "audit", "evaluate", "load", "open_trace", "read_plan"]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an audit. In a notebook it shows itself as the report."""

    audit: Audit
    folder: Path
    plan: Plan | None = None  # None where it was read back from a folder

    @property
    def scores(self) -> list[Score]:
        """Every score, with its interval and its chance level."""
        return self.audit.scores

    @property
    def warnings(self) -> list[str]:
        """What must be read before any verdict; empty if nothing must."""
        return self.audit.warnings

    def to_frame(self) -> pandas.DataFrame:
        """The scores as a pandas DataFrame, one row each (extra `frames`)."""
        try:
            import pandas
        except ImportError as error:
            raise FedleakError("to_frame needs pandas: pip install 'fedleak[frames]'") from error
        columns = [name for name in Score.__struct_fields__ if name != "utility"]
        rows = [{name: getattr(score, name) for name in columns} for score in self.scores]
        utility = [None if score.utility is None else score.utility.value for score in self.scores]
        return pandas.DataFrame(rows, columns=columns).assign(utility=utility)

    def compare(self, other: Result) -> list[Difference]:
        """Every score that both results have, here minus there, with an interval of the difference.

        Where both folders still hold their runs and the same users were asked about, users are resampled together.
        """
        mine, theirs = self._recorded(), other._recorded()
        same = trained_part(self.audit.resolved) == trained_part(other.audit.resolved)
        there = {(score_key(score), score.metric): score for score in other.scores}
        pairs = [(score, there.get((score_key(score), score.metric))) for score in self.scores]
        found = []
        for score, match in pairs:
            if match is not None:
                game, own = mine.get(score_key(score), (None, None))
                _, others = theirs.get(score_key(score), (None, None))
                metric = metric_of(game, score.metric) if game else None
                found.append(difference(score, match, metric, own, others, same_runs=same))
        if not found:
            raise FedleakError(
                f"{self.folder} and {other.folder} have no score in common: attack, game, adversary, metric, defence "
                "and control must be the same in both"
            )
        return found

    def _recorded(self) -> dict[str, tuple[Game, list[AttackResult]]]:
        try:
            plan = self.plan or plan_of(self.audit.resolved, str(self.folder))
        except FedleakError:  # it names something that is not installed here
            return {}
        return recorded(plan, self.folder)

    def _repr_html_(self) -> str:
        """The report in a frame of its own, so that neither page's style reaches the other."""
        inner = html.escape(page.render(self.audit), quote=True)
        return f'<iframe srcdoc="{inner}" style="width: 100%; height: 45rem; border: 0" sandbox></iframe>'


class _Silent:
    """Progress that nobody watches."""

    def stage(self, text: str, units: float) -> None:
        pass

    def tick(self, units: float) -> None:
        pass


def audit(
    plan: str | Path | Mapping[str, Any] | Plan,
    out: str | Path | None = None,
    *,
    full: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Train, attack, score and report everything that a plan asks for; rerun to resume.

    Args:
        plan: the path of a TOML file, the name of a shipped plan, a dict with the keys of such a file, or a Plan. In a
            dict, objects may stand for tables: an attack, a defence, a data set, a torch module. Objects cannot cross
            into other processes, so such a plan runs in this one.
        out: the output folder; by default `fedleak-NAME` in the current one.
        full: run the plan's [full] setting; only for files and shipped plans.
        jobs: processes at a time; one for each core by default, and always one with objects.
        progress: told about each stage and what is done of it.
    """
    chosen, name = _plan(plan, full)
    check(chosen)
    folder = Path(out) if out is not None else Path(f"fedleak-{name}")
    watched = progress or _Silent()
    if chosen.in_process:
        if jobs is not None and jobs > 1:
            warnings.warn(f"jobs={jobs}: the plan holds objects, so it runs in this process alone", stacklevel=2)
        jobs = 1
    found = stages.audit(chosen, folder, watched, jobs)
    for look in chosen.analyses:
        analyse(look, chosen, folder, watched, jobs)
    return Result(results_file.read_results(folder) if chosen.analyses else found, folder, chosen)


def read_plan(plan: str | Path | Mapping[str, Any] | Plan, *, full: bool = False) -> Plan:
    """Read and check a plan without running it: everything that `audit` takes."""
    return _plan(plan, full)[0]


def load(folder: str | Path, *, names: bool = False) -> Result:
    """Read the result of an audit back from its output folder; `names` shows users' names instead of pseudonyms."""
    found = results_file.read_results(Path(folder))
    return Result(with_names(found, Path(folder)) if names else found, Path(folder))


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One trained federation on disk: a folder with a trace, its truth and the adversary's prior."""

    folder: Path
    seed: int

    @property
    def trace(self) -> Trace:
        """Everything that was recorded, whoever could see it; an attack gets a view."""
        return Trace.open(self.folder / "trace")

    def view(self, adversary: Adversary) -> View:
        """What one adversary observes of the run, and nothing else."""
        return View(self.folder / "trace", adversary)


def open_trace(folder: str | Path) -> RecordedRun:
    """Open a run of an audit, for instance `fedleak-demo/runs/plain/seed-0`."""
    path = Path(folder)
    Trace.open(path / "trace")  # refuse what is none before anybody relies on it
    seed = re.fullmatch(r"seed-(\d+)", path.name)
    return RecordedRun(path, int(seed.group(1)) if seed else 0)


def evaluate(
    attack: Attack,
    trace: RecordedRun | str | Path,
    game: Game | str | None = None,
    adversary: Adversary | str | None = None,
    *,
    level: float = 0.95,
    permutations: int = 200,
) -> list[Score]:
    """Run an attack on a recorded run and score it: one score for each metric of the game.

    Args:
        attack: an attack object, registered or not.
        trace: what `open_trace` returned, or the folder of a run.
        game: a game object or the name of a game; by default the attack's own.
        adversary: who runs it; by default the one that observes least and can still run it.
        level: of the intervals.
        permutations: how often identities are permuted to find the chance level.
    """
    opened = trace if isinstance(trace, RecordedRun) else open_trace(trace)
    name = attack.game if game is None else game
    asked = registry.load("game", name)() if isinstance(name, str) else name
    if asked.name != attack.game:
        raise AttackError(f"attack '{attack.name}' answers the game '{attack.game}', not '{asked.name}'")
    who = _adversary(attack, adversary)
    run = Run(variant=Variant(), seed=opened.seed, folder=opened.folder, fingerprint="")
    played = [play(run, attack, asked, who)]
    measured = measure_all(played, asked, level=level, permutations=permutations)
    labels = {"attack": attack.name, "adversary": who.name, "game": asked.name}
    return list(scores_of(measured, asked, level, [opened.seed], **labels).values())


def _plan(plan: str | Path | Mapping[str, Any] | Plan, full: bool) -> tuple[Plan, str]:
    if isinstance(plan, Plan):
        return plan, Path(plan.source).stem
    if isinstance(plan, Mapping):
        return parse("", "plan", plan), "audit"
    path = find(str(plan))
    return load_plan(path, full=full), f"{path.stem}{'-full' if full else ''}"


def _adversary(attack: Attack, adversary: Adversary | str | None) -> Adversary:
    if isinstance(adversary, str):
        named: Adversary = registry.load("adversary", adversary)
        return _adversary(attack, named)
    if adversary is None:
        able = weakest(attack)
        if able is None:
            raise AttackError(f"attack '{attack.name}': no registered adversary can run it; name one of your own")
        return able
    if missing := adversary.missing(attack):
        raise AttackError(f"attack '{attack.name}' needs {missing}, which adversary '{adversary.name}' lacks")
    return adversary

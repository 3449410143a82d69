"""What an audit does not cover, so that missing results are not read as safety.

Only what could have been tested here is listed, by what it would take; everything else is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fedleak import registry
from fedleak.core import counted
from fedleak.plan.plan import Plan
from fedleak.results.audit import Untested
from fedleak.score.labels import label, settings_key
from fedleak.score.score import unmeasured
from fedleak.trace.run_facts import RunFacts

if TYPE_CHECKING:
    from fedleak.score.assemble import RunResult

__all__ = ["missing_strongest", "untested", "too_little"]

ATTACK, ADVERSARY, PRIOR = "another [[attack]] in the plan", "another adversary", "another choice of prior data"
RUNS, DATA = "more runs", "other data"


def missing_strongest(plan: Plan) -> dict[tuple[str, str], str]:
    """The strongest attack of each game, by adversary, where that adversary can run it and the plan does not."""
    played = {attack.name for attack in plan.attacks}
    return {
        (adversary.name, label(game, plan.games)): game.strongest
        for game in plan.games
        for adversary in plan.adversaries_of(game.name)
        if game.strongest is not None
        and game.strongest not in played
        and not adversary.missing(registry.load("attack", game.strongest))
    }


def untested(plan: Plan, facts: RunFacts) -> list[Untested]:
    """What these users, this model and these runs would have allowed to test, by what it would take."""
    found = [*_other_attacks(plan, facts), *_other_adversaries(plan)]
    if plan.trace is not None:
        found += _untrained()
    elif len(plan.seeds) < 3:
        found.append(
            Untested(
                what="variation between runs", why=f"the plan has only {counted(len(plan.seeds), 'seed')}", needs=RUNS
            )
        )
    if not plan.audit.controls:
        found.append(Untested(what="artefacts of the set-up", why="the plan runs no control", needs=RUNS))
    return found


def _other_attacks(plan: Plan, facts: RunFacts) -> list[Untested]:
    """Every attack that the plan does not run, with its game."""
    played = {attack.name for attack in plan.attacks}
    able: dict[tuple[str, str], list[str]] = {}
    unfit: dict[str, list[str]] = {}
    for name in registry.names("attack"):
        attack: Any = registry.load("attack", name)
        game: Any = registry.load("game", attack.game)
        if name in played:
            continue
        if lacking := _lacking(attack, game, facts):
            unfit.setdefault(lacking, []).append(name)
        elif not _prior_fits(plan, game):
            able.setdefault((PRIOR, attack.game), []).append(name)
        elif any(not adversary.missing(attack) for adversary in plan.adversaries):
            able.setdefault((ATTACK, attack.game), []).append(name)
        else:
            able.setdefault((ADVERSARY, attack.game), []).append(name)
    found = [
        Untested(what=", ".join(names), why=_question(game, needs), needs=needs)
        for (needs, game), names in sorted(able.items(), key=lambda item: _ORDER.index(item[0][0]))
    ]
    if unfit:
        count = sum(map(len, unfit.values()))
        text = f"they need {_listed(unfit)}, which this audit does not have"
        found.append(Untested(what=counted(count, "other attack"), why=text, needs=DATA))
    return found


_ORDER = (ATTACK, ADVERSARY, PRIOR)


def _question(name: str, needs: str) -> str:
    game: Any = registry.load("game", name)
    if needs == PRIOR:
        without = "prior data of the users" if game.needs_prior else 'an adversary without prior data (prior = "none")'
        return f"{game.summary} This needs {without}."
    return str(game.summary)


def _lacking(attack: Any, game: Any, facts: RunFacts) -> str:
    """What of the data an attack needs and this audit does not have; empty if nothing, or if it is not recorded."""
    if facts.offers is None:
        return ""
    missing = [name for name in getattr(game, "needs_data", ()) if name not in facts.offers]
    if missing:
        return _WORDS.get(missing[0], str(missing[0]))
    if facts.task and facts.task not in {task.value for task in attack.tasks}:
        return f"a model for {' or '.join(task.value for task in attack.tasks)}"
    return ""


_WORDS = {
    "records": "secrets in users' texts",
    "attributes": "attributes of the users",
    "traits": "traits of examples",
    "background": "data of other users",
    "images": "images",
}


def _prior_fits(plan: Plan, game: Any) -> bool:
    if plan.trace is not None:
        known = plan.prior.data is not None or "dataset" in plan.resolved
    else:
        known = plan.population.prior != "none"
    hides = known and getattr(game, "hides_prior", False)
    return game.needs_prior is None or bool(game.needs_prior) == known or hides


def _other_adversaries(plan: Plan) -> list[Untested]:
    """The adversaries as whom the plan's own attacks could have been run too."""
    mine = {adversary.name for adversary in plan.adversaries}
    others = [registry.load("adversary", name) for name in registry.names("adversary") if name not in mine]
    able = [one.name for one in others if any(not one.missing(attack) for attack in plan.attacks)]
    found = []
    if able:
        why = "they could have run some of the plan's attacks"
        found.append(Untested(what=", ".join(able), why=why, needs=ADVERSARY))
    found += [
        Untested(what=f"{attack.name} as {adversary.name}", why=f"this adversary lacks {missing}", needs=ADVERSARY)
        for attack in plan.attacks
        for adversary in plan.adversaries_of(attack.game)
        if (missing := adversary.missing(attack))
    ]
    found += [
        Untested(
            what=f"{game} as {adversary.name}", why=f"the plan gives it to {', '.join(theirs)} only", needs=ADVERSARY
        )
        for game, theirs in plan.players.items()
        for adversary in plan.adversaries
        if adversary.name not in theirs
    ]
    return found


def _listed(names: Iterable[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} or {last}" if rest else last


def _untrained() -> list[Untested]:
    """What only a federation that is trained again could show."""
    like = "`fedleak simulate-like RUN` writes a plan that trains such a federation"
    return [
        Untested(what=what, why=f"{why}; {like}", needs="a federation that is trained again")
        for what, why in (
            ("variation between runs", "the recorded run happened once"),
            ("controls iid and fresh-data", "they need another training than the recorded one"),
            ("defences", "the clients of a recorded run have sent what they sent"),
            ("utility of the model", "no test data belongs to a recorded run"),
        )
    ]


def too_little(plan: Plan, runs: Sequence[RunResult]) -> list[Untested]:
    """The parts of games that the recorded rounds do not suffice for; each once, with the runs it is missing in."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        where = run.control or " and ".join(defence.name for defence in run.defences) or "the undefended run"
        for attack, game, adversary in plan.plays:
            played = run.played.get(settings_key(attack, game, adversary), [])
            for title, why in unmeasured(played, game).items() if len(played) == len(run.facts) else ():
                found.setdefault((f"game {label(game, plan.games)}, {title}", why), []).append(where)
    return [
        Untested(what=f"{what} ({', '.join(dict.fromkeys(where))})", why=why, needs=RUNS)
        for (what, why), where in found.items()
    ]

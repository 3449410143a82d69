"""What an audit does not cover, so that missing results are not read as safety."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedleak import registry
from fedleak.plan.plan import Plan
from fedleak.results.audit import Untested
from fedleak.score.labels import label, settings_key
from fedleak.score.score import unmeasured

if TYPE_CHECKING:
    from fedleak.score.assemble import RunResult

__all__ = ["missing_strongest", "untested", "too_little"]


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


def untested(plan: Plan) -> list[Untested]:
    """List what the audit does not cover, so that missing results are not read as safety."""
    played = {attack.name for attack in plan.attacks}
    seen_by = {adversary.name for adversary in plan.adversaries}
    rest = [
        Untested(what=f"attack {name}", why="not in the plan")
        for name in registry.names("attack")
        if name not in played
    ]
    rest += [
        Untested(what=f"adversary {name}", why="not in the plan")
        for name in registry.names("adversary")
        if name not in seen_by
    ]
    rest += [
        Untested(what=f"attack {attack.name} as {adversary.name}", why=f"this adversary lacks {missing}")
        for attack in plan.attacks
        for adversary in plan.adversaries_of(attack.game)
        if (missing := adversary.missing(attack))
    ]
    rest += [
        Untested(what=f"game {game} as {adversary.name}", why=f"the plan gives it to {', '.join(theirs)} only")
        for game, theirs in plan.players.items()
        for adversary in plan.adversaries
        if adversary.name not in theirs
    ]
    asked = {game.name for game in plan.games}
    rest += [
        Untested(what=f"game {name}", why=f"no attack of the plan is for it: {registry.load('game', name).summary}")
        for name in registry.names("game")
        if name not in asked
    ]
    if plan.trace is not None:
        rest += _untrained()
    elif len(plan.seeds) < 3:
        rest.append(Untested(what="variation between runs", why=f"the plan has only {len(plan.seeds)} seed(s)"))
    if not plan.audit.controls:
        rest.append(Untested(what="artefacts of the set-up", why="the plan runs no control"))
    rest.append(
        Untested(
            what="questions that no game asks",
            why="an audit answers only the questions of its games",
        )
    )
    return rest


def _untrained() -> list[Untested]:
    """What only a federation that is trained again could show."""
    like = "`fedleak simulate-like RUN` writes a plan that trains such a federation"
    return [
        Untested(what="variation between runs", why=f"the recorded run happened once; {like} with several seeds"),
        Untested(what="controls iid and fresh-data", why=f"they need another training than the recorded one; {like}"),
        Untested(what="defences", why=f"the clients of a recorded run have sent what they sent; {like} with defences"),
        Untested(what="utility of the model", why=f"no test data belongs to a recorded run; {like} and measures it"),
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
        Untested(what=f"{what} ({', '.join(dict.fromkeys(where))})", why=why) for (what, why), where in found.items()
    ]

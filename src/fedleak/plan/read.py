"""Read a plan: TOML in, a validated Plan out, or one line that says what is wrong and where."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fedleak import registry
from fedleak.errors import PlanError, did_you_mean
from fedleak.plan.alternatives import parts, written_out
from fedleak.plan.capabilities import granted
from fedleak.plan.checks import buildable, fitting, paired, refuse_multiple, refuse_twice, unmoved
from fedleak.plan.code import dataset_table, model_table
from fedleak.plan.configure import configure, convert, to_dict
from fedleak.plan.given import given, holds_object, portable
from fedleak.plan.limits import limits
from fedleak.plan.plan import (
    AuditPlan,
    Control,
    FederationPlan,
    Plan,
    PopulationPlan,
    PriorPlan,
    RecordPlan,
    TracePlan,
    TruthPlan,
)
from fedleak.plan.recorded_run import possible_controls, refuse_untrained, require
from fedleak.plan.resolved import resolved
from fedleak.plan.signoff_table import SignoffPlan
from fedleak.plan.together import check_together

if TYPE_CHECKING:
    from fedleak.attacks.attack import Attack
    from fedleak.federation.hooks import Defence
    from fedleak.federation.model import Architecture
    from fedleak.games.game import Game
    from fedleak.population.population import Dataset

__all__ = ["load_plan", "parse"]

_TOP: Mapping[str, Any] = {
    "title": str,
    "story": str,
    "seeds": Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)],
    "dataset": dict,
    "population": dict,
    "model": dict,
    "federation": dict,
    "trace": dict,
    "truth": dict,
    "prior": dict,
    "imprint": dict,
    "inject": dict,
    "isolate": dict,
    "join": dict,
    "proxy": dict,
    "record": dict,
    "audit": dict,
    "attack": list,
    "game": list,
    "analysis": list,
    "defence": list,
    "limits": dict,
    "signoff": dict,
    "full": dict,
}
_NAMES = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


def load_plan(path: Path, *, full: bool = False) -> Plan:
    """Read and validate a plan file; `full` applies its [full] table."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanError(f"{path}: no such plan (fedleak list plans shows the shipped ones)") from None
    except IsADirectoryError:
        run = "; name the plan that audits this recorded run" if (path / "trace" / "header.json").exists() else ""
        raise PlanError(f"{path}: is a folder, not a plan{run}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from error
    change: Mapping[str, Any] = {}
    if full:
        change = convert(toml(text, str(path)).get("full", {}), dict, f"{path}: full")
        if not change:
            raise PlanError(f"{path}: has no table [full]; add one, or run without --full")
    return parse(text, str(path), change)


def parse(text: str, source: str = "plan", change: Mapping[str, Any] | None = None) -> Plan:
    """Validate the text of a plan; `source` is named in errors, and `change` replaces keys by tables or objects."""
    change = portable(change or {})
    top, in_process = checked(merged(toml(text, source), change), source)
    trace = configure(TracePlan, top["trace"], f"{source} [trace]") if "trace" in top else None
    truth = configure(TruthPlan, top.get("truth", {}), f"{source} [truth]")
    prior = configure(PriorPlan, top.get("prior", {}), f"{source} [prior]")
    if trace is not None:
        refuse_untrained(top, source)
    population = configure(PopulationPlan, top.get("population", {}), f"{source} [population]")
    refuse_multiple(top.get("audit", {}), f"{source} [audit]")
    audit = configure(AuditPlan, top.get("audit", {}), f"{source} [audit]")
    dataset: Dataset = component("dataset", dataset_table(top, prior), f"{source} [dataset]")
    model: Architecture = component("model", model_table(top["model"]), f"{source} [model]")
    attacks: tuple[Attack, ...] = components("attack", top, source)
    if not attacks:
        raise PlanError(f"{source}: no [[attack]] given")
    games, players = chosen_games(top.get("game", []), attacks, audit.adversaries, source)
    defences, deployed = chosen_defences(top.get("defence", []), model, source)
    adversaries = tuple(named("adversary", name, f"{source} [audit] adversaries") for name in audit.adversaries)
    paired(attacks, adversaries, players, source)
    capabilities = granted(top, attacks, adversaries, games, source)
    unmoved(games, attacks, capabilities, source)
    buildable(attacks, model, capabilities["isolate"], source)
    if audit.controls == "auto":
        usual = [game.controls if trace is None else possible_controls(game) for game in games]
        needed = list(dict.fromkeys(first for first, *_ in filter(None, usual)))
        audit = replace(audit, controls=convert(needed, tuple[Control, ...], f"{source} [audit] controls"))
    if trace is None:
        given = len(top.get("seeds", ()))
        fitting(games, population, audit, source, stated="prior" in top.get("population", {}), seeds=given)
    else:
        require(games, truth, prior, top, audit, source)
    plan = Plan(
        title=top.get("title", source),
        story=top.get("story", ""),
        seeds=top.get("seeds", (0,)),
        dataset=dataset,
        population=population,
        model=model,
        federation=configure(FederationPlan, top.get("federation", {}), f"{source} [federation]"),
        trace=trace,
        truth=truth,
        prior=prior,
        **capabilities,
        record=configure(RecordPlan, top.get("record", {}), f"{source} [record]"),
        audit=audit,
        attacks=attacks,
        games=games,
        players=players,
        adversaries=adversaries,
        analyses=components("analysis", top, source),
        defences=defences,
        deployed=deployed,
        limits=limits(top.get("limits", {}), games, f"{source} [limits]", deployed=deployed is not None),
        signoff=configure(SignoffPlan, top.get("signoff", {}), f"{source} [signoff]"),
        text=text,
        source=source,
        change=change,
        in_process=in_process,
    )
    found = resolved(plan)
    refuse_twice([analysis["name"] for analysis in found["analysis"]], f"{source} [[analysis]]")
    for key in ("attack", "defence"):
        refuse_twice(found[key], f"{source} [[{key}]]")
    refuse_twice([to_dict(game) for game in games], f"{source} [[game]]")
    refuse_twice(plan.seeds, f"{source}: seeds")
    return replace(plan, resolved=found)


def checked(raw: Mapping[str, Any], source: str) -> tuple[dict[str, Any], bool]:
    """The keys of a plan, after rejecting unknown and missing ones, and whether some hold objects.

    A change to None removes a key; TOML itself has no such value.
    """
    raw = {key: value for key, value in raw.items() if value is not None}
    for key in raw:
        if key not in _TOP:
            raise PlanError(f"{source}: unknown key '{key}'{did_you_mean(key, _TOP)}")
    objects = {key: value for key, value in raw.items() if holds_object(key, value)}
    top = {key: objects[key] if key in objects else convert(raw[key], _TOP[key], f"{source}: {key}") for key in raw}
    for key in ("dataset", "model", "attack"):
        if key not in top and not (key == "dataset" and "trace" in top):
            raise PlanError(f"{source}: missing table [{key}]" if key != "attack" else f"{source}: no [[attack]] given")
    return top, bool(objects)


def toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{source}: not valid TOML: {error}") from error


def merged(table: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Replace keys of a table, recursively in tables that both have; a list is replaced as a whole.

    >>> merged({"population": {"users": 10, "prior": "album"}}, {"population": {"users": 300}})
    {'population': {'users': 300, 'prior': 'album'}}
    """
    result = dict(table)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def chosen_games(
    tables: Sequence[Any], attacks: Sequence[Attack], everyone: Sequence[str], source: str
) -> tuple[tuple[Game, ...], dict[str, tuple[str, ...]]]:
    """The games of [[game]], and their adversaries where these are not `everyone`.

    The game of an attack without a table gets its defaults.
    """
    games: list[Game] = []
    players: dict[str, tuple[str, ...]] = {}
    for i, table in enumerate(tables, 1):
        where = f"{source} [[game]] {i}"
        theirs = table.get("adversaries") if isinstance(table, Mapping) else None
        games.append(component("game", _without(table, "adversaries"), where))
        if theirs is None:
            continue
        name = games[-1].name
        players[name] = convert(theirs, _NAMES, f"{where} adversaries")
        for one in players[name]:
            if one not in everyone:
                raise PlanError(
                    f"{where} adversaries: '{one}' is not in [audit] adversaries{did_you_mean(one, everyone)}"
                )
        if sum(game.name == name for game in games) > 1:
            raise PlanError(f"{where} adversaries: '{name}' has several tables; only a game with one can have its own")
    played = {attack.game: attack.name for attack in attacks}
    for i, game in enumerate(games, 1):
        if game.name not in played:
            raise PlanError(
                f"{source} [[game]] {i}: no [[attack]] of this plan is for '{game.name}'; add one, or remove the game"
            )
    given = {game.name for game in games}
    for name, attack in played.items():
        if name not in given:
            games.append(component("game", {"name": name}, f"{source}: [[game]] '{name}', the game of '{attack}'"))
    return tuple(games), players


def _without(table: Any, key: str) -> Any:
    return {k: v for k, v in table.items() if k != key} if isinstance(table, Mapping) else table


def named(kind: registry.Kind, name: Any, where: str) -> Any:
    """Look up a name; errors give the place in the plan."""
    if not isinstance(name, str):
        raise PlanError(f"{where}: missing key 'name'; known: {', '.join(registry.names(kind))}")
    try:
        return registry.load(kind, name)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from error


def component(kind: registry.Kind, table: Any, where: str) -> Any:
    """Build a registered component from its table (`name` chooses it, the other keys are its settings) or object."""
    if not isinstance(table, Mapping):
        return given(kind, table, where)
    cls = named(kind, table.get("name"), where)
    return configure(cls, {key: value for key, value in table.items() if key != "name"}, where)


def components(kind: registry.Kind, top: Mapping[str, Any], source: str) -> tuple[Any, ...]:
    """One for each table of a list, for instance [[attack]]."""
    return tuple(component(kind, table, f"{source} [[{kind}]] {i}") for i, table in enumerate(top.get(kind, []), 1))


def chosen_defences(
    tables: Sequence[Any], model: Architecture, source: str
) -> tuple[tuple[tuple[Defence, ...], ...], int | None]:
    """The alternatives of [[defence]], each one or more combined defences, and the index of the deployed one."""
    alternatives = written_out(tables, source)
    chosen = []
    for where, table in alternatives:
        if isinstance(table, Mapping):
            own, also = parts(table, where)
            others = [component("defence", t, f"{where} also {i}") for i, t in enumerate(also, 1)]
            chosen.append((component("defence", own, where), *others))
        else:  # an object, or several that are combined
            several = table if isinstance(table, list) else [table]
            chosen.append(tuple(component("defence", one, where) for one in several))
        check_together(chosen[-1], where, model)
    deployed = [
        i
        for i, (where, table) in enumerate(alternatives)
        if isinstance(table, Mapping) and convert(table.get("deployed", False), bool, f"{where} deployed")
    ]
    if len(deployed) > 1:
        raise PlanError(f"{source} [[defence]]: only one can be deployed; combine several with also = [...]")
    return tuple(chosen), deployed[0] if deployed else None

"""Read a plan: TOML in, a validated Plan out, or one line that says what is wrong and where."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fedleak import registry
from fedleak.core import flag_names
from fedleak.errors import PlanError, did_you_mean
from fedleak.plan.alternatives import parts, written_out
from fedleak.plan.capabilities import granted
from fedleak.plan.configure import configure, convert, to_dict
from fedleak.plan.plan import AuditPlan, FederationPlan, Plan, PopulationPlan, RecordPlan
from fedleak.plan.together import check_together

__all__ = ["read", "parse"]

_TOP = {
    "title": str,
    "story": str,
    "seeds": Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)],
    "dataset": dict,
    "population": dict,
    "model": dict,
    "federation": dict,
    "inject": dict,
    "isolate": dict,
    "join": dict,
    "record": dict,
    "audit": dict,
    "attack": list,
    "game": list,
    "analysis": list,
    "defence": list,
    "limits": dict,
    "full": dict,
}


def read(path: Path, *, full: bool = False) -> Plan:
    """Read and validate a plan file; `full` applies its [full] table."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanError(f"{path}: no such plan (fedleak list plans shows the shipped ones)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from error
    change: Mapping[str, Any] = {}
    if full:
        change = convert(toml(text, str(path)).get("full", {}), dict, f"{path}: full")
        if not change:
            raise PlanError(f"{path}: has no table [full]; add one, or run without --full")
    return parse(text, str(path), change)


def parse(text: str, source: str = "plan", change: Mapping[str, Any] | None = None) -> Plan:
    """Validate the text of a plan; `source` is named in errors, and `change` replaces keys of it."""
    # A change to None removes a key; TOML itself has no such value.
    raw = {key: value for key, value in merged(toml(text, source), change or {}).items() if value is not None}
    for key in raw:
        if key not in _TOP:
            raise PlanError(f"{source}: unknown key '{key}'{did_you_mean(key, _TOP)}")
    top = {key: convert(value, _TOP[key], f"{source}: {key}") for key, value in raw.items()}
    for key in ("dataset", "model", "attack"):
        if key not in top:
            raise PlanError(f"{source}: missing table [{key}]" if key != "attack" else f"{source}: no [[attack]] given")

    model_table = dict(top["model"])
    if ":" in str(model_table.get("name", "")):  # module:callable, the user's own
        model_table = {**model_table, "name": "own", "target": model_table["name"]}
    settings = {
        name: configure(cls, top.get(name, {}), f"{source} [{name}]")
        for name, cls in (
            ("population", PopulationPlan),
            ("federation", FederationPlan),
            ("record", RecordPlan),
            ("audit", AuditPlan),
        )
    }
    audit = settings["audit"]
    assert isinstance(audit, AuditPlan)
    dataset = component("dataset", top["dataset"], f"{source} [dataset]")
    model = component("model", model_table, f"{source} [model]")
    attacks = tuple(component("attack", t, f"{source} [[attack]] {i}") for i, t in enumerate(top["attack"], 1))
    if not attacks:
        raise PlanError(f"{source}: no [[attack]] given")
    games = chosen_games(top.get("game", []), attacks, source)
    alternatives = written_out(top.get("defence", []), source)
    defences = tuple(alternative(table, where) for where, table in alternatives)
    for (where, _), chosen in zip(alternatives, defences, strict=True):
        check_together(chosen, where, model)
    adversaries = tuple(named("adversary", name, f"{source} [audit] adversaries") for name in audit.adversaries)
    paired(attacks, adversaries, source)
    capabilities = granted(top, attacks, adversaries, games, source)
    population = settings["population"]
    assert isinstance(population, PopulationPlan)
    if audit.controls == "auto":
        audit = replace(audit, controls=tuple(dict.fromkeys(game.controls[0] for game in games)))
        settings["audit"] = audit
    fitting(games, population, audit, source)
    deployed = [
        i
        for i, (where, table) in enumerate(alternatives)
        if convert(table.get("deployed", False), bool, f"{where} deployed")
    ]
    if len(deployed) > 1:
        raise PlanError(f"{source} [[defence]]: only one can be deployed; combine several with also = [...]")
    analyses = tuple(
        component("analysis", t, f"{source} [[analysis]] {i}") for i, t in enumerate(top.get("analysis", []), 1)
    )
    refuse_twice([to_dict(a)["name"] for a in analyses], f"{source} [[analysis]]")
    refuse_twice([to_dict(a) for a in attacks], f"{source} [[attack]]")
    refuse_twice([to_dict(g) for g in games], f"{source} [[game]]")
    refuse_twice([[to_dict(d) for d in a] for a in defences], f"{source} [[defence]]")
    refuse_twice(list(top.get("seeds", ())), f"{source}: seeds")
    resolved = {
        "title": top.get("title", source),
        "story": top.get("story", ""),
        "seeds": list(top.get("seeds", (0,))),
        "dataset": to_dict(dataset),
        "population": to_dict(settings["population"]),
        "model": to_dict(model),
        "federation": to_dict(settings["federation"]),
        **{name: to_dict(table) for name, table in capabilities.items() if table is not None},
        "record": to_dict(settings["record"]),
        "audit": to_dict(audit),
        "attack": [to_dict(a) for a in attacks],
        "game": [to_dict(g) for g in games],
        "analysis": [to_dict(a) for a in analyses],
        "defence": [[to_dict(d) for d in a] for a in defences],
        "deployed": deployed[0] if deployed else None,
        "limits": limits(top.get("limits", {}), f"{source} [limits]"),
    }
    return Plan(
        title=resolved["title"],
        story=resolved["story"],
        seeds=tuple(resolved["seeds"]),
        dataset=dataset,
        model=model,
        attacks=attacks,
        games=games,
        analyses=analyses,
        adversaries=adversaries,
        defences=defences,
        deployed=resolved["deployed"],
        limits=resolved["limits"],
        text=text,
        source=source,
        change=change or {},
        resolved=resolved,
        **capabilities,
        **settings,  # type: ignore[arg-type]
    )


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


def chosen_games(tables: Sequence[Any], attacks: Sequence[Any], source: str) -> tuple[Any, ...]:
    """The games of [[game]]; the game of an attack without a table gets its defaults."""
    games = [component("game", table, f"{source} [[game]] {i}") for i, table in enumerate(tables, 1)]
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
    return tuple(games)


def named(kind: registry.Kind, name: Any, where: str) -> Any:
    """Look up a name; errors give the place in the plan."""
    if not isinstance(name, str):
        raise PlanError(f"{where}: missing key 'name'; known: {', '.join(registry.names(kind))}")
    try:
        return registry.load(kind, name)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from error


def component(kind: registry.Kind, table: Any, where: str) -> Any:
    """Build a registered component from its table: `name` chooses it, the other keys are its settings."""
    if not isinstance(table, Mapping):
        raise PlanError(f"{where}: expected a table with a name")
    cls = named(kind, table.get("name"), where)
    return configure(cls, {key: value for key, value in table.items() if key != "name"}, where)


def alternative(table: Any, where: str) -> tuple[Any, ...]:
    """One [[defence]]: a defence, and those combined with it by `also = [{name = ...}]`."""
    own, also = parts(table, where)
    first = component("defence", own, where)
    return (first, *(component("defence", t, f"{where} also {i}") for i, t in enumerate(also, 1)))


def playable(attack: Any, adversary: Any, source: str) -> None:
    """Reject an attack that its adversary cannot run, and say which adversaries can."""
    lacking = adversary.missing(attack)
    if not lacking:
        return
    able = [name for name in registry.names("adversary") if not registry.load("adversary", name).missing(attack)]
    needed = " and ".join(
        [
            flag_names(attack.needs),
            *([f"the capability to {flag_names(attack.capabilities)}"] if attack.capabilities else []),
        ]
    )
    raise PlanError(
        f"{source} [audit]: attack '{attack.name}' needs {needed}; adversary '{adversary.name}' lacks "
        f"{lacking}. Choose one that has it: {', '.join(able) or 'none'} (fedleak list --matrix)"
    )


def paired(attacks: Sequence[Any], adversaries: Sequence[Any], source: str) -> None:
    """Reject an attack that no adversary of the plan can run, and an adversary that can run none of its attacks."""
    for attack in attacks:
        if all(adversary.missing(attack) for adversary in adversaries):
            playable(attack, adversaries[0], source)
    for adversary in adversaries:
        if all(adversary.missing(attack) for attack in attacks):
            playable(attacks[0], adversary, source)


def fitting(games: Sequence[Any], population: PopulationPlan, audit: AuditPlan, source: str) -> None:
    """Reject a game without the prior it needs, or with a prior that gives the answer, and controls it lacks."""
    for game in games:
        if game.needs_prior and population.prior == "none":
            raise PlanError(
                f"{source} [population]: game '{game.name}' needs prior data, but prior = 'none'; choose another prior"
            )
        if not game.needs_prior and population.prior != "none":
            raise PlanError(
                f"{source} [population]: prior = '{population.prior}' would give the adversary users' data "
                f"before game '{game.name}' asks for it; set prior = 'none'"
            )
        for control in audit.controls:
            if control not in ("iid", "fresh-data", *game.controls):
                raise PlanError(f"{source} [audit] controls: game '{game.name}' has no control '{control}'")


def limits(table: Mapping[str, Any], where: str) -> dict[str, float]:
    """Limits by metric: values between 0 and 1 that the lower end of an interval must not exceed.

    A plain key is a metric of `identify`; the metrics of another game are in a table with its name.
    """
    share = Annotated[float, msgspec.Meta(ge=0, le=1)]
    known = {
        metric if game == "identify" else f"{game}.{metric}"
        for game in registry.names("game")
        for metric in registry.load("game", game).metrics
    }
    flat = {
        f"{key}.{inner}" if isinstance(value, Mapping) else key: limit
        for key, value in table.items()
        for inner, limit in (value.items() if isinstance(value, Mapping) else [("", value)])
    }
    for key in flat:
        if key not in known:
            raise PlanError(f"{where}: unknown metric '{key}'{did_you_mean(key, known)}")
    return {key: convert(value, share, f"{where} {key}") for key, value in flat.items()}


def refuse_twice(items: Sequence[Any], where: str) -> None:
    """Reject a repeated entry: its results would overwrite each other."""
    for i, item in enumerate(items):
        if item in items[:i]:
            raise PlanError(f"{where}: entry {i + 1} repeats entry {items.index(item) + 1}")

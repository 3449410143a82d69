"""What an output folder still holds of an audit: its plan, and the predictions behind every score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedleak.errors import FedleakError
from fedleak.games.game import Game
from fedleak.metrics.attack_result import AttackResult
from fedleak.pipeline.attack_runner import played
from fedleak.pipeline.runs import facts, runs
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.results.audit import Score
from fedleak.score.labels import described, label

__all__ = ["plan_of", "score_key", "recorded"]


def plan_of(resolved: Mapping[str, Any], source: str) -> Plan:
    """The plan again, from what a result keeps of it; limits and analyses change no prediction and are left out."""
    kept = {key: value for key, value in resolved.items() if key not in ("deployed", "limits", "analysis", "defence")}
    defences = [{**first, "also": also} if also else first for first, *also in resolved["defence"]]
    return parse("", source, {**kept, "defence": defences})


def score_key(score: Score) -> str:
    """What a score is about, apart from its metric."""
    return _key(score.attack, score.adversary, score.game, score.defence, score.adaptive, score.control)


def recorded(plan: Plan, out: Path) -> dict[str, tuple[Game, list[AttackResult]]]:
    """The game and the predictions of every attack with the answers, one for each seed; nothing where some are gone."""
    found: dict[str, tuple[Game, list[AttackResult]]] = {}
    try:
        for run in runs(plan, out):
            if facts(run) is None:
                continue
            variant = run.variant
            for attack, game, adversary in variant.plays(plan):
                key = _key(
                    label(attack, plan.attacks),
                    adversary.name,
                    label(game, plan.games),
                    described(variant.defences),
                    variant.adaptive is not None,
                    variant.control,
                )
                found.setdefault(key, (game, []))[1].append(played(run, attack, game, adversary))
    except (FedleakError, OSError):
        return {}
    return {key: one for key, one in found.items() if len(one[1]) == len(plan.seeds)}


def _key(*parts: Any) -> str:
    return msgspec.json.encode(parts, order="deterministic").decode()

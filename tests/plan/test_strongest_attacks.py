"""Every shipped plan runs the strongest attack of its games, or says why it does not."""

from __future__ import annotations

import re

import pytest

from fedleak import registry
from fedleak.plan import shipped
from fedleak.plan.read import load_plan


@pytest.mark.parametrize("name", registry.names("game"))
def test_every_game_names_its_strongest_attack(name: str) -> None:
    strongest = registry.load("game", name).strongest
    assert strongest in registry.names("attack")
    assert registry.load("attack", strongest).game == name


@pytest.mark.parametrize("name", shipped.names())
def test_a_shipped_plan_runs_the_strongest_attack_of_its_games(name: str) -> None:
    path = shipped.find(name)
    text = path.read_text(encoding="utf-8")
    excused = set(re.findall(r"(?m)^# Without ([\w-]+): \S+", text))
    for full in (False, True) if "\n[full]" in text else (False,):
        plan = load_plan(path, full=full)
        run = {attack.name for attack in plan.attacks}
        for game in plan.games:
            strongest = game.strongest
            assert strongest is not None
            if all(adversary.missing(registry.load("attack", strongest)) for adversary in plan.adversaries):
                continue
            assert (strongest in run) != (strongest in excused), f"{name}, {game.name}: {strongest}"

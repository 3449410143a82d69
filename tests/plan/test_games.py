"""Games in a plan, its fuller setting, and limits by game."""

from pathlib import Path
from typing import Any

import pytest

from fedleak.errors import PlanError
from fedleak.games.identify import Identify
from fedleak.plan.read import load_plan, parse

PLAN = """
[dataset]
name = "digits"
[model]
name = "mlp"
[[attack]]
name = "reid-knn"
"""


def test_a_game_that_no_table_speaks_of_is_played_as_it_comes() -> None:
    plan = parse(PLAN)
    assert [(attack.name, game) for attack, game, _ in plan.plays] == [("reid-knn", Identify())]


def test_every_attack_plays_each_table_of_its_game() -> None:
    plan = parse(PLAN + '[[game]]\nname = "identify"\n[[game]]\nname = "identify"\nseen = 0.5\n')
    assert [game for _, game, _ in plan.plays] == [Identify(), Identify(seen=0.5)]


def test_the_default_controls_are_those_that_the_games_need() -> None:
    def controls(*attacks: str, **change: Any) -> tuple[str, ...]:
        given = {"attack": [{"name": name} for name in attacks], **change}
        return tuple(parse(PLAN, change=given).audit.controls)

    assert controls("reid-knn") == ("iid",)
    assert controls("link-cosine", population={"prior": "none"}) == ("fresh-data",)
    both = [{"name": "match", "between": between} for between in ("prior", "anonymous")]
    assert controls("match-cosine", game=both) == ("iid", "fresh-data")
    assert controls("reid-knn", audit={"controls": []}) == ()


def test_a_repeated_game_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[\[game\]\]: entry 2 repeats entry 1"):
        parse(PLAN + '[[game]]\nname = "identify"\n[[game]]\nname = "identify"\n')


def test_a_misspelt_game_or_key_is_refused() -> None:
    with pytest.raises(PlanError, match=r"unknown game 'identfy'; did you mean 'identify'"):
        parse(PLAN + '[[game]]\nname = "identfy"\n')
    with pytest.raises(PlanError, match=r"\[\[game\]\] 1: unknown key 'sean'"):
        parse(PLAN + '[[game]]\nname = "identify"\nsean = 0.5\n')


def test_the_fuller_setting_replaces_keys_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        PLAN + "[population]\nusers = 10\nprior_share = 0.25\n[full]\npopulation = {users = 30}\nseeds = [1, 2]\n"
    )
    small, full = load_plan(path), load_plan(path, full=True)
    assert (small.population.users, small.seeds) == (10, (0,))
    assert (full.population.users, full.population.prior_share, full.seeds) == (30, 0.25, (1, 2))
    assert parse(full.text, change=full.change).resolved == {**full.resolved, "title": "plan"}


def test_a_fuller_setting_that_is_missing_or_misspelt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    with pytest.raises(PlanError, match=r"has no table \[full\]"):
        load_plan(path, full=True)
    path.write_text(PLAN + "[full]\npopulation = {user = 30}\n")
    with pytest.raises(PlanError, match=r"\[population\]: unknown key 'user'; did you mean 'users'"):
        load_plan(path, full=True)


def test_a_limit_of_an_unknown_metric_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[limits\] identify: unknown metric 'app'; did you mean 'ap'"):
        parse(PLAN + "[limits.identify]\napp = 0.5\n")
    with pytest.raises(PlanError, match=r"no attack of this plan is for game 'ap'.*\[limits.identify\]"):
        parse(PLAN + "[limits]\nap = 0.5\n")
    with pytest.raises(PlanError, match=r"\[limits\] identify: expected a table of metrics, for instance ap = 0.5"):
        parse(PLAN + "[limits]\nidentify = 0.5\n")
    assert parse(PLAN + "[limits.identify]\nap = 0.5\n").limits == {"identify": {"ap": 0.5}}


def test_a_plan_names_its_analyses_once_each() -> None:
    plan = parse(PLAN + '[[analysis]]\nname = "labelled-updates"\n[[analysis]]\nname = "layers"\n')
    assert [look.name for look in plan.analyses] == ["labelled-updates", "layers"]
    with pytest.raises(PlanError, match=r"\[\[analysis\]\]: entry 2 repeats entry 1"):
        parse(PLAN + '[[analysis]]\nname = "layers"\n[[analysis]]\nname = "layers"\n')
    with pytest.raises(PlanError, match=r"unknown analysis 'layer'; did you mean 'layers'"):
        parse(PLAN + '[[analysis]]\nname = "layer"\n')

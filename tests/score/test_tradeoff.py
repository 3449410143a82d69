"""What a defence buys, what it costs, and what follows."""

from __future__ import annotations

from typing import Any

from fedleak.results.audit import Score, Utility
from fedleak.results.defence_results import Tradeoff
from fedleak.score.tradeoff import Price, tradeoffs

NONE, WEAK, STRONG = None, {"name": "noise", "sigma": 1.0}, {"name": "noise", "sigma": 9.0}


def score(defence: dict[str, Any] | None, value: float, *, attack: str = "a", **more: Any) -> Score:
    width = more.pop("width", 0.02)
    return Score(
        **{
            "attack": attack,
            "adversary": "server",
            "game": "identify",
            "metric": "ap",
            "value": value,
            "low": value - width,
            "high": value + width,
            "level": 0.95,
            "chance": 0.1,
            "chance_high": 0.12,
            "multiple": value / 0.1,
            "n": 100,
            "users": 10,
            "options": 10,
            "seeds": [0, 1],
            "headline": True,
            "defence": defence,
            "utility": Utility(metric="accuracy", value=0.8, low=0.8, high=0.8, higher_is_better=True),
        }
        | more
    )


def price(defence: dict[str, Any] | None, *utility: float, **more: Any) -> Price:
    given: dict[str, Any] = {"adaptive": False, "matched": None, "steps": [10, 10], "seconds": [2.0, 2.0], **more}
    return Price(defence=defence, utility=list(utility), **given)


def weighed(*scores: Score, prices: list[Price], target: float = 3.0) -> Tradeoff:
    (found,) = tradeoffs(scores, prices, target)
    return found


PRICES = [price(NONE, 0.8, 0.8), price(WEAK, 0.8, 0.72), price(STRONG, 0.4, 0.4)]


def test_the_cheapest_setting_below_the_target_is_recommended() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.1), prices=PRICES)
    assert "noise (sigma=1.0)" in found.advice
    assert "95% of the undefended utility" in found.advice


def test_nothing_is_recommended_that_the_strongest_attack_was_not_tried_on() -> None:
    scores = [score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.1)]
    (found,) = tradeoffs(scores, PRICES, 3.0, {("server", "identify"): "reid-strong"})
    assert found.advice.startswith("No defence is recommended: 'reid-strong'")
    assert "noise" not in found.advice


def test_an_upper_end_above_the_target_is_not_good_enough() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2, width=0.15), score(STRONG, 0.1), prices=PRICES)
    assert "noise (sigma=9.0)" in found.advice


def test_who_knows_of_the_defence_decides_where_they_are_stronger() -> None:
    scores = [score(NONE, 0.9), score(WEAK, 0.2), score(WEAK, 0.7, adaptive=True), score(STRONG, 0.1)]
    found = weighed(*scores, prices=PRICES)
    weak = found.settings[1]
    assert weak.adaptive and weak.value == 0.7
    assert "noise (sigma=9.0)" in found.advice


def test_that_nobody_knew_of_the_defence_is_said_only_where_nobody_did() -> None:
    plain = [score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.1)]
    assert "No defence-aware attack was run" in weighed(*plain, prices=PRICES).advice
    weaker = score(WEAK, 0.15, adaptive=True)
    assert "No defence-aware attack" not in weighed(*plain, weaker, prices=PRICES).advice


def test_where_nothing_is_enough_it_is_said_with_the_nearest() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.8), score(STRONG, 0.6), prices=PRICES)
    assert found.advice.startswith("No tested setting")
    assert "noise (sigma=9.0): up to 6.20 times chance" in found.advice
    assert "safe" not in found.advice


def test_where_nothing_leaks_no_defence_is_recommended() -> None:
    found = weighed(score(NONE, 0.1), score(WEAK, 0.1), prices=PRICES)
    assert found.advice.startswith("Without any defence")


def test_another_attack_counts_even_if_it_is_not_the_strongest() -> None:
    wide = score(WEAK, 0.15, attack="b", width=0.3)
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2), wide, score(STRONG, 0.1), prices=PRICES)
    assert found.settings[1].attack == "a"
    assert found.settings[1].bound is not None and found.settings[1].bound > 4


def test_a_setting_that_is_worse_in_both_is_not_on_the_front() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.3), prices=PRICES)
    assert [setting.best for setting in found.settings] == [True, True, False]


def test_utility_is_kept_whichever_way_is_better() -> None:
    lower = Utility(metric="mae", value=0.5, low=0.5, high=0.5, higher_is_better=False)
    prices = [price(NONE, 0.5, 0.5), price(WEAK, 1.0, 1.0)]
    found = weighed(score(NONE, 0.9, utility=lower), score(WEAK, 0.2, utility=lower), prices=prices)
    assert found.settings[1].kept == 0.5


def test_matched_steps_and_time_stand_beside() -> None:
    prices = [PRICES[0], price(WEAK, 0.88, 0.88, matched=[0.8, 0.72], steps=[30, 30], seconds=[5.0])]
    setting = weighed(score(NONE, 0.9), score(WEAK, 0.2), prices=prices).settings[1]
    assert (round(setting.kept, 3), round(setting.matched or 0, 3), setting.steps, setting.seconds) == (
        1.1,
        0.95,
        3.0,
        2.5,
    )


def test_without_a_chance_to_count_in_showing_no_leak_is_what_is_asked() -> None:
    rare: dict[str, Any] = {"chance": 1e-9, "chance_high": 1e-9}
    found = weighed(
        score(NONE, 0.9, **rare), score(WEAK, 0.5, **rare), score(STRONG, 0.0, low=0.0, **rare), prices=PRICES
    )
    assert found.settings[0].bound is None
    assert "leaves no attack that was shown to beat chance is noise (sigma=9.0)" in found.advice

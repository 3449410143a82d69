"""What a defence buys, what it costs, and what follows; chance is 0.1 and a constant prediction 0.1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.report import tradeoff
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
    given: dict[str, Any] = {
        "adaptive": False,
        "constant": [0.1] * len(utility),
        "matched": None,
        "steps": [10, 10],
        "seconds": [2.0, 2.0],
    }
    return Price(defence=defence, utility=list(utility), **(given | more))


def weighed(*scores: Score, prices: list[Price], target: float = 0.2) -> Tradeoff:
    (found,) = tradeoffs(scores, prices, target)
    return found


PRICES = [price(NONE, 0.9, 0.9), price(WEAK, 0.9, 0.82), price(STRONG, 0.5, 0.5)]


def test_the_cheapest_setting_below_the_target_is_recommended() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.1), prices=PRICES)
    assert "is noise (sigma=1.0): 95% of the utility kept." in found.advice
    assert "still leaks: the strongest attack, a, has an advantage of 0.11 [0.089, 0.13]" in found.advice


def test_nothing_is_recommended_that_the_strongest_attack_was_not_tried_on() -> None:
    scores = [score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.1)]
    (found,) = tradeoffs(scores, PRICES, 0.2, {("server", "identify"): "reid-strong"})
    assert found.advice.startswith("No defence is recommended: 'reid-strong'")
    assert "noise" not in found.advice


def test_an_upper_end_above_the_target_is_not_good_enough() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2, width=0.15), score(STRONG, 0.1), prices=PRICES)
    assert "noise (sigma=9.0)" in found.advice


def test_the_interval_for_all_attacks_at_once_decides_where_it_is_known() -> None:
    wider = score(WEAK, 0.2, all_low=0.1, all_high=0.4)
    weak = weighed(score(NONE, 0.9), wider, score(STRONG, 0.1), prices=PRICES).settings[1]
    assert (weak.low, weak.high, round(weak.bound, 3)) == (0.1, 0.4, 0.333)
    assert round(weak.advantage_low, 3) == 0.0


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
    assert "noise (sigma=9.0): up to an advantage of 0.58, 50% of the utility kept" in found.advice
    assert "safe" not in found.advice


def test_a_defence_that_lowers_nothing_is_not_called_the_nearest() -> None:
    found = weighed(score(NONE, 0.8), score(WEAK, 0.9), prices=PRICES)
    assert "none scores less than the run without a defence (advantage 0.78)" in found.advice


def test_a_wider_interval_does_not_make_a_lower_score_worse() -> None:
    wide = score(WEAK, 0.12, width=0.3)
    found = weighed(score(NONE, 0.2), wide, prices=PRICES)
    assert found.advice.startswith("No setting is recommended. Passed over: no defence, because noise (sigma=1.0) ")
    assert "scores less and its interval still reaches an advantage of 0.36" in found.advice
    found = weighed(score(NONE, 0.2), wide, score(STRONG, 0.1), prices=PRICES)
    assert "cheapest setting" in found.advice and "is noise (sigma=9.0)" in found.advice
    assert found.advice.endswith("More users would narrow the intervals.")


def test_where_nothing_leaks_no_defence_is_recommended() -> None:
    found = weighed(score(NONE, 0.1), score(WEAK, 0.1), prices=PRICES)
    assert found.advice.startswith("Without any defence")
    assert "still leaks" not in found.advice


def test_a_leak_below_the_target_is_still_told() -> None:
    found = weighed(score(NONE, 0.15), score(WEAK, 0.1), prices=PRICES)
    assert found.advice.startswith("Without any defence")
    assert "It still leaks" in found.advice


def test_another_attack_counts_even_if_it_is_not_the_strongest() -> None:
    wide = score(WEAK, 0.15, attack="b", width=0.3)
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2), wide, score(STRONG, 0.1), prices=PRICES)
    assert found.settings[1].attack == "a"
    assert round(found.settings[1].bound, 3) == round((0.45 - 0.1) / 0.9, 3)


def test_a_setting_that_is_worse_in_both_is_not_on_the_front() -> None:
    found = weighed(score(NONE, 0.9), score(WEAK, 0.2), score(STRONG, 0.3), prices=PRICES)
    assert [setting.best for setting in found.settings] == [True, True, False]


def test_utility_is_kept_whichever_way_is_better() -> None:
    lower = Utility(metric="mae", value=0.5, low=0.5, high=0.5, higher_is_better=False)
    prices = [price(NONE, 0.5, 0.5, constant=[1.5, 1.5]), price(WEAK, 1.0, 1.0, constant=[1.5, 1.5])]
    found = weighed(score(NONE, 0.9, utility=lower), score(WEAK, 0.2, utility=lower), prices=prices)
    assert found.settings[1].kept == 0.5
    assert [setting.best for setting in found.settings] == [True, True]


def test_matched_steps_and_time_stand_beside() -> None:
    prices = [PRICES[0], price(WEAK, 0.98, 0.98, matched=[0.9, 0.82], steps=[30, 30], seconds=[5.0])]
    setting = weighed(score(NONE, 0.9), score(WEAK, 0.2), prices=prices).settings[1]
    assert (round(setting.kept or 0, 3), round(setting.matched or 0, 3), setting.steps, setting.seconds) == (
        1.1,
        0.95,
        3.0,
        2.5,
    )


def test_a_model_worse_than_a_constant_prediction_is_told_and_never_recommended() -> None:
    prices = [PRICES[0], price(WEAK, 0.06, 0.02)]
    found = weighed(score(NONE, 0.9), score(WEAK, 0.1), prices=prices)
    assert round(found.settings[1].kept or 0, 3) == -0.075
    assert found.advice.endswith("and leaves a model that is better than a constant prediction.")
    found = weighed(score(NONE, 0.9), score(WEAK, 0.8), prices=prices)
    assert "a model worse than a constant prediction" in found.advice


@pytest.mark.parametrize(
    "undefended",
    [
        (0.12, 0.12),  # too little
        (0.6, 0.1),  # not on every seed
        (0.9, 0.2),  # less than twice the spread
    ],
)
def test_without_a_model_that_is_clearly_better_than_a_constant_there_is_no_advice(
    undefended: tuple[float, float],
) -> None:
    prices = [price(NONE, *undefended), price(WEAK, 0.13, 0.13)]
    found = weighed(score(NONE, 0.9), score(WEAK, 0.1), prices=prices)
    assert found.advice.startswith(
        "No advice: the undefended model is not clearly better than a constant prediction (accuracy 0."
    )
    assert "constant 0.10)" in found.advice
    assert found.settings[1].kept is None


def test_one_chance_level_serves_all_settings() -> None:
    """A defence that lowers a score is not worse because its own chance level is lower too."""
    noisy = score(WEAK, 0.85, chance=0.1, chance_high=0.12)
    bare = score(NONE, 0.99, chance=0.51, chance_high=0.55, width=0.005)
    found = weighed(bare, noisy, prices=PRICES)
    assert found.chance == 0.1  # the lower one: what is shown to leak must not lie below 0
    assert found.settings[1].advantage < found.settings[0].advantage
    assert not found.advice.startswith("Without any defence")


def test_too_few_users_give_no_advice() -> None:
    few: dict[str, Any] = {"leaks": None, "advantage": 0.1}
    found = weighed(score(NONE, 0.12, **few), score(WEAK, 0.1, **few), prices=PRICES)
    assert found.settings[0].leaks is None
    assert found.advice == "No advice: no verdict, because too few users are asked about."


def test_the_tested_verdict_counts_and_not_the_interval() -> None:
    tested: dict[str, Any] = {"leaks": False, "p": 0.2}
    found = weighed(score(NONE, 0.9), score(WEAK, 0.3, **tested), prices=PRICES)
    assert [setting.leaks for setting in found.settings] == [True, False]


def test_a_question_that_guessing_answers_gives_no_advice() -> None:
    sure: dict[str, Any] = {"chance": 1.0, "chance_high": 1.0}
    found = weighed(score(NONE, 1.0, **sure), score(WEAK, 1.0, **sure), prices=PRICES)
    assert found.advice == "No advice: chance is 1.00, so this question cannot show a leak."


def test_a_tiny_chance_level_changes_nothing_of_the_scale() -> None:
    rare: dict[str, Any] = {"chance": 1e-9, "chance_high": 1e-9}
    found = weighed(
        score(NONE, 0.9, **rare), score(WEAK, 0.5, **rare), score(STRONG, 0.0, low=0.0, **rare), prices=PRICES
    )
    assert round(found.settings[0].bound, 6) == 0.92
    assert "is noise (sigma=9.0)" in found.advice


def test_of_a_distance_less_is_a_larger_leak() -> None:
    far: dict[str, Any] = {"distance": True, "chance": 8.0, "chance_high": 7.0, "width": 0.5}
    near = score(NONE, 3.0, attack="b", **far)
    found = weighed(score(NONE, 2.0, **far), near, score(WEAK, 7.9, **far), prices=PRICES)
    bare = found.settings[0]
    assert (bare.attack, bare.advantage, round(bare.bound, 4)) == ("a", 0.75, round(6.5 / 8, 4))
    assert bare.advantage_low < bare.advantage < bare.advantage_high
    assert "is noise (sigma=1.0)" in found.advice


shares = st.floats(0, 1)


@st.composite
def drops(draw: st.DrawFn) -> Tradeoff:
    """Undefended attacks, and a defence under which none scores more, at any chance level and with any interval."""
    before, after = [], []
    for attack in "abc"[: draw(st.integers(1, 3))]:
        low, value, high = sorted(draw(st.tuples(shares, shares, shares)))
        less = value * draw(shares)
        before.append(score(NONE, value, attack=attack, low=low, high=high, chance=draw(st.floats(0, 0.99))))
        wide = draw(shares)
        ends = {"low": less * (1 - wide), "high": less + (1 - less) * wide}
        after.append(score(WEAK, less, attack=attack, chance=draw(st.floats(0, 1)), **ends))
    utility = draw(st.floats(0, 1))
    prices = [price(NONE, 0.9, 0.9), price(WEAK, utility, utility)]
    return weighed(*before, *after, prices=prices, target=draw(st.floats(0.01, 0.99)))


@given(drops())
def test_a_lower_score_is_never_drawn_ranked_or_advised_as_worse(found: Tradeoff) -> None:
    bare, weak = found.settings
    assert weak.advantage <= bare.advantage
    (before,), (after,), *_ = (series.y for series in tradeoff.figure(found, "AP").series)
    assert after <= before
    cells = [row[tradeoff.COLUMNS.index("advantage")].split()[0] for row in tradeoff.rows(found)]
    assert float(cells[1]) <= float(cells[0])
    assert not weak.best or not bare.best or weak.utility <= bare.utility or weak.advantage == bare.advantage
    if weak.utility >= bare.utility and weak.advantage < bare.advantage:
        assert weak.best and not bare.best
    if found.advice.startswith("Without any defence") and weak.advantage < bare.advantage:
        assert weak.bound < found.target
    if weak.advantage < bare.advantage:
        assert "none scores less" not in found.advice
    if bare.bound >= found.target > weak.bound and (weak.kept or 0) > 0:
        assert "cheapest setting" in found.advice and "noise" in found.advice


SUMS = {"name": "secure-aggregation"}


@pytest.mark.parametrize("defence", [SUMS, {"name": "clip", "bound": 1.0, "also": [SUMS]}])
def test_secure_aggregation_is_never_called_enough_without_naming_who_may_change_the_model(
    defence: dict[str, Any],
) -> None:
    prices = [PRICES[0], price(defence, 0.9, 0.9)]
    found = weighed(score(NONE, 0.9), score(defence, 0.12), prices=prices)
    assert found.advice.startswith("The cheapest setting that")
    assert "not enough by itself: this assumes that 'server' sends the agreed model" in found.advice
    assert "Whoever may change the model that clients train" in found.advice
    nearest = weighed(score(NONE, 0.9), score(defence, 0.8), prices=prices)
    assert nearest.advice.startswith("No tested setting") and "Whoever may change the model" in nearest.advice


def test_advice_about_a_server_that_sees_only_sums_says_whether_it_may_change_the_model() -> None:
    scores = [score(NONE, 0.9, adversary="aggregate-server"), score(WEAK, 0.12, adversary="aggregate-server")]
    assert "Whoever may change the model" in weighed(*scores, prices=PRICES).advice
    able = "malicious-aggregate-server"
    scores = [score(NONE, 0.9, adversary=able), score(WEAK, 0.12, adversary=able)]
    assert weighed(*scores, prices=PRICES).advice.endswith("which may change the model that clients train.")


def test_advice_about_updates_says_nothing_of_secure_aggregation() -> None:
    assert "Secure aggregation" not in weighed(score(NONE, 0.9), score(WEAK, 0.12), prices=PRICES).advice

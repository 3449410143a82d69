from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from example_audit import NOISE, example, weighed
from example_games import with_games
from rich.console import Console

from fedleak.report import terminal
from fedleak.results.audit import Audit, NotRun, Score


def shown(audit: Audit, width: int = 80, **options: Any) -> str:
    out = io.StringIO()
    terminal.show(audit, Console(file=out, width=width, **options))
    return out.getvalue()


def joined(text: str) -> str:
    """The text with its line breaks taken out, to look for sentences."""
    return re.sub(r"\s+", " ", text)


def changed(audit: Audit, which: Callable[[Score], bool], **fields: Any) -> Audit:
    scores = [msgspec.structs.replace(s, **fields) if which(s) else s for s in audit.scores]
    return msgspec.structs.replace(audit, scores=scores)


def test_the_story_names_attacker_sights_finding_control_and_defences() -> None:
    text = joined(shown(example()))
    assert "The server that runs the federation, curious but honest." in text
    assert "each client's update, under a fresh handle every round" in text
    assert "Out of 40 users, an update's sender is named correctly in 68% of cases; guessing would manage 3%." in text
    assert "no departure from chance: where no data is user-specific, none of the 5 scores is shown to differ" in text
    assert re.search(r"It would have shown an AP of 0\.\d+ or more in about 80% of cases\. It cannot exclude", text)
    assert re.search(r"noise \(sigma=0.02, relative=yes\): the strongest attack .* instead of 0.75", text)
    assert "accuracy 0.86, worse by 0.051" in text
    assert re.search(r"Utility accuracy 0.91; centralised training on all data: 0\.\d+; best constant", text)


def test_every_score_of_the_headline_metric_is_in_the_table() -> None:
    audit = example()
    text = shown(audit)
    for score in audit.scores:
        if score.metric == "ap":
            assert f"{score.multiple:.1f}x" in text
    assert text.count("reid-knn") == 4  # one row per run
    assert "0.86 (-0.051 against no defence)" in text


@pytest.fixture(scope="module")
def games() -> Audit:
    return with_games()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(games: Audit, width: int) -> None:
    for audit in (example(), games):
        assert max(len(line) for line in shown(audit, width).splitlines()) <= width


def test_every_game_is_told_in_its_own_words(games: Audit) -> None:
    text = joined(shown(games))
    for sentence in (
        r"Out of 10 users with prior data, an update's sender is named correctly in \d+% of cases",
        r"Updates of unseen users are detected with average precision 0\.\d+",
        r"two updates of one user and two of different users, .* in \d+% of cases; guessing would manage 50%\.",
        r"Of the 10 users whose updates fit the profile best, \d+% do fit it; guessing would find 20%\.",
        r"Out of 3 groups, the one .* is named correctly in \d+% of cases; guessing would manage 50%\.",
        r"attribute-mlp, accuracy: leaks: 0\.\d+",
        r"record that the attack predicts for a client is its user's secret in \d+% of cases, out of 1,000,000,000",
    ):
        assert re.search(sentence, text), sentence


def test_a_multiple_of_one_half_is_never_given(games: Audit) -> None:
    strips = re.split(r"\n(?= +[\w-]+ \[95% interval\])", shown(games))[1:]
    heads = [strip.splitlines()[0].split() for strip in strips]
    assert [head[3:] for head in heads] == [
        ["chance", "times", "top-1", "unseen"],
        ["chance", "AUC"],
        ["chance", "times", "best", "10"],
        ["chance", "AP"],
        ["chance", "named", "whose", "edits"],
    ]
    assert "still above chance (0.51)" in joined(shown(games))
    for strip in (strips[1], strips[3]):
        assert not re.search(r"\d\.\dx", strip.split("questions per run")[0])


def test_who_attacks_is_said_once_however_many_games_they_play(games: Audit) -> None:
    text = joined(shown(games))
    assert text.count("The server that runs the federation, curious but honest.") == 1
    assert text.count("anonymous-server, as above") == 5


def test_analyses_give_their_words_and_their_first_numbers(games: Audit) -> None:
    text = shown(games)
    for analysis in games.analyses:
        assert analysis.title in text
        assert analysis.text in joined(text)
    assert re.search(r"^ +16 +0\.47 +0\.43 +0\.52 +0\.041$", text, re.MULTILINE)
    assert re.search(r"^recurrent +2000 +-$", text, re.MULTILINE)
    assert "4 more rows are in the report." in text


def test_without_colour_nothing_but_the_colour_is_lost() -> None:
    plain = shown(example())
    coloured = shown(example(), force_terminal=True, color_system="standard")
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_a_name_cannot_drive_the_terminal_or_its_markup() -> None:
    text = shown(example(title="\x1b[2J[red]mine[/red]", story="a\x07b"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]mine[/red]" in text


def test_an_attack_that_finds_nothing_is_never_called_safe() -> None:
    quiet = changed(example(), lambda s: True, low=0.0, verdict="")
    text = joined(shown(quiet))
    assert "no leak shown by this attack (n=400)" in text
    assert "No attack was shown to beat guessing." in text
    assert not re.search(r"\bsafe\b|\bsecure\b", text, flags=re.IGNORECASE)


def test_too_few_users_are_no_verdict_everywhere() -> None:
    few = changed(example(), lambda s: True, leaks=None, advantage=0.5)
    audit = msgspec.structs.replace(few, tradeoffs=[weighed(few.scores)])
    text = joined(shown(audit))
    assert "guessing would manage 3%. No verdict: too few users." in text
    assert "reid-svm, average precision: no verdict: too few users (40)." in text
    assert "The control gives no verdict: too few users." in text
    assert "with no verdict: too few users; the model's accuracy" in text
    assert "No advice: no verdict" in text
    assert not re.search(r"leaks:|no leak shown|beat (chance|guessing)|above chance", text)


def test_a_tested_verdict_counts_and_not_the_interval() -> None:
    text = joined(shown(changed(example(), lambda s: True, leaks=False, p=0.3, verdict="")))
    assert "No attack was shown to beat guessing." in text
    assert "leaks:" not in text


def test_the_strongest_attack_is_told_as_picked_with_the_interval_for_all() -> None:
    audit = changed(example(), lambda s: s.metric == "ap", all_low=0.5, all_high=0.9, p=0.005, leaks=True)
    text = joined(shown(audit))
    assert re.search(
        r"reid-svm, average precision: leaks: 0\.7\d \[0\.50, 0\.90\], chance 0\.\d+, p = 0\.005\. Picked", text
    )
    assert "Picked as the strongest of 5 attacks; its interval holds for all 5 at once." in text
    assert "its interval does not account for that" in joined(shown(example()))


def test_a_leak_of_a_weaker_attack_is_not_lost() -> None:
    audit = changed(example(), lambda s: True, leaks=False, p=0.3)
    audit = changed(audit, lambda s: s.attack == "reid-knn", leaks=True)
    text = joined(shown(audit))
    assert "reid-knn was shown to beat guessing." in text
    assert "and reid-knn still beats chance" in text
    assert "No attack was shown" not in text and "no attack was shown" not in text


def test_variation_between_runs_is_told_or_said_to_be_missing() -> None:
    missing = "One seed: variation between training runs is not in the intervals."
    assert missing in joined(shown(example()))
    several = changed(example(), lambda s: s.metric == "ap", seeds=[1, 2, 3], by_seed=[0.7, 0.82, 0.75])
    text = joined(shown(several))
    assert "By seed: 0.70, 0.82, 0.75 (spread 0.12)." in text
    assert missing not in text


def test_the_strongest_attack_that_was_not_run_is_named_beside_the_verdict() -> None:
    absent = NotRun(adversary="anonymous-server", game="identify", attack="reid-strong")
    text = joined(shown(example(not_run=[absent])))
    assert "reid-strong, the strongest attack on this question, was not run" in text
    assert text.index("was not run") < text.index("Control")
    assert "was not run" not in joined(shown(example()))


def test_a_control_is_never_a_proof_of_where_a_score_comes_from() -> None:
    text = joined(shown(example()))
    assert "comes from" not in text
    weak = changed(example(), lambda s: s.control is not None, chance_high=0.9)
    assert "It has too little power to show an artefact of any size reliably." in joined(shown(weak))


def test_a_model_below_a_constant_prediction_is_told_in_the_costs() -> None:
    audit = example()
    (trade,) = audit.tradeoffs
    low = [msgspec.structs.replace(s, kept=-0.12, kept_low=-0.12, kept_high=-0.12) for s in trade.settings]
    text = joined(shown(msgspec.structs.replace(audit, tradeoffs=[msgspec.structs.replace(trade, settings=low)])))
    assert "-12%" in text and "below 0%: worse than one." in text


def test_a_control_that_leaks_is_said_aloud() -> None:
    broken = changed(example(), lambda s: s.control == "iid" and s.attack == "reid-svm", low=0.2, value=0.3)
    text = joined(shown(broken))
    assert "The control failed" in text
    assert "1 of 5 scores differ from chance: reid-svm (0.30, above chance" in text


def test_a_control_below_chance_is_said_aloud_too() -> None:
    sunk = changed(
        example(), lambda s: s.control == "iid" and s.attack == "reid-svm", value=0.01, low=0.005, high=0.015
    )
    assert "1 of 5 scores differ from chance: reid-svm (0.010, below chance" in joined(shown(sunk))


def test_warnings_come_before_any_verdict() -> None:
    text = joined(shown(msgspec.structs.replace(example(), warnings=["The control failed: \x1b[2J."])))
    assert "\x1b" not in text
    assert text.index("Warning: The control failed") < text.index("Result ")


def test_an_audit_without_control_says_what_that_means() -> None:
    audit = example()
    alone = msgspec.structs.replace(audit, scores=[s for s in audit.scores if s.control is None])
    assert "No control was run" in joined(shown(alone))


def test_a_limit_that_is_exceeded_names_run_metric_and_attack() -> None:
    text = joined(shown(example()))
    assert (
        "Over the plan's limit: no defence, anonymous-server, identify: average precision must not exceed 0.50" in text
    )
    assert "0.69 (reid-svm)" in text
    none = changed(example(), lambda s: True, exceeded=False)
    assert "Over the plan's limit" not in shown(none)


def test_a_chance_of_zero_has_no_multiple() -> None:
    zero = changed(example(), lambda s: s.defence == NOISE, chance=0.0, chance_high=0.0, multiple=None)
    text = shown(zero)
    assert "still above chance" in joined(text)
    assert "None" not in text


def test_an_error_that_falls_is_an_improvement() -> None:
    audit = example()
    utility = audit.scores[0].utility
    assert utility is not None
    error = msgspec.structs.replace(utility, metric="mae", value=0.4, undefended=0.5, higher_is_better=False)
    assert "mae 0.40, better by 0.100" in joined(shown(changed(audit, lambda s: s.defence == NOISE, utility=error)))

from __future__ import annotations

import io
import re

import msgspec
import pytest
from example_audit import example
from example_games import USERS, with_games
from parsed_page import Page
from rich.console import Console

from fedleak.report import html_page
from fedleak.report.sections.users import Users, strip_plot, told
from fedleak.results.audit import Audit
from fedleak.results.users import UserTail

TAIL = UserTail(
    score="share of a user's updates that are attributed to them",
    above="are named in more than half of their updates",
    threshold=0.5,
    users=40,
    level=0.95,
    mean=0.61,
    mean_chance=0.02,
    quantile=0.9,
    tail=0.9,
    tail_low=0.8,
    tail_high=0.97,
    tail_chance=0.11,
    share=0.62,
    share_low=0.45,
    share_high=0.77,
    share_chance=0.02,
    share_chance_high=0.05,
    worst=0.97,
    worst_low=0.71,
    worst_high=1.0,
    worst_trials=40.0,
    worst_chance=0.2,
    worst_chance_high=0.31,
    worst_low_chance=0.04,
    p=0.001,
    leaks=True,
    values=[0.97, 0.9, *[0.6] * 30, *[0.1] * 8],
)


def section(audit: Audit) -> str:
    """The section on the page, without its tags."""
    source = html_page.render(audit)
    [part] = re.findall(r'<section id="users".*?</table></div>\s*</section>', source, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", part))


def shown(audit: Audit) -> str:
    out = io.StringIO()
    Users().show(audit, Console(file=out, width=80))
    return re.sub(r"\s+", " ", out.getvalue())


def with_tail(tail: UserTail) -> Audit:
    audit = example()
    return msgspec.structs.replace(
        audit, details=[msgspec.structs.replace(detail, user_tail=tail) for detail in audit.details]
    )


def test_the_terminal_has_one_line_on_the_worst_off_user_and_the_share() -> None:
    assert (
        "anonymous-server, identify, reid-svm: Worst-off user: 0.97 [0.71, 1.00] (permuted identities: "
        "lower end up to 0.040); "
        "62% [45%, 77%] of users are named in more than half of their updates (chance 2%)."
    ) in shown(with_tail(TAIL))


def test_no_user_is_said_to_leak_where_luck_explains_the_highest_score() -> None:
    lucky = msgspec.structs.replace(TAIL, p=0.31, leaks=False)
    assert "up to 0.040), no single user is shown to leak (p = 0.31); 62%" in told(lucky)
    some = msgspec.structs.replace(TAIL, p=0.001, leaks=False)
    assert "some users leak, but not shown which (p = 0.0010)" in told(some)
    assert "shown" not in told(TAIL)
    text = section(with_tail(lucky))
    assert "no single user is shown to leak (p = 0.31)" in text.replace("&nbsp;", " ")
    assert "a user leaks" not in text


def test_the_page_has_a_plot_and_every_run_in_a_table() -> None:
    text = section(with_tail(TAIL)).replace("&nbsp;", " ")
    for run in ("no defence", "noise (sigma=0.02, relative=yes)", "rand-aug (probability=0.5)", "IID control"):
        assert re.search(
            rf"{re.escape(run)} +reid-\w+ +0.61 / 0.020 +0.90 \[0.80, 0.97\] / 0.11 +62% \[45%, 77%\] / 2% "
            r"+0.97 \[0.71, 1.00\] / 0.040 +a user leaks \(p = 0.0010\)",
            text,
        )
    assert "threshold 0.5" in text


def test_an_audit_without_scores_of_users_has_no_such_section() -> None:
    assert Users().context(example()) is None
    assert shown(example()).strip() == ""
    assert 'id="users"' not in html_page.render(example())


def test_every_game_is_told_about_single_users_and_none_is_named() -> None:
    audit = with_games()
    text = section(audit)
    for words in (
        "of users are named in more than half of their updates",
        "of users have their own pairs told from others",
        "of users are told apart from more than three quarters of the other group",
        "of users have their group predicted from more than half of their updates",
        "of users have more than half of their updates found again in the next round",
        "of users have their secret predicted first in more than half of the runs",
    ):
        assert words in text and words in shown(audit)
    assert not any(user in text for user in USERS)
    assert Page(html_page.render(audit)).open == []


@pytest.mark.parametrize("values", [[0.5] * 3000, [i / 3000 for i in range(3000)], [1.0], []])
def test_dots_stay_inside_the_plot_and_are_few_enough_to_draw(values: list[float]) -> None:
    drawn = strip_plot("s", msgspec.structs.replace(TAIL, values=values))
    dots = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    assert len(dots) == min(len(values), 231 if len(values) == 3000 else 1)
    assert all(14 <= x <= 426 and 22 <= y <= 130 for x, y in dots)

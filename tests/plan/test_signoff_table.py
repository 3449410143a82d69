"""The table [signoff] of a plan."""

from __future__ import annotations

import pytest

from command_line import TINY
from fedleak.errors import PlanError
from fedleak.plan.read import parse


def test_who_signs_can_stand_in_the_plan_and_is_in_what_results_keep() -> None:
    plan = parse(TINY + '[signoff]\ntester = "Tess"\nreview_months = 12\n')
    assert (plan.signoff.tester, plan.signoff.reviewer) == ("Tess", None)
    assert plan.resolved["signoff"] == {"tester": "Tess", "review_months": 12}
    assert "signoff" not in parse(TINY).resolved
    assert plan.trained == parse(TINY).trained, "who signs changes nothing that is trained"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('testr = "Tess"', r"\[signoff\]: unknown key 'testr'; did you mean 'tester'"),
        ("review_months = 0", r"\[signoff\] review_months = 0"),
        ("review_months = 121", r"\[signoff\] review_months = 121"),
        ('tester = ""', r"\[signoff\] tester = ''"),
        ("tester = 3", r"\[signoff\] tester = 3"),
    ],
)
def test_a_wrong_key_is_refused_with_its_place(lines: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse(f"{TINY}[signoff]\n{lines}\n")

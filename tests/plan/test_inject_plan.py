"""A capability is granted in the plan, to somebody who has it, or the plan is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedleak.errors import PlanError
from fedleak.pipeline.runs import runs
from fedleak.plan import shipped
from fedleak.plan.plan import InjectPlan
from fedleak.plan.read import load_plan, parse

PLAN = """
seeds = [0]
population = { prior = "none" }
model = { name = "char-lm" }
dataset = { name = "text-clients", clients = 4 }
audit = { adversaries = ["insider", "eavesdropper"], controls = [] }
attack = [{ name = "exposure-baseline" }, { name = "watermark" }, { name = "eavesdrop" }]
inject = {}
"""


def broken(old: str, new: str) -> str:
    assert PLAN.count(old) == 1
    return PLAN.replace(old, new)


def test_an_attack_is_played_by_everybody_who_can() -> None:
    plan = parse(PLAN)
    assert plan.inject == InjectPlan(victims=None, insertions=None, length=16, kind="alphanumeric")
    assert [(attack.name, adversary.name) for attack, _, adversary in plan.plays] == [
        ("exposure-baseline", "insider"),
        ("exposure-baseline", "eavesdropper"),
        ("watermark", "insider"),
        ("eavesdrop", "eavesdropper"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            broken("inject = {}\n", ""),
            "my.toml: attack 'watermark' needs injected records in the clients' data; grant them with a table [inject]",
        ),
        (
            broken('"insider", ', ""),
            "my.toml [audit]: attack 'watermark' needs snapshots and the capability to inject; adversary "
            "'eavesdropper' lacks the capability to inject. Choose one that has it: insider (fedleak list --matrix)",
        ),
        (
            broken('"insider", ', "").replace('{ name = "watermark" }, ', ""),
            "my.toml [inject]: no adversary of the plan can inject a record; name one in [audit] adversaries (insider)",
        ),
        (
            broken('"insider", "eavesdropper"', '"insider"'),
            "my.toml [audit]: attack 'eavesdrop' needs snapshots, selection; adversary 'insider' lacks selection.",
        ),
        (
            broken(', { name = "eavesdrop" }', "").replace('{ name = "exposure-baseline" }, ', ""),
            "my.toml [audit]: attack 'watermark' needs snapshots and the capability to inject; adversary",
        ),
        (broken("inject = {}", "inject = { length = 0 }"), "my.toml [inject] length = 0: expected int >= 1"),
        (broken("inject = {}", "inject = { times = 4 }"), "my.toml [inject]: unknown key 'times'"),
        (
            broken("inject = {}", 'inject = { kind = "word" }'),
            "my.toml [inject] kind = 'word': no such choice; did you",
        ),
    ],
)
def test_a_power_that_is_not_granted_or_not_had_is_explained(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(text, "my.toml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_run_with_watermarks_is_another_run_than_one_without() -> None:
    plans = [
        parse(PLAN),
        parse(broken("inject = {}", "inject = { length = 8 }")),
        parse(broken("inject = {}\n", "").replace('{ name = "watermark" }, ', "")),
    ]
    assert len({runs(plan, Path())[0].fingerprint for plan in plans}) == 3
    assert "inject" not in plans[2].resolved, "plans without the table train what they always trained"


@pytest.mark.parametrize(
    "name", ["watermark-once-ptb", "watermark-once-wikitext2", "watermark-once-enwik8", "paper-ptb"]
)
def test_the_papers_watermark_is_one_record_once_in_one_client(name: str) -> None:
    plan = load_plan(shipped.find(f"record-level/{name}"))
    assert plan.inject is not None and (plan.inject.victims, plan.inject.insertions) == (1, 1)
    assert {attack.name for attack in plan.attacks} >= {"exposure-baseline", "eavesdrop", "watermark"}

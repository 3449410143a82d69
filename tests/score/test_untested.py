"""What was not tested: only what these users and this model allow, by what it would take; the rest is one line."""

from __future__ import annotations

from typing import Any

from command_line import TINY
from fedleak.plan.read import parse
from fedleak.score.untested import ADVERSARY, ATTACK, DATA, PRIOR, RUNS, untested
from fedleak.trace.run_facts import RunFacts


def facts(offers: list[str] | None, task: str = "classify") -> RunFacts:
    return RunFacts(
        fingerprint="f",
        source="s",
        users=8,
        private_examples=8,
        prior_examples=8,
        test_examples=8,
        parameters=8,
        layers={},
        dropped=0,
        findings=[],
        offers=offers,
        task=task,
    )


def groups(offers: list[str] | None, text: str = TINY) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in untested(parse(text), facts(offers)):
        found.setdefault(item.needs, []).append(item)
    return found


def test_attacks_that_this_audit_could_have_run_are_listed_with_their_question() -> None:
    found = groups([])
    named = {item.why: item.what for item in found[ATTACK]}
    assert "reid-mlp" in named["Which of these users sent this update?"]
    assert "reid-knn" not in named["Which of these users sent this update?"], "it was run"
    assert any("link-cosine" in item.what for item in found[ATTACK])
    assert found[RUNS][0].what == "variation between runs"
    assert any("server" in item.what for item in found[ADVERSARY])


def test_what_the_data_does_not_allow_is_one_line() -> None:
    found = groups([])
    (rest,) = found[DATA]
    assert "secrets in users' texts" in rest.why and "attributes of the users" in rest.why
    everything = " ".join(item.what for items in found.values() for item in items)
    assert "eavesdrop" not in everything and "attribute-mlp" not in everything


def test_data_with_attributes_makes_their_attacks_possible() -> None:
    assert any("attribute-mlp" in item.what for item in groups(["attributes"])[ATTACK])


def test_a_game_that_no_prior_data_may_precede_needs_another_plan() -> None:
    found = [item for item in untested(parse(TINY), facts(["records"], "next-token")) if item.needs == PRIOR]
    assert any("eavesdrop" in item.what and 'prior = "none"' in item.why for item in found)


def test_nothing_repeats_and_the_list_is_short() -> None:
    found = [item.what for items in groups([]).values() for item in items]
    assert len(found) == len(set(found)) <= 14

"""How scores of several runs become one audit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.plan.read import parse
from fedleak.population.data_quality import Finding
from fedleak.score.assemble import RunResult, assemble, scored
from fedleak.score.labels import label, settings_key
from fedleak.score.score import AttackResult, decide, verdict
from fedleak.trace.pseudonyms import Pseudonyms
from fedleak.trace.run_facts import RunFacts
from scored import measure

NAMES = Pseudonyms(path=Path("names.json"), key=b"salt")
PLAN = """
title = "t"
seeds = [0, 1]
[dataset]
name = "digits"
[model]
name = "mlp"
[[attack]]
name = "reid-knn"
[[attack]]
name = "reid-knn"
k = 3
[[defence]]
name = "noise"
sigma = 1.0
also = [{name = "rand-aug"}]
deployed = true
[limits.identify]
ap = 0.2
"""


def facts(utility: float, centralised: float | None = None) -> RunFacts:
    return RunFacts(
        fingerprint="f",
        source="made up",
        users=6,
        private_examples=60,
        prior_examples=60,
        test_examples=10,
        parameters=100,
        layers={"out": 100},
        utility_metric="accuracy",
        higher_is_better=True,
        utility=utility,
        chance=0.1,
        centralised=centralised,
        dropped=0,
        findings=[Finding(kind="twins", count=2, action="drop", text="two are one")],
    )


def played(seed: int, skill: float, users: str = "") -> AttackResult:
    rng = np.random.default_rng(seed)
    right = np.repeat(np.arange(6), 5)
    claims = rng.normal(size=(30, 6)).astype(np.float32)
    claims[np.arange(30), right] += skill
    return AttackResult(seed, claims, right, tuple(f"{users}u{i}" for i in range(6)))


@pytest.fixture
def audit() -> Any:
    plan = parse(PLAN)
    keys = [settings_key(*play) for play in plan.plays]

    def run(defences: tuple[Any, ...], control: str | None, skill: float, utilities: list[float]) -> RunResult:
        return RunResult(
            defences=defences,
            control=control,
            deployed=bool(defences),
            facts=[facts(u, 0.9 if not (defences or control) else None) for u in utilities],
            played={key: [played(0, skill), played(1, skill)] for key in keys},
        )

    runs = [
        run((), None, 9.0, [0.8, 0.6]),
        run((), "iid", 0.0, [0.5, 0.5]),
        run(plan.defences[0], None, 9.0, [0.4, 0.4]),
    ]
    return assemble(plan, runs, 12.0, names=NAMES)


def test_each_run_attack_and_metric_has_one_score(audit: Any) -> None:
    keys = {(s.attack, s.control, s.defence and s.defence["name"], s.metric) for s in audit.scores}
    assert len(keys) == len(audit.scores) == 3 * 2 * 3
    assert {s.attack for s in audit.scores} == {"reid-knn (k=10)", "reid-knn (k=3)"}


def test_utility_is_the_mean_over_seeds_with_its_range_and_yardsticks(audit: Any) -> None:
    plain = audit.scores[0].utility
    assert (plain.value, plain.low, plain.high) == (pytest.approx(0.7), 0.6, 0.8)
    assert (plain.centralised, plain.chance, plain.undefended) == (0.9, pytest.approx(0.1), None)
    defended = next(s for s in audit.scores if s.defence).utility
    assert defended.undefended == pytest.approx(0.7)


def test_limits_hold_for_the_deployed_defence_only(audit: Any) -> None:
    for score in audit.scores:
        assert (score.limit == 0.2) is (score.defence is not None and score.metric == "ap")
        assert score.exceeded is (score.limit is not None)


def test_combined_defences_are_described_together(audit: Any) -> None:
    defence = next(s.defence for s in audit.scores if s.defence)
    assert defence["name"] == "noise"
    assert [also["name"] for also in defence["also"]] == ["rand-aug"]
    assert set(audit.defences) == {"noise", "rand-aug"}


def test_one_metric_of_each_attack_is_what_verdicts_are_about(audit: Any) -> None:
    assert {s.metric for s in audit.scores if s.headline} == {"ap"}
    assert not any(s.metric == "unseen" for s in audit.scores)  # a closed world


def test_an_audit_whose_control_is_off_says_so_and_one_that_holds_says_nothing(audit: Any) -> None:
    assert audit.warnings == []
    assert audit.games["identify"].controls == ["iid"]
    plan = parse(PLAN)
    keys = [settings_key(*play) for play in plan.plays]
    runs = [
        RunResult(
            defences=(),
            control=control,
            deployed=False,
            facts=[facts(0.8), facts(0.8)],
            played={key: [played(0, 9.0), played(1, 9.0)] for key in keys},
        )
        for control in (None, "iid")
    ]
    (warning,) = assemble(plan, runs, 12.0, names=NAMES).warnings
    assert warning.startswith("The control failed (anonymous-server, identify)")
    assert "2 of 2 scores are above chance" in warning


def test_no_defence_is_recommended_without_the_strongest_attack(audit: Any) -> None:
    assert "'reid-strong', the strongest attack on this question, was not run" in audit.tradeoffs[0].advice
    assert [(one.adversary, one.game, one.attack) for one in audit.not_run] == [
        ("anonymous-server", "identify", "reid-strong")
    ]


def test_what_was_not_tested_is_named(audit: Any) -> None:
    said = " ".join(f"{item.needs}: {item.what}." for item in audit.untested)
    assert "reid-mlp" in said and "match-mlp" in said and "variation between runs" in said
    assert "another adversary: server" in said
    assert "reid-knn" not in said
    assert [f.text for f in audit.findings] == ["two are one"]


def test_verdicts_never_say_safe() -> None:
    leak = measure([played(0, 9.0)], "ap", level=0.95, permutations=50)
    nothing = measure([played(0, 0.0)], "ap", level=0.95, permutations=50)
    assert verdict(leak, decide(leak, level=0.95)).startswith("leaks: ")
    assert verdict(leak, decide(leak, level=0.95)).endswith(", p = 0.020")
    assert verdict(nothing, decide(nothing, level=0.95)) == "no leak shown by this attack (n=30)"


def test_every_score_has_its_seeds_its_test_and_an_advantage(audit: Any) -> None:
    for score in audit.scores:
        assert len(score.by_seed) == 2 and np.mean(score.by_seed) == pytest.approx(score.value)
        assert score.leaks is (score.control is None and score.verdict.startswith("leaks"))
        assert 0 < score.p <= 1 and score.all_low <= score.low <= score.high <= score.all_high
        assert score.advantage == pytest.approx((score.value - score.chance) / (1 - score.chance))
    assert {score.leaks for score in audit.scores if score.headline} == {True, False}


def test_a_defended_score_is_measured_like_the_undefended_one(audit: Any) -> None:
    same = [[s for s in audit.scores if s.control is None and bool(s.defence) == defended] for defended in (0, 1)]
    for plain, guarded in zip(*same, strict=True):
        for name in ("value", "low", "high", "all_low", "all_high", "chance", "chance_high", "p", "leaks", "by_seed"):
            assert getattr(plain, name) == getattr(guarded, name)


def test_defence_aware_attacks_count_among_those_tried() -> None:
    plan = parse(PLAN)
    keys = [settings_key(*play) for play in plan.plays]

    def run(adaptive: bool) -> RunResult:
        return RunResult(
            defences=plan.defences[0],
            control=None,
            deployed=False,
            adaptive=adaptive,
            facts=[facts(0.8), facts(0.8)],
            played={key: [played(0, 0.3), played(1, 0.3)] for key in keys},
        )

    base = RunResult(defences=(), control=None, deployed=False, facts=[facts(0.8)] * 2, played={})
    one, both = (scored(plan, [base, *map(run, which)], NAMES)[0][0] for which in ([False], [False, True]))
    assert (one.low, one.high) == (both.low, both.high)
    assert both.all_low is not None and one.all_low is not None and both.all_low <= one.all_low < one.low


def test_the_same_user_in_two_seeds_is_resampled_as_one() -> None:
    same = measure([played(0, 1.0), played(1, 1.0)], "ap", level=0.95, permutations=50)
    others = measure([played(0, 1.0, "a"), played(1, 1.0, "b")], "ap", level=0.95, permutations=50)
    assert (same.users, others.users) == (6, 12)
    assert same.value == pytest.approx(others.value)
    assert others.high - others.low != same.high - same.low


def test_an_attack_is_labelled_by_what_sets_it_apart() -> None:
    attacks = parse(PLAN).attacks
    assert label(attacks[0], attacks) == "reid-knn (k=10)"
    assert label(attacks[0], attacks[:1]) == "reid-knn"

"""What an audit will take, from a calibration of seconds: real rounds, real attacks, and arithmetic."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import TINY
from fedleak import registry
from fedleak.errors import AttackStopped
from fedleak.pipeline import calibrate as calibration
from fedleak.pipeline.calibrate import AttackSamples, Sample, calibrate
from fedleak.pipeline.estimate import _attack_cost, estimate
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import audit
from fedleak.plan.read import parse


class Silent:
    def stage(self, text: str, units: float) -> None:
        pass

    def tick(self, units: float) -> None:
        pass


def quiet(text: str) -> None:
    pass


def test_the_work_of_an_attack_never_shrinks_with_the_rounds() -> None:
    declared = {}
    for name in registry.names("attack"):
        cls: Any = registry.load("attack", name)
        if hasattr(cls, "work"):
            attack = cls(**{"layer": "last"} if "layer" in cls.__dataclass_fields__ else {})
            declared[name] = [attack.work(rounds) for rounds in (1, 2, 10, 100, 1000)]
    assert len(declared) >= 37 and all(work == sorted(work) and work[0] > 0 for work in declared.values())
    assert declared["reid-strong"] == [1, 2, 10, 25, 25] and declared["reid-knn"] == [1, 2, 10, 100, 1000]


@dataclass(frozen=True)
class Plugin:
    name = "plugin"


@dataclass(frozen=True)
class Declared(Plugin):
    def work(self, rounds: int) -> float:
        return min(40, rounds)


def samples(attack: Any) -> AttackSamples:
    return AttackSamples((attack, None, None), (Sample(10, 2.0, 10**8), Sample(20, 3.0, 2 * 10**8)))  # type: ignore[arg-type]


def test_of_an_attack_that_declares_nothing_nothing_is_claimed() -> None:
    seconds, _, why = _attack_cost(samples(Plugin()), 100, 2000)
    assert seconds is None and "does not say how its work grows" in why


def test_a_declared_attack_is_carried_over_by_its_work() -> None:
    seconds, memory, why = _attack_cost(samples(Declared()), 100, 2000)
    assert seconds == pytest.approx(5.0) and why == ""  # 1 s, and 0.1 s for each of at most 40 rounds
    assert memory == pytest.approx(10**9)  # every round is held


def test_an_attack_never_holds_more_than_it_may() -> None:
    _, memory, _ = _attack_cost(samples(Declared()), 10_000, 100)
    assert memory == pytest.approx(2 * 10**8 + 100 * 2**20 + 2**30)


def test_a_whole_run_needs_no_declaration() -> None:
    assert _attack_cost(samples(Plugin()), 20, 2000)[0] == 3.0


def test_an_attack_that_is_stopped_is_judged_by_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parse(TINY)

    def stopped(*_: object, tick: Any) -> None:
        tick(0.25)
        raise AttackStopped("stopped")

    monkeypatch.setattr(calibration, "build_questions", lambda *_: None)
    monkeypatch.setattr(calibration, "predict", stopped)
    sample, scored = calibration._attack(plan, runs(plan, tmp_path)[0], plan.plays[0], 5)
    assert (sample.rounds, sample.seconds, scored) == (5, 4 * calibration._ATTACK, None)


def test_disk_and_runs_are_those_of_the_audit(tmp_path: Path) -> None:
    plan = parse(TINY + '[[defence]]\nname = "clip"\nbound = 1.0\n')
    found = calibrate(plan, tmp_path / "scratch", quiet)
    assert found is not None
    sums = estimate(plan, found)
    assert sums.unknown == [] and sums.seconds > 0 and sums.computing >= sums.training
    audit(plan, tmp_path / "out", Silent(), 1)
    used = sum(file.stat().st_size for file in (tmp_path / "out" / "runs").rglob("*") if file.is_file())
    assert sums.disk == pytest.approx(used, rel=0.2)
    predicted = list((tmp_path / "out").rglob("predictions/*.npy"))
    assert [one.runs for one in sums.attacks] == [len(predicted)]


def test_a_few_rounds_stand_for_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_ROUNDS", 4)
    plan = parse(TINY.replace("rounds = 30", "rounds = 3000"))
    found = calibrate(plan, tmp_path, quiet)
    assert found is not None and found.sampled == 4
    [attack] = found.attacks
    assert attack.attacked[-1].rounds == 16, "eight turns of every client, at a fraction of a half"
    assert estimate(plan, found).attacks[0].seconds is not None


def test_short_training_is_not_worth_an_estimate(tmp_path: Path) -> None:
    assert calibrate(parse(TINY), tmp_path, quiet, least=1e6) is None

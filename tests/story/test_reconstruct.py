"""Reconstructions from the plan to the report: passive ones leave the run as it is, active ones say what they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run
from fedleak.errors import PlanError
from fedleak.pipeline import stages
from fedleak.plan.read import parse
from fedleak.trace.header import Header

PLAN = """
seeds = [0]
dataset = { name = "mnist-clients", source = "digits", clients = 10, examples = 20, classes = 2, auxiliary = 400, \
angles = [40.0] }
population = { prior = "none", users = 5 }
model = { name = "strided-cnn", channels = [4, 8], strides = [2, 1], activation = "elu" }
federation = { rounds = 3, fraction = 1.0, batch = 10, lr = 0.05, centralised = false }
audit = { adversaries = ["server"], controls = [] }
game = [{ name = "reconstruct", victims = 3, samples = 6, attribute = "rotation" }]
attack = [{ name = "representatives", iterations = 5, rounds = 1 }]
"""
PASSIVE = '{ name = "mgan-passive", rounds = 2, steps = 1, early = 1, iterations = 3, width = 0.05 }'
ACTIVE = '{ name = "mgan-active", rounds = 2, steps = 1, width = 0.05 }'


def trace_of(out: Path) -> dict[str, bytes]:
    folder = out / "runs" / "plain" / "seed-0" / "trace"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != ".lock"}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_a_passive_attack_leaves_the_federation_as_it_is_to_the_byte(fedleak: Run, tmp_path: Path) -> None:
    assert fedleak("train", written(tmp_path, PLAN), "--out", tmp_path / "without").returncode == 0
    text = PLAN.replace("attack = [", f"attack = [{PASSIVE}, ")
    done = fedleak("audit", written(tmp_path, text), "--out", tmp_path / "with")
    assert done.returncode == 0, done.stderr
    assert trace_of(tmp_path / "without") == trace_of(tmp_path / "with")

    results = json.loads((tmp_path / "with" / "results.json").read_text())
    assert {score["metric"] for score in results["scores"]} == {"nearest", "specific", "property"}
    assert all(detail["quality"] and not detail["grids"] for detail in results["details"])
    assert (tmp_path / "with" / "images.json").stat().st_mode & 0o777 == 0o600
    page = (tmp_path / "with" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2 * 3
    assert fedleak("report", tmp_path / "with").returncode == 0
    assert (tmp_path / "with" / "report.html").read_text().count("data:image/png;base64,") == 2 * 3


class Watched:
    """Progress as a bar would show it."""

    def __init__(self) -> None:
        self.ticks: dict[str, list[float]] = {}
        self.units: dict[str, float] = {}

    def stage(self, text: str, units: float) -> None:
        self.text, self.units[text], self.ticks[text] = text, units, []

    def tick(self, units: float) -> None:
        self.ticks[self.text].append(units)


def test_an_attack_that_takes_long_says_how_far_it_is(tmp_path: Path) -> None:
    plan, watched = parse(PLAN.replace("attack = [", f"attack = [{PASSIVE}, ")), Watched()
    stages.train(plan, tmp_path / "out", watched, 1)
    stages.attack(plan, tmp_path / "out", watched, 1)
    [running] = [text for text in watched.ticks if text.startswith("Running")]
    # A tick for each of three victims, and one for the attack that takes no time.
    assert len(watched.ticks[running]) == 3 + 1
    assert sum(watched.ticks[running]) == pytest.approx(watched.units[running])
    assert max(watched.ticks[running][:3]) < 0.5


def test_an_active_server_and_a_malicious_client_are_declared_and_their_effect_is_measured(
    fedleak: Run, tmp_path: Path
) -> None:
    active = PLAN.replace('["server"]', '["active-server"]').replace("attack = [", f"attack = [{ACTIVE}, ")
    active += 'isolate = { victims = 2 }\nanalysis = [{ name = "side-effect" }]\n'
    done = fedleak("audit", written(tmp_path, active), "--out", tmp_path / "active")
    assert done.returncode == 0, done.stderr
    [told] = Header.load(tmp_path / "active" / "runs" / "plain" / "seed-0" / "trace").tampering
    assert told["power"] == "isolate" and len(told["clients"]) == 2

    joined = PLAN.replace('["server"]', '["malicious-client"]')
    joined = joined[: joined.index("attack = [")] + 'attack = [{ name = "hitaj-gan" }]\n'
    joined += 'join = { fakes = 10, own = 10, steps = 1, width = 0.05 }\nanalysis = [{ name = "side-effect" }]\n'
    done = fedleak("audit", written(tmp_path, joined), "--out", tmp_path / "joined")
    assert done.returncode == 0, done.stderr
    for out, who in (("active", "active server"), ("joined", "malicious client")):
        results = json.loads((tmp_path / out / "results.json").read_text())
        [effect] = results["analyses"]
        assert effect["name"] == "side-effect"
        assert effect["columns"] == ["round", "passive (undisturbed)", who, "difference", "low", "high"]
        assert len(effect["rows"]) == 5 and effect["rows"][-1][0] == "last 1"
        assert effect["rows"][-1][3] == pytest.approx(effect["rows"][-1][2] - effect["rows"][-1][1])
        # Active or not, everything starts from the same model, unless it has one more output.
        assert out == "joined" or effect["rows"][0][1] == effect["rows"][0][2]
        assert effect["rows"][-1][1] != effect["rows"][-1][2]


def test_a_server_that_sends_its_discriminator_declares_how_and_not_to_whom(tmp_path: Path) -> None:
    text = PLAN.replace('["server"]', '["active-server"]').replace(
        "attack = [", 'attack = [{name = "mgan-active-paper"}, '
    )
    text += 'isolate = { user = "client-0-002", sent = "discriminator", steps = 2, batch = 4, width = 0.05 }\n'
    plan = parse(text, "my.toml", {"population": {"users": 10}})
    stages.train(plan, tmp_path / "out", Watched(), 1)
    [told] = Header.load(tmp_path / "out" / "runs" / "plain" / "seed-0" / "trace").tampering
    assert told["power"] == "isolate" and len(told["clients"]) == 1
    wanted = {"sent": "discriminator", "steps": 2, "batch": 4, "width": 0.05, "growth": 1.0}
    assert {key: told[key] for key in wanted} == wanted and isinstance(told["seed"], int)
    assert "client-0-002" not in str(told)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PLAN.replace("attack = [", f"attack = [{ACTIVE}, "),
            "attack 'mgan-active' needs snapshots, updates, links and the capability to isolate; adversary 'server'",
        ),
        (
            PLAN.replace('["server"]', '["active-server"]').replace("attack = [", f"attack = [{ACTIVE}, "),
            "attack 'mgan-active' needs an isolated victim; isolate one with a table [isolate]",
        ),
        (PLAN + "isolate = {}\n", "no adversary of the plan can isolate a client; name one"),
        (PLAN + "join = {}\n", "no adversary of the plan can join as a client; name one"),
        (PLAN.replace('prior = "none", ', ""), "would give the adversary users' data"),
    ],
)
def test_a_plan_without_the_power_or_with_too_much_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(text, "my.toml")
    assert message in str(caught.value)


def test_a_victim_who_is_not_in_the_federation_is_refused(fedleak: Run, tmp_path: Path) -> None:
    text = PLAN.replace('["server"]', '["active-server"]') + 'isolate = { user = "nobody" }\n'
    done = fedleak("train", written(tmp_path, text), "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "[isolate] user = 'nobody': there is no such user in the federation" in done.stderr

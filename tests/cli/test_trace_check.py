"""`fedleak trace check`: what a recorded run holds, and what each attack lacks on it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedleak import registry
from fedleak.cli.main import cli
from fedleak.errors import FedleakError, PlanError, TraceError
from recorded_run import PLAN, record_run, write_app


def ran(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["trace", "check", *map(str, arguments)])
    if isinstance(result.exception, FedleakError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def found(*arguments: object) -> dict[str, Any]:
    read = json.loads(ran(*arguments, "--json").output)
    assert isinstance(read, dict)
    return read


def missing(report: dict[str, Any], attack: str) -> str:
    (row,) = [row for row in report["attacks"] if row["attack"] == attack]
    return "; ".join(row["missing"])


def test_a_run_is_described_by_counts(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", integers=True, lost=[("node-9", "timed out"), ("node-8", "timed out")])
    trace = found(run)["trace"]
    assert trace["origin"] == {"framework": "flower", "version": "1.41.0", "strategy": "FedAvg"}
    assert (trace["state"], trace["rounds"], trace["rounds_with_updates"], trace["updates"]) == ("closed", 4, 4, 12)
    assert trace["participation"] == {"least": 2, "median": 2.0, "most": 2, "once": 0}
    assert trace["drops"] == {"timed out": 2}
    assert trace["buffers"] == ["bn:buffers"]
    assert list(trace["left_out"]) == ["bn.num_batches_tracked"]
    assert trace["disk"] > 0 and trace["key"] and trace["partitions"] and trace["jumps"] == []
    assert "node-" not in json.dumps(trace)  # the key stays where it is


@pytest.mark.parametrize(
    ("options", "state", "reason"),
    [({"reason": None}, "open", "not closed"), ({"reason": "disk full"}, "partial", "disk full")],
)
def test_a_recording_that_ended_early_says_why(
    tmp_path: Path, options: dict[str, Any], state: str, reason: str
) -> None:
    trace = found(record_run(tmp_path / "run", **options))["trace"]
    assert trace["state"] == state and reason in trace["reason"]


def test_a_round_that_leads_to_another_model_is_named(tmp_path: Path) -> None:
    assert found(record_run(tmp_path / "run", again=True))["trace"]["jumps"] == [5]


def test_what_each_attack_lacks_follows_from_what_it_declares(tmp_path: Path) -> None:
    report = found(record_run(tmp_path / "run"))
    for row in report["attacks"]:
        attack = registry.load("attack", row["attack"])
        game: Any = registry.load("game", row["game"])
        said = "; ".join(row["missing"])
        assert ("owners" in said) == game.needs_owners
        assert ("prior data of the users" in said) == bool(game.needs_prior)
        assert ("the capability to" in said) == bool(attack.capabilities)
        assert bool(row["adversaries"]) == (not row["missing"])
    assert '[truth] owners = "key" takes the partitions' in missing(report, "reid-svm")


def test_with_a_plan_the_attacks_of_its_adversaries_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_run(tmp_path / "run")
    write_app(tmp_path, monkeypatch)
    (tmp_path / "plan.toml").write_text(PLAN)
    report = found("run", "--plan", "plan.toml")
    rows = {row["attack"]: row for row in report["attacks"]}
    assert rows["reid-svm"]["missing"] == [] and rows["reid-svm"]["adversaries"] == ["anonymous-server"]
    assert rows["reid-strong"]["missing"] == []
    assert "attributes of the users" in missing(report, "attribute-mlp")
    assert "own data" in missing(report, "representatives")
    assert "anonymous-server lacks links" in missing(report, "representatives")
    assert "a model for" in missing(report, "eavesdrop")


@pytest.mark.parametrize(
    ("options", "attack", "lacks"),
    [
        ({"sums": True}, "link-cosine", "only sums were recorded"),
        ({"every": 2}, "disaggregate-ridge", "every = 2"),
        ({"layers": ["fc"]}, "reid-svm", "updates of layer 'out', which were not recorded"),
        ({"clients": 0}, "reid-svm", "no client's update was recorded"),
        ({"identified": False}, "reid-svm", "takes the node ids for users"),
    ],
)
def test_what_was_not_recorded_is_missing(tmp_path: Path, options: dict[str, Any], attack: str, lacks: str) -> None:
    assert lacks in missing(found(record_run(tmp_path / "run", **options)), attack)


def test_many_users_behind_a_client_leave_the_games_that_can_ask_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_run(tmp_path / "run", clients=2)
    write_app(tmp_path, monkeypatch)
    (tmp_path / "owners.csv").write_text("client,user\n" + "".join(f"{user % 2},{user}\n" for user in range(6)))
    (tmp_path / "plan.toml").write_text(PLAN.replace('"key"', '"owners.csv"'))
    report = found("run", "--plan", "plan.toml")
    assert 'one user per client: 6 users are behind 2 clients; set unit = "client"' in missing(report, "reid-svm")
    assert missing(report, "match-cosine") == ""
    (tmp_path / "plan.toml").write_text(PLAN.replace('"key"', '"owners.csv"\nunit = "client"'))
    assert missing(found("run", "--plan", "plan.toml"), "reid-svm") == ""


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run")
    path = run / "trace" / "aggregates.bin"
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"aggregates\.bin is damaged"):
        ran(run)


def test_hostile_text_of_a_client_does_not_reach_the_terminal(tmp_path: Path) -> None:
    why = "\x1b[2J[red]boom[/red]\u202e<b>\n$(x)"
    said = ran(record_run(tmp_path / "run", lost=[("node-9", why)], reason=f"\x1b]0;{why}")).output
    assert "\x1b" not in said and "\u202e" not in said and "[red]boom[/red]" in said


def test_a_trace_folder_of_any_kind_can_be_checked(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run")
    assert found(run / "trace")["trace"]["key"]
    (run / "trace").rename(tmp_path / "elsewhere")
    assert not found(tmp_path / "elsewhere")["trace"]["key"]
    with pytest.raises(TraceError, match="not a recorded run"):
        ran(run)


def test_a_plan_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_run(tmp_path / "run")
    record_run(tmp_path / "other")
    write_app(tmp_path, monkeypatch)
    (tmp_path / "plan.toml").write_text(PLAN)
    with pytest.raises(PlanError, match="names run, not other"):
        ran("other", "--plan", "plan.toml")


def test_the_table_names_every_attack(tmp_path: Path) -> None:
    said = ran(record_run(tmp_path / "run")).output
    assert all(f"{name} " in said for name in registry.names("attack"))
    assert f"of {len(registry.names('attack'))} attacks can be run" in said


SECRETS = """
title = "tiny"
[trace]
path = "run"
[truth]
owners = "key"
secrets = "secrets.csv"
[prior]
secret = "{a1}{d2}"
characters = "tiny_app:characters"
[model]
name = "char-lm"
[audit]
adversaries = ["eavesdropper", "server"]
[[attack]]
name = "eavesdrop"
[[attack]]
name = "link-cosine"
"""


def test_what_attacks_on_secrets_lack_is_said_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = found(record_run(tmp_path / "run"))
    for what in ("owners", "[truth] secrets", "[prior] secret", "[prior] characters", "[model]"):
        assert what in missing(report, "eavesdrop")
    assert "[prior] watermarks" in missing(report, "watermark")
    write_app(tmp_path, monkeypatch)
    with open("tiny_app.py", "a") as file:
        file.write("def characters():\n    return '_abcdefghijklmnopqrstuvwxyz0123456789\\n'\n")
    (tmp_path / "secrets.csv").write_text("client,secret\n0,a12\n3,b34\n")
    (tmp_path / "plan.toml").write_text(SECRETS)
    report = found("run", "--plan", "plan.toml")
    assert missing(report, "eavesdrop") == missing(report, "exposure-baseline") == ""
    assert "[prior] watermarks" in missing(report, "watermark")
    (tmp_path / "marks.csv").write_text("client,watermark\n0,ab12\n")
    marked = SECRETS.replace("[model]", 'watermarks = "marks.csv"\n[model]').replace('"server"', '"server", "insider"')
    (tmp_path / "plan.toml").write_text(marked + '[[attack]]\nname = "watermark"\n')
    assert missing(found("run", "--plan", "plan.toml"), "watermark") == ""
    (tmp_path / "plan.toml").write_text(SECRETS.replace("char-lm", "mlp"))
    assert "a model for next-token; [model] is 'mlp'" in missing(found("run", "--plan", "plan.toml"), "eavesdrop")
    (tmp_path / "plan.toml").write_text(SECRETS)
    (tmp_path / "secrets.csv").write_text("client,secret\n0,a12\n3,b3\n")
    with pytest.raises(TraceError, match="row 3: the secret of client '3' does not fit"):
        ran("run", "--plan", "plan.toml")


def test_who_took_part_must_be_known_to_attribute_secrets(tmp_path: Path) -> None:
    report = found(record_run(tmp_path / "run", every=2))
    assert "every = 2" in missing(report, "eavesdrop") and "every = 2" not in missing(report, "exposure-baseline")

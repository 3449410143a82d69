"""`fedleak simulate-like`: a plan that trains a federation like a recorded one."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fedleak.api import audit
from fedleak.cli.main import cli
from fedleak.errors import PlanError
from fedleak.plan.read import load_plan, parse
from fedleak.record.recorder import Recorder, Reply
from recorded_run import PLAN, record_run, write_app


def written(folder: Path, plan: str, *options: str) -> tuple[str, dict[str, Any]]:
    (folder / "plan.toml").write_text(plan)
    result = CliRunner().invoke(cli, ["simulate-like", "plan.toml", *options])
    if result.exception is not None:
        raise result.exception
    text = (folder / "plan-like.toml").read_text()
    return text, tomllib.loads(text)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    record_run(tmp_path / "run")
    write_app(tmp_path, monkeypatch)
    return tmp_path


def test_settings_of_the_run_and_of_its_plan_are_carried_over(app: Path) -> None:
    text, plan = written(app, PLAN + '[[attack]]\nname = "match-cosine"\n[limits.identify]\nap = 0.5\n')
    assert plan["dataset"] == {"name": "tiny_app:prior"} and plan["model"] == {"name": "tiny_app:Net"}
    assert plan["federation"] == {
        "rounds": 4,
        "fraction": 0.5,
        "lr": 0.1,
        "batch": 8,
        "weighting": "examples",
        "centralised": False,
    }
    assert [attack["name"] for attack in plan["attack"]] == ["reid-svm", "match-cosine"]
    assert plan["limits"] == {"identify": {"ap": 0.5}}
    named = [defence["name"] for defence in plan["defence"]]
    assert named == ["clip", "sparsify", "quantise", "dp-fedavg"]
    assert 0 < plan["defence"][0]["bound"] < 10  # as large as a recorded update
    assert '# [[defence]]\n# name = "secure-aggregation"' in text
    assert "embedding-noise" not in text  # the model has no embedding
    assert CliRunner().invoke(cli, ["check", "plan-like.toml", "--quick"]).exit_code == 0


def test_what_is_lost_is_said_in_the_file(app: Path) -> None:
    record_run(app / "adam", strategy="FedAdam")
    (app / "owners.csv").write_text("client,user\n" + "".join(f"{user % 3},{user}\n" for user in range(6)))
    plan = PLAN.replace('path = "run"', 'path = "adam"').replace('"key"', '"owners.csv"\nunit = "client"')
    text, _ = written(app, plan.replace("lr = 0.1", 'train = "tiny_app:prior"') + '[[attack]]\nname = "link-cosine"\n')
    for lost in (
        "the strategy FedAdam",
        "local training by tiny_app:prior",
        "attack link-cosine: game 'link' needs a plan of its own",
        "6 users were behind 3 clients",
    ):
        assert f"# - {lost}" in text
    assert "# - buffers" not in text


def test_a_file_is_replaced_only_with_force(app: Path) -> None:
    (app / "plan-like.toml").write_text("mine")
    with pytest.raises(PlanError, match="exists"):
        written(app, PLAN)
    assert (app / "plan-like.toml").read_text() == "mine"
    assert "tiny_app" in written(app, PLAN, "--force")[0]


@pytest.mark.parametrize(
    ("plan", "wrong"),
    [
        (PLAN.replace('[prior]\ndata = "tiny_app:prior"\n', "").replace("reid-svm", "link-cosine"), "names no data"),
        (
            '[dataset]\nname = "digits"\n[model]\nname = "mlp"\n[[attack]]\nname = "reid-knn"\n',
            "of its own; name a plan that audits",
        ),
    ],
)
def test_a_plan_that_gives_nothing_to_train_on_is_refused(app: Path, plan: str, wrong: str) -> None:
    with pytest.raises(PlanError, match=wrong):
        written(app, plan)


def test_a_run_and_the_plan_that_audits_it_give_the_same_as_the_plan_alone(app: Path) -> None:
    text, _ = written(app, PLAN)
    done = CliRunner().invoke(cli, ["simulate-like", "run", "--plan", "plan.toml", "--out", "other.toml"])
    assert done.exit_code == 0 and (app / "other.toml").read_text() == text


def test_a_plan_that_audits_another_run_is_refused(app: Path) -> None:
    record_run(app / "another")
    (app / "plan.toml").write_text(PLAN)
    done = CliRunner().invoke(cli, ["simulate-like", "another", "--plan", "plan.toml"])
    assert "names run, not another" in str(done.exception)
    done = CliRunner().invoke(cli, ["simulate-like", "missing", "--plan", "plan.toml"])
    assert "names run, not missing" in str(done.exception)
    assert not (app / "plan-like.toml").exists()


def test_hostile_text_in_a_plan_stays_text(app: Path) -> None:
    title = 'a\\u007f \\"quoted\\" \\\\ \\u202e [[attack]]'
    _, plan = written(app, PLAN.replace('"tiny"', f'"{title}"'))
    assert plan["title"].endswith('a\x7f "quoted" \\ \u202e [[attack]]')


def test_the_written_plan_trains_and_compares_defences(app: Path) -> None:
    text, _ = written(app, PLAN)
    small = text[: text.index("[[defence]]")] + '[[defence]]\nname = "sparsify"\n'
    plan = parse(small, "like", {"audit": {"permutations": 20, "controls": [], "adaptive": False}})
    found = audit(plan, app / "out", jobs=1).audit
    assert {(score.attack, bool(score.defence)) for score in found.scores} == {("reid-svm", False), ("reid-svm", True)}
    assert load_plan(app / "plan-like.toml").federation.rounds == 4


def test_secrets_are_planted_in_texts_of_others(app: Path) -> None:
    (app / "secrets.csv").write_text("client,secret\n0,pin 1234\n3,pin 5678\n")
    text, plan = written(
        app,
        PLAN.replace('data = "tiny_app:prior"', 'secret = "pin {d4}"\ncharacters = "tiny_app:characters"')
        .replace('"key"', '"key"\nsecrets = "secrets.csv"')
        .replace("reid-svm", "eavesdrop")
        + '[audit]\nadversaries = ["eavesdropper"]\n',
    )
    assert plan["dataset"] == {"name": "text-clients", "source": "ptb", "clients": 6, "secret": "pin {d4}"}
    assert plan["population"] == {"prior": "none"} and plan["model"] == {"name": "char-lm"}
    assert "# - the model tiny_app:Net: char-lm reads the alphabet" in text
    assert "1234" not in text
    assert CliRunner().invoke(cli, ["check", "plan-like.toml", "--quick"]).exit_code == 0


NORMED = """
import numpy as np
from torch import nn


def prior():
    rng = np.random.default_rng(0)
    return {str(n): (rng.random((12, 1, 6, 6), dtype=np.float32) + n, np.arange(12) % 3) for n in range(6)}


def net():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(32, 3)
    )
"""


@pytest.mark.parametrize("named", [True, False])
def test_a_model_with_batchnorm_and_dropout_is_trained_like_the_recorded_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    (tmp_path / "normed_app.py").write_text(NORMED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "normed_app", raising=False)
    import normed_app  # type: ignore[import-not-found]

    state = {key: value.numpy() for key, value in normed_app.net().state_dict().items()}
    model = {key if named else f"array-{n}": value for n, (key, value) in enumerate(state.items())}
    recorder = Recorder(tmp_path / "run", origin={"framework": "flower", "version": "1.41.0", "strategy": "FedAvg"})
    rng = np.random.default_rng(0)
    for _ in range(3):
        recorder.sent(model)
        replies = []
        for n in range(6):
            moved = {
                k: v + rng.random(v.shape).astype(v.dtype) * 0.1 if v.dtype.kind == "f" else v for k, v in model.items()
            }
            replies.append(Reply(client=f"node-{n}", arrays=moved, examples=12, partition=str(n)))
        recorder.received(replies, after=model)
    recorder.close("")
    text, plan = written(
        tmp_path, PLAN.replace("tiny_app:prior", "normed_app:prior").replace("tiny_app:Net", "normed_app:net")
    )
    assert "# What the recorded run has" not in text
    assert [defence["name"] for defence in plan["defence"]] == ["clip", "sparsify", "quantise"]  # no epsilon holds
    weights = 18 + 2 + 2 + 2 + 96 + 3  # the bound is the norm of an update of these, without the buffers
    assert plan["defence"][0]["bound"] == pytest.approx(np.sqrt(weights / 3) * 0.1, rel=0.1)
    small = text[: text.index("[[defence]]")] + '[[attack]]\nname = "reid-strong"\n[[defence]]\nname = "clip"\n'
    settings = {"audit": {"permutations": 20, "controls": [], "adaptive": True}}
    found = audit(parse(small, "like", settings), tmp_path / "out", jobs=1).audit
    seen = {(score.attack, bool(score.defence)) for score in found.scores}
    assert seen == {(attack, defended) for attack in ("reid-svm", "reid-strong") for defended in (False, True)}
    assert list((tmp_path / "out").glob("report.html"))

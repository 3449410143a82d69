"""Several games of one trained federation, each with its own adversaries, attacks and controls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Run
from fedleak.errors import PlanError
from fedleak.games.link import Link
from fedleak.games.reconstruct import Reconstruct
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import runs, variants
from fedleak.plan.read import parse
from fedleak.trace.reader import Trace
from fedleak.views.adversaries import ANONYMOUS_SERVER

PLAN = """
title = "several games"
[dataset]
name = "digits"
users = 12
examples = 40
class_bias = 1.0
[population]
prior = "random"
background_users = 4
[model]
name = "mlp"
hidden = [8]
[federation]
rounds = 6
fraction = 0.5
batch = 10
lr = 0.1
centralised = false
"""
IDENTIFY = '[[attack]]\nname = "reid-knn"\nk = 3\n'
LINK = '[[attack]]\nname = "link-cosine"\nshadows = 4\nshadow_rounds = 2\n'
MATCH = '[[attack]]\nname = "match-cosine"\n[[game]]\nname = "match"\npairs = 400\n'
GROUP = '[[attack]]\nname = "attribute-mlp"\nepochs = 3\n[[game]]\nname = "attribute"\nattribute = "slant"\n'
WHO = ("attack", "adversary", "game", "metric", "control")


def figures(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    found = json.loads((folder / "results.json").read_text())["scores"]
    return {tuple(str(one[key]) for key in WHO): one for one in found}


def test_every_game_scores_as_it_does_alone(tmp_path: Path, fedleak: Run) -> None:
    together = tmp_path / "together.toml"
    together.write_text(PLAN + IDENTIFY + LINK + MATCH + GROUP)
    done = fedleak("audit", together, "--out", "together")
    assert done.returncode == 0, done.stderr
    assert "Training 3 federations" in done.stdout + done.stderr
    found = figures(tmp_path / "together")
    assert {(key[2], key[4]) for key in found} == {
        *(("identify", "None"), ("identify", "iid"), ("match", "None"), ("match", "iid")),
        *(("link", "None"), ("link", "iid"), ("link", "fresh-data"), ("attribute", "None"), ("attribute", "iid")),
    }
    for name, attacks, control in (
        ("identify", IDENTIFY, "iid"),
        ("link", LINK, "fresh-data"),
        ("match", MATCH, "iid"),
    ):
        (tmp_path / "alone.toml").write_text(PLAN + attacks)
        assert fedleak("audit", tmp_path / "alone.toml", "--out", name).returncode == 0
        alone = figures(tmp_path / name)
        assert {key[4] for key in alone} == {"None", control}
        for key, one in alone.items():
            assert {k: found[key][k] for k in ("value", "low", "high", "chance", "p", "n", "leaks", "utility")} == {
                k: one[k] for k in ("value", "low", "high", "chance", "p", "n", "leaks", "utility")
            }, key


def test_a_game_that_is_added_later_is_asked_of_the_federation_that_is_there(tmp_path: Path, fedleak: Run) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN + IDENTIFY)
    assert fedleak("audit", path, "--out", "out").returncode == 0
    log = tmp_path / "out" / "runs" / "plain" / "seed-0" / "trace" / "log"
    before, alone = log.stat().st_mtime_ns, figures(tmp_path / "out")
    path.write_text(PLAN + IDENTIFY + LINK + "[limits.link]\ngap1 = 0.0\n")
    done = fedleak("audit", path, "--out", "out")
    assert done.returncode == 3, done.stderr  # the limit of one game, whatever the others show
    assert log.stat().st_mtime_ns == before
    both = figures(tmp_path / "out")
    assert all(both[key] == one for key, one in alone.items())
    assert {key[2] for key in both} == {"identify", "link"}
    done = fedleak("train", path, "--out", "out")
    assert "Training 0 federations" in done.stdout + done.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Which of these users sent this update?" in page
    assert "Which of these anonymous updates come from the same client?" in page
    assert page.count("shadow clients are neither asked about nor shown") >= 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fedleak.pipeline.stages import train

    class Silent:
        def stage(self, text: str, units: float) -> None: ...

        def tick(self, units: float) -> None: ...

    out = tmp_path_factory.mktemp("trained")
    train(parse(PLAN + IDENTIFY + LINK + "[audit]\ncontrols = []\n"), out, Silent(), 1)
    return out


def test_linking_is_asked_about_users_clients_and_hides_shadow_clients(trained: Path) -> None:
    (run,) = runs(parse(PLAN + IDENTIFY + LINK + "[audit]\ncontrols = []\n"), trained)
    trace, given = Trace.open(run.folder / "trace"), build_questions(run, Link())
    shadow = np.asarray(trace.shadow)
    assert (shadow >= 0).any()
    assert (shadow[given.questions.updates] < 0).all()
    view, _ = given.look(run.folder / "trace", ANONYMOUS_SERVER)
    assert len(view.updates) == (shadow < 0).sum() and (view.updates.shadow < 0).all()
    assert not given.prior.candidates and given.prior.background is not None


def test_victims_are_users_clients(trained: Path) -> None:
    from dataclasses import replace

    from fedleak.population.prepare import prepare
    from fedleak.trace.evidence import Evidence
    from fedleak.trace.prior import Prior
    from fedleak.trace.truth import Truth

    plan = parse(PLAN + IDENTIFY + "[audit]\ncontrols = []\n")
    (run,) = runs(plan, trained)
    trace, shadow = Trace.open(run.folder / "trace"), np.asarray(Trace.open(run.folder / "trace").shadow)
    population = prepare(plan.dataset, plan.population, 0, iid=False)
    truth = replace(Truth.load(run.folder / "truth"), evidence=Evidence.of(population))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        given = Reconstruct(victims=8).ask(trace, truth, Prior.load(run.folder / "prior"), rng)
        assert (shadow[given.questions.updates] < 0).all()
        assert len(set(given.answers.who.tolist())) == 8


def test_the_adversaries_of_a_game_are_its_own() -> None:
    text = PLAN + IDENTIFY + LINK + '[audit]\nadversaries = ["server", "anonymous-server"]\n'
    plan = parse(text + '[[game]]\nname = "link"\nadversaries = ["anonymous-server"]\n')
    assert [(game.name, who.name) for _, game, who in plan.plays] == [
        ("identify", "server"),
        ("identify", "anonymous-server"),
        ("link", "anonymous-server"),
    ]
    assert {"name": "link", "starts": 6, "adversaries": ["anonymous-server"]} in plan.resolved["game"]
    again = parse(text + '[[game]]\nname = "link"\n', change={"game": plan.resolved["game"]})
    assert again.plays == plan.plays


def test_a_control_is_for_the_games_that_have_it() -> None:
    def played(text: str) -> dict[str | None, set[str]]:
        plan = parse(PLAN + text)
        return {one.control: {game.name for _, game, _ in one.plays(plan)} for one in variants(plan)}

    assert played(IDENTIFY + LINK) == {
        None: {"identify", "link"},
        "iid": {"identify", "link"},  # for linking it shows how much says nothing about users
        "fresh-data": {"link"},
    }
    assert played(IDENTIFY + '[audit]\ncontrols = ["fresh-data"]\n') == {None: {"identify"}, "fresh-data": {"identify"}}
    sums = '[[attack]]\nname = "disaggregate-ridge"\n[audit]\nadversaries = ["server"]\n'
    assert played(IDENTIFY + sums)["shuffled-selection"] == {"disaggregate"}


def test_who_knows_a_defence_gains_nothing_in_a_game_that_hides_shadow_clients_unless_it_imitates() -> None:
    text = PLAN + IDENTIFY + LINK + '[[attack]]\nname = "link-rep"\n[[defence]]\nname = "noise"\nsigma = 1.0\n'
    plan = parse(text)
    aware = next(one for one in variants(plan) if one.adaptive)
    assert {attack.name for attack, _, _ in aware.plays(plan)} == {"reid-knn", "link-cosine", "link-rep"}
    silent = parse(text.replace("link-rep", "representatives").replace("anonymous-server", "server"), change=SERVER)
    aware = next(one for one in variants(silent) if one.adaptive)
    assert {attack.name for attack, _, _ in aware.plays(silent)} == {"reid-knn", "link-cosine"}


SERVER = {"audit": {"adversaries": ["server"]}}
SECRETS = """
[dataset]
name = "text-clients"
clients = 4
[population]
prior = "random"
[model]
name = "char-lm"
[audit]
adversaries = ["eavesdropper", "server"]
[[attack]]
name = "exposure-baseline"
[[attack]]
name = "reid-knn"
"""
IMAGES = """
[dataset]
name = "mnist-clients"
source = "digits"
clients = 8
[population]
prior = "none"
[model]
name = "mlp"
[audit]
adversaries = ["active-server"]
[isolate]
[[attack]]
name = "mgan-active"
[[attack]]
name = "link-cosine"
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SECRETS, "games 'identify' and 'extract' cannot share a federation: 'identify' needs prior data and shadow"),
        (IMAGES, r"\[isolate\]: games 'reconstruct' and 'link' cannot share a federation: the table changes what is"),
        (PLAN.replace("random", "none") + IDENTIFY + LINK, "game 'identify' needs prior data, but prior = 'none'"),
        (PLAN.replace('prior = "random"\n', "") + LINK, "prior = 'random' would give the adversary users' data"),
        (
            PLAN + LINK + IDENTIFY + '[audit]\ncontrols = ["decoys"]\n',
            r"no game of this plan \('link', 'identify'\) has the control 'decoys'",
        ),
        (PLAN + LINK + '[[game]]\nname = "link"\nadversaries = []\n', r"\[\[game\]\] 1 adversaries"),
        (
            PLAN + LINK + '[[game]]\nname = "link"\nadversaries = ["sever"]\n[audit]\nadversaries = ["server"]\n',
            r"\[\[game\]\] 1 adversaries: 'sever' is not in \[audit\] adversaries; did you mean 'server'",
        ),
        (
            PLAN + LINK + '[[game]]\nname = "link"\nadversaries = ["server"]\n'
            '[audit]\nadversaries = ["server", "anonymous-server"]\n',
            "'anonymous-server' plays no game",
        ),
        (
            PLAN + IDENTIFY + LINK + '[[game]]\nname = "link"\nadversaries = ["eavesdropper"]\n'
            '[audit]\nadversaries = ["server", "eavesdropper"]\n',
            "attack 'link-cosine' needs .*; adversary 'eavesdropper' lacks",
        ),
        (
            PLAN + IDENTIFY + '[[game]]\nname = "identify"\n[[game]]\nname = "identify"\nseen = 0.5\n'
            'adversaries = ["anonymous-server"]\n',
            "'identify' has several tables",
        ),
    ],
)
def test_games_that_cannot_share_say_why_in_one_line(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as error:
        parse(text)
    assert "\n" not in str(error.value)

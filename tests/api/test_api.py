"""Fedleak as a library: the public names, an audit from a script, and an attack of one's own on a recorded run."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import fedleak
from command_line import TINY
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.knn import NearestNeighbours
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates
from fedleak.core import FloatArray
from fedleak.errors import AttackError, FedleakError, PlanError
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

PUBLIC = """
audit load read_plan open_trace evaluate Plan Result RecordedRun Score Difference
ArrayDataset Dataset Population User UserId Examples Task Signature
Attack View Prior Questions Predictions AttackContext SingleLayerAttack features fill_missing_candidates
Observation Capability adversaries Adversary
Defence Params Layer
Game BaseGame OptionGame Criterion GameInstance Answers AttackResult Metric Measured YES_NO_METRICS Headline Contract
Trace Truth
DetailParts Table Figure Series Audit Section
SweepAnalysis Variation Subject Point format_measured
FloatArray IntArray rng_for check_attack check_null FedleakError DataError AttackError
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> fedleak.Result:
    return fedleak.audit(tomllib.loads(TINY), tmp_path_factory.mktemp("api") / "out", jobs=1)


def test_the_public_surface_is_this_list_and_all_of_it_is_there() -> None:
    assert fedleak.__all__ == PUBLIC.split()
    assert all(getattr(fedleak, name) is not None for name in fedleak.__all__)
    assert set(fedleak.__all__) < set(dir(fedleak))
    with pytest.raises(AttributeError, match="has no attribute 'audits'"):
        _ = fedleak.audits


def test_every_public_name_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
    assert [name for name in fedleak.__all__ if f"`{name}`" not in page] == []


def test_importing_fedleak_imports_nothing_heavy() -> None:
    code = "import sys, fedleak; print(sorted({'torch', 'numpy', 'sklearn', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_audit_of_a_dict_gives_scores_and_can_be_loaded_again(done: fedleak.Result) -> None:
    assert {score.control for score in done.scores} == {None, "iid"}
    assert fedleak.load(done.folder).scores == done.scores
    assert (done.folder / "report.html").exists()
    assert done.warnings == done.audit.warnings
    with pytest.raises(FedleakError, match="no result yet"):
        fedleak.load(done.folder / "runs")


def test_a_plan_can_be_a_path_a_name_or_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    by_path = fedleak.audit(path, tmp_path / "one", jobs=1)
    again = fedleak.audit(str(path), tmp_path / "one", jobs=1)
    assert by_path.scores == again.scores
    with pytest.raises(PlanError, match="neither a file nor a shipped plan; did you mean 'demo'"):
        fedleak.audit("demmo")
    with pytest.raises(PlanError, match="unknown key 'datset'; did you mean 'dataset'"):
        fedleak.audit({"datset": {}})


def test_scores_are_a_frame_and_the_result_shows_itself(done: fedleak.Result) -> None:
    frame = done.to_frame()
    assert len(frame) == len(done.scores)
    assert frame["value"].tolist() == [score.value for score in done.scores]
    assert {"attack", "low", "high", "chance", "utility"} <= set(frame.columns)
    shown = done._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown and "sandbox" in shown


@dataclass(frozen=True, kw_only=True)
class Lengths(SingleLayerAttack):
    """Name whoever's labelled updates are nearest in length: an attack that is registered nowhere."""

    name: ClassVar[str] = "my-lengths"
    summary: ClassVar[str] = "Compares lengths."

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        data = features(view, questions, self.layer, context.memory)
        users = np.unique(data.who)
        known, asked = (np.linalg.norm(rows, axis=1) for rows in (data.known, data.asked))
        mean = np.array([known[data.who == user].mean() for user in users])
        scores = -np.abs(asked[:, None] - mean).astype(np.float32)
        return fill_missing_candidates(scores, users, len(questions.options))


def test_an_attack_object_is_evaluated_on_a_recorded_run(done: fedleak.Result) -> None:
    trace = fedleak.open_trace(done.folder / "runs" / "plain" / "seed-0")
    assert trace.view(fedleak.adversaries.ANONYMOUS_SERVER).rounds == 30
    own = fedleak.evaluate(Lengths(), trace)
    assert [score.metric for score in own] == ["ap", "top1", "top5"]
    assert all(0 <= score.low <= score.high <= 1 for score in own)
    assert own[0].adversary == "anonymous-server"
    registered = fedleak.evaluate(NearestNeighbours(k=3), trace, "identify", "server")
    assert registered[0].adversary == "server"
    same = next(s for s in done.scores if s.metric == "ap" and s.control is None)
    assert fedleak.evaluate(NearestNeighbours(k=3), trace, adversary="anonymous-server")[0].value == same.value


def test_what_does_not_fit_is_refused_in_words(done: fedleak.Result, tmp_path: Path) -> None:
    trace = fedleak.open_trace(done.folder / "runs" / "plain" / "seed-0")
    with pytest.raises(AttackError, match="answers the game 'identify', not 'match'"):
        fedleak.evaluate(NearestNeighbours(k=3), trace, "match")
    with pytest.raises(AttackError, match="needs updates, which adversary 'eavesdropper' lacks"):
        fedleak.evaluate(NearestNeighbours(k=3), trace, adversary="eavesdropper")
    with pytest.raises(FedleakError):
        fedleak.open_trace(tmp_path)


def test_a_script_needs_no_guard_on_several_processes(tmp_path: Path) -> None:
    script = tmp_path / "plain_script.py"
    script.write_text(
        "import tomllib, fedleak\n"
        "print('imported')\n"
        f"result = fedleak.audit(tomllib.loads({TINY!r}), {str(tmp_path / 'out')!r}, jobs=2)\n"
        "print(len(result.scores))\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["imported", "6"]

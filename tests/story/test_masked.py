"""Every re-identification attack on masked updates, through the whole pipeline: at its null."""

from __future__ import annotations

import pytest

from fedleak.pipeline import stages
from fedleak.plan.read import parse
from fedleak.results.audit import Score

PLAN = """
title = "masked"
seeds = [0, 1]
[dataset]
name = "digits"
users = 15
examples = 48
class_bias = 0.3
[model]
name = "mlp"
hidden = [8]
[federation]
rounds = 40
fraction = 0.3
lr = 0.1
batch = 6
centralised = false
[audit]
adversaries = ["server"]
controls = []
permutations = 100
level = 0.99
[[attack]]
name = "reid-mlp"
epochs = 20
[[attack]]
name = "reid-svm"
[[attack]]
name = "reid-knn"
[[attack]]
name = "reid-centroid"
[[attack]]
name = "reid-strong"
snapshots = 4
[[defence]]
name = "secure-aggregation"
dropout = 0.1
"""


class Silent:
    def stage(self, text: str, units: float) -> None:
        pass

    def tick(self, units: float) -> None:
        pass


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> list[Score]:
    plan, out = parse(PLAN), tmp_path_factory.mktemp("masked")
    stages.train(plan, out, Silent(), 1)
    stages.attack(plan, out, Silent(), 1)
    return [score for score in stages.score(plan, out, Silent()).scores if score.metric == "ap"]


def test_undefended_updates_name_their_senders(scores: list[Score]) -> None:
    plain = [score for score in scores if score.defence is None]
    assert len(plain) == 5
    assert all(score.leaks for score in plain), [(score.attack, score.p, score.verdict) for score in plain]


def test_masked_updates_name_nobody(scores: list[Score]) -> None:
    masked = [score for score in scores if score.defence is not None]
    assert masked
    for score in masked:
        assert score.leaks is False, (score.attack, score.verdict)

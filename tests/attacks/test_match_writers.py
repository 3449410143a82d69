"""Matching of real handwriting, through the whole pipeline."""

from pathlib import Path

import pytest

from command_line import Run
from fedleak.report import results_file

PLAN = """
dataset = {name = "mnist-writers", per_class = 8}
population = {users = 20}
model = {name = "cnn", channels = [4, 8], hidden = 16}
federation = {rounds = 25, fraction = 0.25, batch = 10, lr = 0.1, centralised = false}
audit = {controls = []}
attack = [
  {name = "match-cosine", layer = "fc"},
  {name = "match-mlp", layer = "fc"},
  {name = "match-siamese", layer = "fc", epochs = 5},
  {name = "match-text", layer = "fc"},
]
game = [
  {name = "match", pairs = 20000},
  {name = "cross-modal", learn_from = "everyone"},
]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("find_real_data")
def test_handwriting_is_matched_with_handwriting_and_with_words_about_it(fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    done = fedleak("audit", "plan.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    scores = {(s.attack, s.game): s for s in results_file.read_results(tmp_path / "out").scores if s.metric == "ap"}
    assert len(scores) == 4
    for score in scores.values():
        assert 0.4 < score.chance < 0.6
        assert score.leaks, score.verdict

"""A whole audit from Python: `python audit_from_python.py OUTPUT_FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from fedleak.pipeline import stages
from fedleak.plan.read import parse

PLAN = """
title = "Twelve people, from Python"
dataset = {name = "digits", users = 12, examples = 60}
model = {name = "mlp", hidden = [32]}
federation = {rounds = 40, fraction = 0.25, lr = 0.1, batch = 10}
attack = [{name = "reid-knn", k = 3}]
"""


class Printed:
    """Progress as lines of text; a pipeline tells it what begins and how much of it is done."""

    def stage(self, text: str, units: float) -> None:
        """A stage begins."""
        print(f"{text} ...", file=sys.stderr)

    def tick(self, units: float) -> None:
        """Some of it is done."""


# The guard is needed: jobs run in other processes, which import this file again.
if __name__ == "__main__":
    result = stages.audit(parse(PLAN), Path(sys.argv[1]), Printed())
    for score in result.scores:
        if score.metric == "ap":
            print(score.control or "people's own data", score.attack, score.verdict, sep=" | ")

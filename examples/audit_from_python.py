"""A whole audit from Python: `python audit_from_python.py OUTPUT_FOLDER`."""

from __future__ import annotations

import sys

import fedleak

PLAN = {
    "title": "Twelve users, from Python",
    "dataset": {"name": "digits", "users": 12, "examples": 60},
    "model": {"name": "mlp", "hidden": [32]},
    "federation": {"rounds": 40, "fraction": 0.25, "lr": 0.1, "batch": 10},
    "attack": [{"name": "reid-knn", "k": 3}],
}

result = fedleak.audit(PLAN, sys.argv[1])
for line in result.warnings:
    print(f"Read this first: {line}")
for score in result.scores:
    if score.metric == "ap":
        print(score.control or "users' own data", score.attack, score.verdict, sep=" | ")

"""A plan that trains in a second, and the command as its user calls it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

TINY = """
title = "tiny"
story = "a story"
[dataset]
name = "digits"
users = 8
examples = 24
class_bias = 0.3
[model]
name = "mlp"
hidden = [8]
[federation]
rounds = 30
fraction = 0.5
lr = 0.1
batch = 6
centralised = false
[[attack]]
name = "reid-knn"
k = 3
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "fedleak.cli.main", *map(str, arguments)]

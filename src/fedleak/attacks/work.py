"""How the work of an attack grows with the rounds of a run, in any unit; an attack declares it as its `work`.

`fedleak check` times an attack on a few rounds and carries the time over by it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["by_rounds", "by_snapshots", "by_used_rounds", "fixed"]


def by_rounds(attack: Any, rounds: int) -> float:
    """In proportion to the rounds: every update, or every snapshot, is read."""
    return rounds


def by_snapshots(attack: Any, rounds: int) -> float:
    """In proportion to the snapshots that it works on, of which its settings say how many."""
    return min(attack.snapshots or rounds, rounds)


def by_used_rounds(attack: Any, rounds: int) -> float:
    """In proportion to the rounds that it works on, of which its settings say how many."""
    return min(attack.rounds or rounds, rounds)


def fixed(attack: Any, rounds: int) -> float:
    """The same for every length of a run."""
    return 1

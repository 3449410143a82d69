"""What the result says of attacks that could have read more than they were given."""

from __future__ import annotations

from fedleak.pipeline.collect import open_attacks
from fedleak.sandbox.process import UNCONFINED


def test_confined_attacks_are_not_warned_of() -> None:
    assert open_attacks({"reid-mlp": "Landlock 7, seccomp"}) == []


def test_attacks_that_were_not_confined_are_named_with_the_reason() -> None:
    [told] = open_attacks(
        {"reid-mlp": "Landlock 7, seccomp", "mine": "none: its class Mine is not in a module", "yours": UNCONFINED}
    )
    assert told.startswith("Not confined: mine, yours could have read the answers (")
    assert "its class Mine is not in a module" in told and "no Landlock and seccomp" in told
    assert "reid-mlp" not in told

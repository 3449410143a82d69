"""The strongest attacks do with what there is: where no round has two updates, they leave updates out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.attacks.membership.strong import MembershipStrong
from fedleak.attacks.membership.updates import LossDrop
from fedleak.attacks.source.strong import SourceStrong
from fedleak.errors import AttackError
from fedleak.games.membership import Membership
from fedleak.games.source import Source
from fedleak.games.traces.members import write_members
from fedleak.testing.contract import play
from fedleak.views.adversaries import SERVER


@pytest.mark.parametrize(
    ("game", "attack"),
    [(Membership(records=8), MembershipStrong(references=1, rounds=2)), (Source(records=4), SourceStrong(rounds=2))],
    ids=["membership", "source"],
)
def test_one_client_a_round_is_answered_without_updates(game: Any, attack: Any, tmp_path: Path) -> None:
    run = write_members(tmp_path, 0, leak=True, users=2)
    assert np.isfinite(play(attack, game, SERVER, run, 0).claims).all()


def test_an_attack_on_updates_alone_says_why_it_cannot(tmp_path: Path) -> None:
    run = write_members(tmp_path, 0, leak=True, users=2)
    with pytest.raises(AttackError, match="no round has two updates"):
        play(LossDrop(rounds=2), Membership(records=8), SERVER, run, 0)

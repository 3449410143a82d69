from __future__ import annotations

import pytest

from fedleak.core import Sight
from fedleak.registry import load, names
from fedleak.views.adversaries import ANONYMOUS_SERVER, EAVESDROPPER, SERVER, everyone, plain
from fedleak.views.matrix import matrix


@pytest.mark.parametrize("name", names("adversary"))
def test_adversaries_are_registered_under_their_own_name(name: str) -> None:
    adversary = load("adversary", name)
    assert adversary.name == name
    assert adversary.summary.endswith(".")


def test_every_sight_has_plain_words_of_its_own() -> None:
    said = [plain(sight) for sight in Sight]
    assert len(set(said)) == len(list(Sight)) == 6
    assert plain(Sight.NONE) == "nothing"


def test_only_the_server_can_link_updates() -> None:
    assert [adversary.name for adversary in everyone() if Sight.LINKS in adversary.sights] == ["server"]


def test_the_matrix_says_what_each_adversary_lacks() -> None:
    rows = matrix(
        {"reid": Sight.UPDATES, "link": Sight.UPDATES | Sight.LINKS, "none": Sight.NONE},
        (SERVER, ANONYMOUS_SERVER, EAVESDROPPER),
    )
    assert [(row.attack, row.players()) for row in rows] == [
        ("reid", ("server", "anonymous-server")),
        ("link", ("server",)),
        ("none", ("server", "anonymous-server", "eavesdropper")),
    ]
    assert rows[1].lacks["anonymous-server"] == Sight.LINKS
    assert rows[1].lacks["eavesdropper"] == Sight.UPDATES | Sight.LINKS

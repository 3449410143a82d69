from __future__ import annotations

from dataclasses import dataclass

import pytest

from fedleak.core import Capability, Observation
from fedleak.registry import load, names
from fedleak.views.adversaries import ANONYMOUS_SERVER, EAVESDROPPER, INSIDER, SERVER, describe, everyone
from fedleak.views.matrix import matrix


@dataclass(frozen=True)
class Attack:
    """What an attack declares."""

    needs: Observation
    capabilities: Capability = Capability.NONE


@pytest.mark.parametrize("name", names("adversary"))
def test_an_adversary_is_described_in_a_sentence(name: str) -> None:
    assert load("adversary", name).summary.endswith(".")


def test_every_sight_and_power_has_plain_words_of_its_own() -> None:
    said = [describe(flag) for flag in (*Observation, *Capability)]
    assert len(set(said)) == 7 + 4
    assert describe(Observation.NONE) == "nothing"


def test_only_a_server_can_link_updates() -> None:
    able = [adversary.name for adversary in everyone() if Observation.LINKS in adversary.observations]
    assert able == ["server", "active-server", "malicious-server"]


def test_the_matrix_says_what_each_adversary_lacks() -> None:
    rows = matrix(
        {
            "reid": Attack(Observation.UPDATES),
            "link": Attack(Observation.UPDATES | Observation.LINKS),
            "none": Attack(Observation.NONE),
            "mark": Attack(Observation.SNAPSHOTS, Capability.INJECT),
        },
        (SERVER, ANONYMOUS_SERVER, EAVESDROPPER, INSIDER),
    )
    assert [(row.attack, row.players()) for row in rows] == [
        ("reid", ("server", "anonymous-server")),
        ("link", ("server",)),
        ("none", ("server", "anonymous-server", "eavesdropper", "insider")),
        ("mark", ("insider",)),
    ]
    assert rows[1].lacks["anonymous-server"] == "links"
    assert rows[1].lacks["eavesdropper"] == "updates, links"
    assert (
        rows[3].needs == "snapshots, the capability to inject" and rows[3].lacks["server"] == "the capability to inject"
    )


def test_who_lacks_both_a_sight_and_a_power_is_told_both() -> None:
    both = Attack(Observation.SNAPSHOTS | Observation.SELECTION, Capability.INJECT | Capability.JOIN)
    assert INSIDER.missing(both) == "selection and the capability to join"
    assert EAVESDROPPER.missing(both) == "the capability to inject, join"

"""Attribute inference and reconstruction on runs that Fedleak did not train."""

from __future__ import annotations

from pathlib import Path

import pytest
from clinic import PLAN, record_run
from clinic_app.audit import COASTAL
from clinic_app.data import CLINICS
from pictures_app.data import CLIENTS, pictures
from pictures_app.task import Net, train

from fedleak.api import Result, audit
from fedleak.plan.read import parse
from fedleak.results.audit import Score

PLACES = """
[audit]
controls = []
[[attack]]
name = "attribute-mlp"
[[game]]
name = "attribute"
attribute = "place"
"""
PICTURES = """
title = "pictures"
[trace]
path = "run"
[truth]
owners = "key"
data = "pictures_app.audit:held"
[prior]
background = "pictures_app.audit:background"
[model]
name = "pictures_app.task:Net"
[federation]
lr = 0.05
batch = 8
[audit]
adversaries = ["server"]
[[attack]]
name = "representatives"
[[game]]
name = "reconstruct"
victims = 8
samples = 4
"""


def first(result: Result, metric: str, control: str | None = None) -> Score:
    [found] = [s for s in result.scores if (s.metric, s.control) == (metric, control)]
    return found


def places(run: Path, out: Path, owners: str = "key") -> Score:
    text = PLAN.replace('"run"', f'"{run}"').replace(":prior", ":with_places").replace('"key"', f'"{owners}"')
    return first(audit(parse(text + PLACES), out, jobs=1), "top1")


def test_an_attribute_that_the_data_shows_is_inferred_from_updates(run: Path, tmp_path: Path) -> None:
    found = places(run, tmp_path / "out")
    assert found.leaks and found.value > 0.75 and found.options == 2


def test_an_attribute_that_is_independent_of_the_data_is_not(run: Path, tmp_path: Path) -> None:
    """Half of each group changes places with the other group, the rest within its own."""
    inland = [str(n) for n in range(CLINICS) if str(n) not in COASTAL]
    owner = {
        **dict(zip(COASTAL[:3], inland[:3], strict=True)),
        **dict(zip(inland[:3], COASTAL[:3], strict=True)),
        **dict(zip(COASTAL[3:], (*COASTAL[4:], COASTAL[3]), strict=True)),
        **dict(zip(inland[3:], (*inland[4:], inland[3]), strict=True)),
    }
    rows = "".join(f"{client},{user}\n" for client, user in owner.items())
    (tmp_path / "owners.csv").write_text(f"client,user\n{rows}")
    found = places(run, tmp_path / "out", str(tmp_path / "owners.csv"))
    assert not found.leaks and found.low < found.chance < found.high
    assert abs(found.value - 0.5) < 0.2


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The audit of a recorded run over images."""
    folder = tmp_path_factory.mktemp("pictures")
    run = record_run(folder / "run", net=Net, train=train, rounds=4, present=8, clinics=CLIENTS, data=pictures)
    return audit(parse(PICTURES.replace('"run"', f'"{run}"')), folder / "out", jobs=1)


def test_images_of_clients_are_reconstructed_and_not_those_of_wrong_owners(drawn: Result) -> None:
    found = first(drawn, "nearest")
    assert found.leaks and found.value > 0.5 and found.options == CLIENTS
    null = first(drawn, "nearest", "rotated-owners")
    assert not null.leaks and null.value < 0.25

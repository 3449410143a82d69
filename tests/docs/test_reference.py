"""Reference pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from fedleak import registry
from fedleak.cli.main import EXIT_CODES, cli
from fedleak.plan.read import read
from fedleak.plan.reference import reference
from fedleak.plan.shipped import find
from fedleak.report.formatting import run_label
from fedleak.views.adversaries import everyone
from fedleak.views.matrix import matrix

DOCS = Path(__file__).parents[2] / "docs"
VERBS = cli.list_commands(click.Context(cli))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_reference_of_plan_keys_is_the_one_that_the_code_generates() -> None:
    assert page("reference/plan.md") == reference(), "run: python -m fedleak.plan.reference > docs/reference/plan.md"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented_with_its_options(verb: str) -> None:
    sections = re.split(r"^#+ ", page("reference/cli.md"), flags=re.MULTILINE)
    section = next((s for s in sections if re.match(rf"`fedleak {verb}(?![\w-])", s)), None)
    assert section is not None, f"docs/reference/cli.md has no section on {verb}"
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in section
        else:
            assert parameter.make_metavar(click.Context(command)).strip("[]") in section or parameter.name == "kind"


def test_no_verb_is_documented_that_does_not_exist() -> None:
    assert re.findall(r"^### `fedleak ([\w-]+)", page("reference/cli.md"), re.MULTILINE) == VERBS


def test_every_exit_code_is_documented() -> None:
    codes = re.findall(r"^ +(\d+) ", EXIT_CODES, re.MULTILINE)
    assert re.findall(r"^\| (\d+) \|", page("reference/cli.md"), re.MULTILINE) == codes


def test_the_matrix_of_the_threat_models_is_the_one_that_follows_from_the_code() -> None:
    text = page("threat-models.md")
    header = re.search(r"^\| attack \| needs \| (.+) \|$", text, re.MULTILINE)
    assert header is not None
    columns = header.group(1).split(" | ")
    assert sorted(columns) == sorted(registry.names("adversary"))
    attacks = {name: registry.load("attack", name) for name in registry.names("attack")}
    for row in matrix(attacks, everyone()):
        marks = " | ".join("-" if row.lacks[adversary] else "yes" for adversary in columns)
        assert f"\n| `{row.attack}` | {row.needs} | {marks} |\n" in text, row.attack


@pytest.mark.parametrize("kind", ["adversary", "defence"])
def test_the_threat_models_name_everyone_and_every_defence(kind: registry.Kind) -> None:
    for name in registry.names(kind):
        assert f"| `{name}` |" in page("threat-models.md")


def test_the_tutorial_shows_the_demo_as_it_is_now() -> None:
    """Figures are not compared, since they may differ between machines; runs and attacks are."""
    plan = read(find("demo"))
    shown = page("tutorial.md")
    for attack in plan.attacks:
        assert re.search(rf"^  {attack.name} ", shown, re.MULTILINE)
    for alternative in plan.resolved["defence"]:
        assert run_label(alternative[0], None) in shown

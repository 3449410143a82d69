"""Reference pages say what the code says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import pytest

from fedleak.cli.main import EXIT_CODES, cli
from fedleak.errors import FedleakError
from fedleak.plan.read import load_plan
from fedleak.plan.shipped import find
from fedleak.reference.pages import generate, results, rewritten
from fedleak.reference.tables import defences
from fedleak.report.formatting import run_label

DOCS = Path(__file__).parents[2] / "docs"
VERBS = cli.list_commands(click.Context(cli))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generated() -> dict[Path, str]:
    return generate(DOCS)


@pytest.mark.parametrize("name", ["reference/plan.md", "reference/cli.md", "architecture.md", "threat-models.md"])
def test_what_is_generated_is_what_the_code_generates(name: str, generated: dict[Path, str]) -> None:
    assert page(name) == generated[DOCS / name], "run: make reference (or python -m fedleak.reference docs)"


def test_the_pages_of_results_show_the_summaries(generated: dict[Path, str]) -> None:
    pages = [path for path in generated if path.parent.name == "results"]
    assert {path.name for path in pages} >= {"README.md", "rows.md", "gradient-leaks.md", "record-level.md"}
    stale = [path.name for path in pages if path.read_text(encoding="utf-8") != generated[path]]
    assert not stale, f"{stale}: run: make reference (or python -m fedleak.reference docs)"


def test_every_row_of_a_generated_table_has_its_words() -> None:
    assert "| ? |" not in page("threat-models.md"), "write what the generated tables leave to hand"


def test_a_table_of_defences_is_generated_anew_and_keeps_what_was_written_by_hand() -> None:
    now = "| defence | acts | against | limits |\n| --- | --- | --- | --- |\n| `noise` | nothing | all | no epsilon |"
    rows = defences(now).splitlines()
    assert rows[0] == "| defence | acts on | against | limits |"
    assert "| `noise` | the update, on the client | all | no epsilon |" in rows
    assert "| `clip` | the update, on the client | ? | ? |" in rows


def test_only_what_stands_between_the_marks_is_rewritten(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("before\n<!-- generated: a -->\nold\n<!-- end -->\nafter\n")
    new = rewritten(tmp_path / "page.md", {"a": lambda now: now.upper() + "new"})
    assert new == "before\n<!-- generated: a -->\nOLD\nnew\n<!-- end -->\nafter\n"


@pytest.mark.parametrize("text", ["", "<!-- generated: matriks -->\n<!-- end -->\n", "<!-- generated: matrix -->\n"])
def test_a_region_that_is_missing_misspelt_or_without_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(FedleakError, match=r"page\.md: .*matri"):
        rewritten(tmp_path / "page.md", {"matrix": str})


def test_a_page_shows_the_summaries_that_it_asks_for(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "results" / "data", tmp_path / "data")
    for name, region in (("README.md", "all rows"), ("rows.md", "every row"), ("page.md", "paper L4-mnist L4-faces")):
        (tmp_path / name).write_text(f"<!-- generated: {region} -->\n<!-- end -->\n")
    shown = results(tmp_path)[tmp_path / "page.md"]
    assert "Table III, AT&T faces: updates: matching accuracy | 0.905 |" in shown
    (tmp_path / "page.md").write_text("<!-- generated: attacks L4-faces L4-face -->\n<!-- end -->\n")
    with pytest.raises(FedleakError, match=r"page\.md: there is no summary 'L4-face'.*L4-faces"):
        results(tmp_path)


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


def test_the_tutorial_shows_the_demo_as_it_is_now() -> None:
    """Figures are not compared, since they may differ between machines; runs and attacks are."""
    plan = load_plan(find("demo"))
    shown = page("tutorial.md")
    for attack in plan.attacks:
        assert re.search(rf"^  {attack.name} ", shown, re.MULTILINE)
    for alternative in plan.resolved["defence"]:
        assert run_label(alternative[0], None) in shown

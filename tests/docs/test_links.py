"""Pages hold together: links lead somewhere, plans on them are valid, and nobody's machine is named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedleak.plan.read import parse
from fedleak.plan.shipped import find

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
FILES = [*PAGES, ROOT / "CITATION.cff", *sorted((ROOT / "examples").glob("*.*"))]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without its code, in which brackets are not links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The names that headings get, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(page)) + re.findall(r'(?:src|href)="([^"]+)"', prose(page))
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{named(page)}: {target}"
        assert found.is_relative_to(ROOT), f"{named(page)}: {target} leads out of the project"
        if anchor:
            assert anchor in anchors(found), f"{named(page)}: no heading for {target}"


GLOSSARY = ROOT / "docs" / "glossary.md"
EXPLAINED = [ROOT / "README.md", *(page for page in PAGES if page.is_relative_to(ROOT / "docs") and page != GLOSSARY)]


@pytest.mark.parametrize("page", EXPLAINED, ids=named)
def test_every_page_links_to_the_glossary(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]*glossary\.md)", prose(page))
    assert any((page.parent / target).resolve() == GLOSSARY for target in targets)


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, text in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.M), 1):
            found.append((f"{named(page)}-{number}", text))
    return found


@pytest.mark.parametrize(("where", "text"), blocks(), ids=[where for where, _ in blocks()])
def test_every_plan_on_a_page_is_valid(where: str, text: str) -> None:
    """A fragment is completed with what it leaves out; so a misspelt key on a page fails here."""
    raw: dict[str, Any] = tomllib.loads(text)
    if "project" in raw:  # a pyproject.toml, not a plan
        return
    missing = {
        "dataset": '[dataset]\nname = "digits"\n',
        "model": '[model]\nname = "mlp"\n',
        "attack": '[[attack]]\nname = "reid-knn"\n',
    }
    if "trace" in raw:  # a recorded run, whose data is that of [prior]
        del missing["dataset"]
    parse("\n".join([text, *(table for key, table in missing.items() if key not in raw)]), where)


def test_the_check_of_plans_finds_a_misspelt_key() -> None:
    with pytest.raises(Exception, match="did you mean 'rounds'"):
        test_every_plan_on_a_page_is_valid("a page", "[federation]\nround = 3\n")


@pytest.mark.parametrize("file", [*FILES, *sorted(find("demo").parent.glob("*.toml"))], ids=lambda p: p.name)
def test_nothing_names_a_developers_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for place in (r"/home/\w", r"/Users/\w", r"/tmp/", r"/work/", r"/root/", r"[A-Z]:\\", r"file://"):
        assert not re.search(rf"(?<![\w.]){place}", text), f"{file.name} names {place}"

"""The sign-off document in a real browser: on a screen, on a phone, and as the PDF that is signed."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from example_audit import example
from headless import Browser, find
from test_signoff import limited

from command_line import Run
from fedleak.report import html_page, results_file
from fedleak.report.signoff import document
from fedleak.report.signoff.signatories import signatories

PROGRAM = find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here; `make browser` installs Debian's")

LONG = "a-name-without-a-single-space-" * 6


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signoff")
    audit = limited(0.3)
    audit = msgspec.structs.replace(
        audit, story=LONG, versions={"data": "a" * 64, "plan": "b" * 64, "fedleak": "c" * 64}
    )
    results_file.write(audit, folder)
    return document.write(audit, folder, signatories(audit, tester=LONG))


@pytest.mark.parametrize("width", [390, 1200])
def test_the_document_fits_its_window_and_asks_for_nothing(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width, height=900)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    wide = browser.value(
        "[...document.querySelectorAll('p, li, dd, td, th')]"
        f".filter(part => part.getBoundingClientRect().right > {width + 1}).map(part => part.textContent)"
    )
    assert wide == []


def test_no_figure_of_the_report_leaves_half_of_a_wide_page_blank(browser: Browser, tmp_path: Path) -> None:
    browser.open(html_page.write(example(), tmp_path / "report.html"), width=1200)
    browser.value("document.querySelectorAll('details').forEach(part => part.open = true)")
    alone = browser.value(
        """[...document.querySelectorAll('.pair')].filter(pair => {
             const last = pair.lastElementChild.getBoundingClientRect(), whole = pair.getBoundingClientRect();
             return last.right < whole.left + 0.6 * whole.width;
           }).length"""
    )
    assert alone == 0


def test_the_pdf_is_printed_by_the_command_with_its_pages_numbered(fedleak: Run, tmp_path: Path) -> None:
    results_file.write(limited(0.3), tmp_path / "out")
    done = fedleak("report", tmp_path / "out", "--signoff", "--pdf")
    assert done.returncode == 3, done.stderr
    content = (tmp_path / "out" / "sign-off.pdf").read_bytes()
    assert content.startswith(b"%PDF") and f"PDF: {tmp_path / 'out' / 'sign-off.pdf'}" in done.stdout
    assert 3 <= _pages(content) <= 14


def test_warnings_do_not_push_the_signatures_off_the_first_page(fedleak: Run, tmp_path: Path) -> None:
    pages = []
    for warnings in ([], ["A warning of a line and a half, as most of them are, " * 3] * 4):
        versions = {name: "a" * 64 for name in ("data", "plan", "settings", "fedleak")}
        audit = msgspec.structs.replace(limited(0.3), warnings=warnings, failures=[], versions=versions)
        results_file.write(audit, tmp_path / "out")
        assert fedleak("report", tmp_path / "out", "--signoff", "--pdf", "--tester", "A. Tester").returncode == 3
        pages.append(_pages((tmp_path / "out" / "sign-off.pdf").read_bytes()))
    assert pages[0] == pages[1], pages


def _pages(content: bytes) -> int:
    parts = [zlib.decompress(part) for part in _streams(content)]
    return len(re.findall(rb"/Type\s*/Page\b", content + b"".join(parts)))


def _streams(content: bytes) -> list[bytes]:
    found = re.findall(rb"stream\r?\n(.*?)endstream", content, flags=re.S)
    return [part for part in found if part[:1] == b"x"]

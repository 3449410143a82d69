"""The page in a real browser: what users will see on a screen, on a phone, in the dark and on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_audit import example
from example_games import with_games
from headless import Browser, find

from fedleak.report import html_page

PROGRAM = find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here; `make browser` installs Debian's")

LONG = "a-name-without-a-single-space-" * 6


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A match, an attribute, a profile and an open world, and an analysis of each kind of figure."""
    return html_page.write(with_games(title="Games"), tmp_path_factory.mktemp("games") / "report.html")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ["<script>document.title = 'taken'</script>", LONG, *(f"writer-{i:03d}" for i in range(38))]
    plan = example().plan + f'\n# {LONG}\n# </pre><img src="http://127.0.0.1:9/x.png" onerror="document.title = 1">\n'
    audit = example(names=names, plan=plan, title="Digits")
    return html_page.write(audit, tmp_path_factory.mktemp("page") / "report.html")


def test_the_page_opens_without_a_complaint_and_without_a_request(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.value("document.title") == "Digits: Fedleak audit"
    text = browser.value("document.body.innerText")
    assert "Out of 40 users, an update's sender is named correctly in 68% of cases" in text
    assert browser.value("document.querySelectorAll('script, img').length") == 0


def test_the_policy_stops_whatever_would_load_or_run(browser: Browser, page: Path, tmp_path: Path) -> None:
    # As if escaping had failed: the policy in the page is the second lock.
    broken = tmp_path / "broken.html"
    broken.write_text(
        page.read_text("utf-8").replace(
            "<header>", "<header><script>document.title = 'taken'</script><img src='http://127.0.0.1:9/x.png'>", 1
        )
    )
    browser.open(broken)
    assert browser.value("document.title") == "Digits: Fedleak audit"
    assert len([c for c in browser.complaints() if "Content Security Policy" in str(c)]) == 2


@pytest.mark.parametrize("which", ["page", "games"])
@pytest.mark.parametrize("width", [320, 360, 768])
def test_the_page_never_scrolls_sideways(
    browser: Browser, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    browser.open(request.getfixturevalue(which), width=width, height=800)
    browser.value("document.querySelectorAll('details').forEach(part => part.open = true)")
    # On a phone the window itself grows with the widest part of a page, so it must still be as wide as asked for.
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    parts = "[...document.querySelectorAll('svg, p, li, dd, pre, .scroll')]"
    assert browser.value(f"{parts}.filter(part => part.getBoundingClientRect().right > {width + 1}).length") == 0


@pytest.mark.parametrize("which", ["page", "games"])
def test_text_in_figures_stays_inside_its_figure(browser: Browser, request: pytest.FixtureRequest, which: str) -> None:
    for width in (360, 1200):
        browser.open(request.getfixturevalue(which), width=width)
        browser.value("document.querySelectorAll('details').forEach(part => part.open = true)")
        outside = browser.value(
            """[...document.querySelectorAll('svg text')].filter(text => {
                 const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
                 return inner.left < outer.left - 1 || inner.right > outer.right + 1
                     || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
               }).map(text => text.textContent)"""
        )
        assert outside == []


def test_every_game_and_every_kind_of_figure_is_drawn(browser: Browser, games: Path) -> None:
    browser.open(games)
    assert browser.requests() == [games.as_uri()]
    assert browser.complaints() == []
    text = browser.value("document.body.innerText")
    assert "the attack tells which is which in" in text
    assert "area under the ROC curve (AUC)" in text
    assert "Analyses" in text
    drawn = browser.value("[...document.querySelectorAll('#analyses svg')].map(part => part.getBBox().height)")
    assert len(drawn) == 5
    assert min(drawn) > 100
    # Marks are seen: they are painted, and with the colour of their series.
    for kind in ("line", "band", "block", "solid", "hollow", "whisker", "heat", "cold", "answer"):
        paint = browser.value(
            f"(part => part && [getComputedStyle(part).fill, getComputedStyle(part).stroke].join())"
            f"(document.querySelector('svg .{kind}'))"
        )
        assert paint, kind
        assert re.search(r"rgb\((?!0, 0, 0\))", paint), (kind, paint)


def test_dark_and_light_both_have_readable_text(browser: Browser, page: Path) -> None:
    for scheme in ("light", "dark"):
        browser.open(page, scheme=scheme)
        pairs = browser.value(
            """['body', '.verdict', 'figcaption', '.tag.leak', '.tag.quiet', 'thead th'].map(selector => {
                 let part = document.querySelector(selector), behind = part;
                 while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
                 return [getComputedStyle(part).color, getComputedStyle(behind).backgroundColor];
               })"""
        )
        for ink, paper in pairs:
            assert contrast(ink, paper) >= 4.5, (scheme, ink, paper)  # WCAG 2.2, AA


def test_paper_shows_the_closed_parts_too(browser: Browser, page: Path) -> None:
    closed = "[...document.querySelectorAll('details:not([open])')]"
    heights = f"{closed}.map(part => part.getBoundingClientRect().height - part.firstElementChild.offsetHeight)"
    browser.open(page)
    on_screen = browser.value(heights)
    assert on_screen
    assert max(on_screen) < 10
    browser.open(page, media="print")
    assert min(browser.value(heights)) > 50
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 10


def contrast(ink: str, paper: str) -> float:
    """Contrast ratio of two CSS colours."""
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

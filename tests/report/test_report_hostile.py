"""Names, plans and results that try to be more than text."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from example_audit import NOISE, example
from example_games import analyses
from parsed_page import Page

from fedleak.report import html_page, svg
from fedleak.results.audit import Analysis, Audit
from fedleak.results.detail import Figure

HOSTILE = "<script>alert(1)</script>"
BREAKOUT = "\"'><img src=x onerror=alert(2)>"


def hostile() -> Audit:
    audit = example(
        names=[HOSTILE, BREAKOUT, "a&amp;b", "\x1b[2J\u202egnp", *(f"user {i}" for i in range(8))],
        title=HOSTILE,
        story=BREAKOUT,
        plan="</pre><img onerror=alert(3) src=x>" + HOSTILE,
        resolved={HOSTILE: BREAKOUT},
        environment={BREAKOUT: HOSTILE},
        population={HOSTILE: [BREAKOUT]},
    )
    defence = {"name": HOSTILE, BREAKOUT: BREAKOUT}

    def swap(item: Any) -> Any:
        attack = BREAKOUT if item.attack == "reid-mlp" else item.attack
        who = {"adversary": HOSTILE} if hasattr(item, "adversary") else {}
        return msgspec.structs.replace(
            item, attack=attack, defence=defence if item.defence == NOISE else item.defence, **who
        )

    return msgspec.structs.replace(
        audit,
        scores=[*map(swap, audit.scores)],
        details=[*map(swap, audit.details)],
        tradeoffs=[
            msgspec.structs.replace(
                weighed, adversary=HOSTILE, advice=BREAKOUT, settings=[*map(swap, weighed.settings)]
            )
            for weighed in audit.tradeoffs
        ],
        effects=[msgspec.structs.replace(effect, defence=defence, text=HOSTILE) for effect in audit.effects],
        promises=[
            msgspec.structs.replace(
                given,
                defence=defence,
                promises=[msgspec.structs.replace(p, how=HOSTILE, against=BREAKOUT) for p in given.promises],
            )
            for given in audit.promises
        ],
        failures=[msgspec.structs.replace(failure, why=BREAKOUT) for failure in audit.failures],
    )


def test_names_and_plans_stay_text_wherever_they_stand() -> None:
    source = html_page.render(hostile())
    page = Page(source)
    assert page.open == []
    assert not {"script", "img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in page.elements}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert HOSTILE in page.text
    assert BREAKOUT in page.text
    assert "</pre><img onerror=alert(3) src=x>" in page.text
    assert "a&amp;b" in page.text  # escaped once, not undone
    assert "\x1b" not in source
    assert "\u202e" not in source


def test_an_attribute_of_a_figure_cannot_be_broken_out_of() -> None:
    # No name stands in an attribute today; the next figure may put one there.
    drawn = svg.el("text", "x", class_=BREAKOUT, aria_label="' onload='alert(4)")
    assert Page(drawn).elements == [("text", {"class": BREAKOUT, "aria-label": "' onload='alert(4)"})]


@pytest.mark.parametrize("audit", [example(), hostile()], ids=["example", "hostile"])
def test_every_figure_is_well_formed_and_described(audit: Audit) -> None:
    source = html_page.render(audit)
    figures = re.findall(r"<svg.*?</svg>", source, flags=re.DOTALL)
    assert len(figures) == 2 + 5 * 4 * 4
    names = []
    for drawing in figures:
        root = ElementTree.fromstring(drawing)
        names += [child.get("id") for child in root[:2]]
        assert [child.tag for child in root[:2]] == ["title", "desc"]
        assert root.get("aria-labelledby") == " ".join(str(child.get("id")) for child in root[:2])
        assert not re.search(r"\b(nan|inf)\b", drawing)
    assert len(names) == len(set(names))


def test_words_in_a_figure_of_an_analysis_stay_text() -> None:
    def swap(drawn: Figure) -> Figure:
        named = [
            msgspec.structs.replace(s, name=BREAKOUT, labels=[HOSTILE] * len(s.x) if s.labels else None)
            for s in drawn.series
        ]
        ticks = {
            name: None if getattr(drawn, name) is None else [BREAKOUT] * len(getattr(drawn, name))
            for name in ("x_ticks", "y_ticks")
        }
        return msgspec.structs.replace(drawn, title=HOSTILE, x_label=BREAKOUT, y_label=HOSTILE, series=named, **ticks)

    taken = [
        Analysis(name=HOSTILE, title=HOSTILE, text=BREAKOUT, columns=[HOSTILE], rows=[[BREAKOUT]], figures=figures)
        for figures in ([swap(f) for f in a.figures] for a in analyses())
    ]
    page = Page(html_page.render(example(analyses=taken)))
    assert page.open == []
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]

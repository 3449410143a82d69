from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import msgspec
from example_audit import example
from example_games import with_games
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_page import Page

from fedleak.core import format_interval
from fedleak.report import analysis_figures, html_page, results_file
from fedleak.results.audit import NotRun
from fedleak.results.detail import Figure, PerRecord, Series


def test_every_game_has_its_own_columns_and_figures() -> None:
    source = html_page.render(with_games())
    tables = re.findall(r"<table class=\"stack\">\s*<caption>The strongest.*?</thead>", source, flags=re.DOTALL)
    heads = [re.findall(r"<th[^>]*>(.*?)</th>", table)[2:-1] for table in tables]
    assert heads == [
        ["average precision", "chance", "times chance", "top-1", "unseen"],
        ["average precision", "chance", "AUC"],
        ["average precision", "chance", "times chance", "best 10"],
        ["accuracy", "chance", "AP"],
        ["found again in the next round", "chance", "times chance", "matched", "AUC"],
        ["top-1", "chance", "extracted", "attributed", "distance"],
    ]
    titles = re.findall(r"<svg[^>]*><title[^>]*>(.*?)</title>", source)
    assert titles.count("Predictions by the true answer") == 3 * 3  # match, profile and link, in three runs
    assert titles.count("Updates found again in a later round") == 1
    assert titles.count("Confusion matrix of groups") == 3
    assert titles.count("Confusion matrix") == 3
    text = Page(source).text
    assert "area under the ROC curve (AUC)" in text
    assert "precision among the 5 likeliest" in text
    assert not re.search(r"\bsafe\b", text, flags=re.IGNORECASE)


def spaced(source: str) -> str:
    """The words of a page with one space between them, also between the cells of a table."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", source))


def test_secrets_are_told_guess_by_guess_and_user_by_user_without_being_told() -> None:
    audit = with_games()
    text = spaced(html_page.render(audit))
    run = [s for s in audit.scores if s.game == "extract" and s.defence is None and s.control is None]
    for k in (1, 5, 10, 20, 50):
        top, distance = (next(s for s in run if s.metric == f"{name}{k}") for name in ("top", "distance"))
        share, near = (format_interval(one.value, one.low, one.high) for one in (top, distance))
        assert re.search(rf" {k} {re.escape(share)} [\d.]+ {re.escape(near)} [\d.]+ ", text)
    detail = next(d for d in audit.details if d.game == "extract" and d.defence is None and d.control is None)
    user = detail.records[0]
    assert (
        f"{user.user} {user.place or 'no'} {user.elsewhere or 'no'} "
        + " ".join(str(distance) for distance in user.distances.values())
        in text
    )
    assert "edit distance within 5" in text


def test_only_so_many_users_are_listed_and_the_others_are_counted() -> None:
    audit = with_games()
    many = [
        PerRecord(user=f"user-{i}", place=None, elsewhere=None, distances={"top1": 3, "top5": 2}) for i in range(41)
    ]
    details = [msgspec.structs.replace(d, records=many) if d.records else d for d in audit.details]
    text = spaced(html_page.render(with_games(details=details)))
    assert "the first 40 of 41; the others are in results.json" in text
    assert "user-39 no no 3 2" in text and "user-40" not in text


def test_an_analysis_gives_its_words_its_figures_and_every_number() -> None:
    audit = with_games()
    text = Page(html_page.render(audit)).text
    for analysis in audit.analyses:
        assert analysis.title in text
        assert analysis.text in text
        assert all(figure.title in text for figure in analysis.figures)
        assert all(column in text for column in analysis.columns)
    assert "1 0.080 0.040 0.13 0.041" in spaced(html_page.render(audit))
    assert "Analyses" not in Page(html_page.render(example())).text


numbers = st.floats(-1e6, 1e6)


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    kind: Literal["lines", "scatter", "bars", "heatmap"] = draw(
        st.sampled_from(["lines", "scatter", "bars", "heatmap"])
    )
    many = draw(st.integers(0, 6))
    row = st.lists(numbers, min_size=many, max_size=many)
    ticks = draw(st.none() | st.just([f"tick {i}" for i in range(max(many, 1))]))
    if kind == "heatmap":
        cells = st.lists(numbers | st.none(), min_size=many, max_size=many)
        return Figure(kind="heatmap", title="t", x_label="x", y_label="y", cells=draw(st.lists(cells, max_size=4)))
    series = [
        Series(
            name=f"s{i}",
            x=[float(j) for j in range(many)] if ticks else draw(row),
            y=draw(row),
            low=(ends := draw(st.none() | row)),
            high=ends,
            reference=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 12)))
    ]
    return Figure(
        kind=kind,
        title="t",
        x_label="x",
        y_label="y",
        series=series,
        x_ticks=ticks,
        diagonal=draw(st.booleans()),
        log_x=draw(st.booleans()),
    )


@settings(max_examples=150, deadline=None)
@given(drawn=figures())
def test_any_figure_is_drawn_well_formed_and_with_finite_places(drawn: Figure) -> None:
    source = analysis_figures.draw_figure("f", drawn)
    ElementTree.fromstring(source)
    assert not re.search(r"\b(nan|inf)\b", source)


def test_the_page_loads_nothing() -> None:
    source = html_page.render(example())
    page = Page(source)
    for tag, attributes in page.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data", "style"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
    assert not re.search(r"url\(|@import|https?:", source)
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    targets = {attributes["id"] for _, attributes in page.elements if attributes.get("id")}
    links = {str(a["href"])[1:] for t, a in page.elements if t == "a"}
    assert links
    assert links <= targets


def test_every_verdict_and_every_part_of_the_story_is_on_the_page() -> None:
    audit = example()
    text = Page(html_page.render(audit)).text
    for score in audit.scores:
        if score.metric == "ap":
            assert score.verdict in text
    wanted = [
        audit.story,
        audit.source,
        "The control shows no departure from chance",
        "It cannot exclude smaller artefacts.",
        "Over the plan's limit",
        *audit.attacks.values(),
        *audit.defences.values(),
        *(finding.text for finding in audit.findings),
        *(word for threat in audit.threats for word in [threat.summary, *threat.sees, *threat.cannot_see]),
        *(word for item in audit.untested for word in [item.what, item.why]),
        *audit.environment.values(),
        re.sub(r"\s+", " ", audit.plan),
    ]
    assert [words for words in wanted if words not in text] == []
    assert not re.search(r"\bsafe\b", text, flags=re.IGNORECASE)


def test_tables_have_captions_and_headers() -> None:
    source = html_page.render(example())
    tables = re.findall(r"<table.*?</table>", source, flags=re.DOTALL)
    assert tables
    assert all("<caption>" in table and 'scope="col"' in table for table in tables)


def test_the_same_audit_gives_the_same_bytes_also_from_disk(tmp_path: Path) -> None:
    audit = example()
    path = html_page.write(audit, tmp_path / "out" / "report.html")
    results_file.write(audit, tmp_path)
    assert path.read_text("utf-8") == html_page.render(results_file.read_results(tmp_path)) == html_page.render(audit)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_many_users_do_not_make_a_large_page() -> None:
    few, many = (len(html_page.render(example(users=users))) for users in (240, 4000))
    assert many < few * 1.1


def test_two_adversaries_each_get_their_own_verdict() -> None:
    audit = example()
    other = [
        msgspec.structs.replace(s, adversary="eavesdropper", value=0.05, low=0.0, verdict="") for s in audit.scores
    ]
    text = Page(html_page.render(msgspec.structs.replace(audit, scores=[*audit.scores, *other]))).text
    assert "eavesdropper, identify" in text
    assert "no leak shown by this attack (n=400)" in text
    assert text.count("Strongest attack without a defence") == 2


def test_what_qualifies_a_verdict_is_on_the_page_too() -> None:
    audit = example(not_run=[NotRun(adversary="anonymous-server", game="identify", attack="reid-strong")])
    seeds: dict[str, Any] = {"seeds": [1, 2], "by_seed": [0.5, 0.6], "all_low": 0.4, "all_high": 0.9}
    scores = [msgspec.structs.replace(score, **seeds) for score in audit.scores]
    source = html_page.render(msgspec.structs.replace(audit, scores=scores))
    text = Page(source).text
    assert "reid-strong, the strongest attack on this question, was not run" in text
    assert "Picked as the strongest of 5 attacks; its interval holds for all 5 at once. By seed: 0.50, 0.60" in text
    assert text.count("0.50, 0.60 (spread 0.10)") > 20  # every attack on every run, in the table and in its details
    open_ = [msgspec.structs.replace(score, leaks=None, p=1.0, exceeded=False) for score in scores]
    source = html_page.render(msgspec.structs.replace(audit, scores=open_))
    assert 'class="tag open">no verdict: too few users' in source
    assert 'class="dot open"' in source and 'class="verdict open"' in source
    assert not re.search(r'class="[^"]*\b(leak|quiet)"', source.split('id="attacks"')[0])


shares = st.floats(0, 1)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_shares_make_a_page(data: st.DataObject) -> None:
    audit = example(users=4)
    keep = data.draw(st.lists(st.sampled_from(audit.scores), max_size=8, unique_by=id))
    scores = [
        msgspec.structs.replace(
            score,
            **{name: data.draw(shares) for name in ("value", "low", "high", "chance", "chance_high")},
            utility=data.draw(st.sampled_from([None, score.utility])),
            multiple=data.draw(st.none() | shares),
        )
        for score in keep
    ]
    details = data.draw(st.sampled_from([[], audit.details[:3]]))
    blank = [
        msgspec.structs.replace(d, users=[], recall=[], precision=[], null=[], confusion_users=[], confusion=[])
        for d in details
    ]
    page = Page(
        html_page.render(
            msgspec.structs.replace(audit, scores=scores, details=data.draw(st.sampled_from([details, blank])))
        )
    )
    assert page.open == []
    assert "How to read the numbers" in page.text

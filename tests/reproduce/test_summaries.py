"""Every summary of docs/results/data is whole, and says where its figures come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fedleak.errors import FedleakError
from fedleak.plan import shipped
from fedleak.plan.plan import Plan
from fedleak.plan.read import load_plan
from fedleak.reproduce.compare import attack_table, paper_table
from fedleak.reproduce.lookup import measured
from fedleak.reproduce.render import all_rows
from fedleak.reproduce.rows import ROWS, chosen, deciding, verdict
from fedleak.reproduce.summary import (
    Figure,
    From,
    Summary,
    folder,
    is_stale,
    plan_name,
    plan_sha256,
    read,
    read_all,
    settings_sha256,
)
from fedleak.results.audit import Analysis, Audit
from fedleak.results.detail import Detail, Quality, Series
from fedleak.results.detail import Figure as Drawn
from fedleak.score.labels import label

SUMMARIES = read_all(folder())


def written(path: Path, **changes: Any) -> Path:
    """A summary as somebody might write it by hand, with these keys changed; None removes one."""
    whole: dict[str, Any] = {
        "row": "L3",
        "title": "a vote",
        "plan": "plans/demo.toml",
        "plan_sha256": plan_sha256("demo"),
        "fedleak": "0.1.0",
        "commit": "89b7319",
        "seeds": [0, 1],
        "minutes": 12.3,
        "machine": "2 cores, x86_64",
        "data": "digits",
        "figures": [{"name": "AP", "value": 0.9, "low": 0.8, "high": 1.0, "chance": 0.1, "paper": 0.925, "note": ""}],
        "verdict": "reproduced",
        "why": "because",
    }
    path.write_text(json.dumps({key: value for key, value in {**whole, **changes}.items() if value is not None}))
    return path


def test_every_row_of_the_papers_has_been_measured_and_judged() -> None:
    names = [*(f"G{n}" for n in range(1, 11)), *(f"R{n}" for n in range(1, 6))]
    names += [*(f"U{n}" for n in range(1, 6)), *(f"L{n}" for n in range(1, 7))]
    assert list(ROWS) == names and len(names) == 26
    for name in names:
        assert deciding(chosen(name, SUMMARIES)), f"{name}: no summary decides it"
        assert verdict(chosen(name, SUMMARIES)) is not None, f"{name}: not judged"


@pytest.mark.parametrize("stem", SUMMARIES)
def test_a_figure_that_can_be_measured_again_is_of_an_attack_and_a_metric_of_its_plan(stem: str) -> None:
    summary = SUMMARIES[stem]
    path = shipped.folder() / f"{plan_name(summary)}.toml"
    assert path.is_file(), f"{stem}: there is no such plan"
    plan = load_plan(path, full=summary.full)
    for figure in summary.figures:
        if figure.source is not None:
            trouble = impossible(figure.source, plan, summary)
            assert not trouble, f"{stem}, figure '{figure.name}': {trouble}"


def impossible(where: From, plan: Plan, summary: Summary) -> str:
    """Why the plan cannot give this figure; empty if it can."""
    if where.analysis:
        known = [analysis.name for analysis in plan.analyses]
        return "" if summary.how == "analyse" or where.analysis in known else f"no analysis {where.analysis} in {known}"
    if where.utility:
        return ""
    attacks = {label(attack, plan.attacks): attack.game for attack in plan.attacks}
    if where.attack not in attacks:
        return f"no attack '{where.attack}' in {sorted(attacks)}"
    games = {label(game, plan.games): game for game in plan.games if game.name == attacks[where.attack]}
    if where.game and where.game not in games:
        return f"no game '{where.game}' in {sorted(games)}"
    metrics = {metric.name for game in games.values() for metric in game.metrics}
    if where.quality:
        return "" if attacks[where.attack] == "reconstruct" else "only reconstructed images have a quality"
    if where.metric not in metrics:
        return f"no metric '{where.metric}' in {sorted(metrics)}"
    parts = [part for together in plan.resolved["defence"] for part in together]
    wanted = (where.defence or {}).items()
    if wanted and not any(all(part.get(key) == value for key, value in wanted) for part in parts):
        return f"no defence {where.defence} in {parts}"
    return "" if where.control in (None, *plan.audit.controls) else f"no control '{where.control}'"


def test_a_summary_in_the_documented_shape_is_read(tmp_path: Path) -> None:
    found = read(written(tmp_path / "L3-mnist.json"))
    assert (found.row, found.figures[0].paper, found.verdict, found.decides) == ("L3", 0.925, "reproduced", True)
    assert not is_stale(found)


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"verdict": "quite good"}, "verdict"),
        ({"plam": "x"}, "plam"),
        ({"figures": []}, "figures"),
        ({"figures": [{"name": "AP", "value": "0.9"}]}, "value"),
        ({"figures": [{"name": "AP", "value": 0.9, "low": 0.95, "high": 1.0}]}, "outside its interval"),
        ({"figures": [{"name": "AP", "value": 0.9, "low": 0.8}]}, "one end"),
        ({"figures": [{"name": "AP", "value": 0.9}] * 2}, "twice"),
        ({"row": "G2"}, "must begin with the row"),
        ({"why": None}, "a reason"),
        ({"fedleak": None}, "version"),
        ({"plan": "demo"}, "plan"),
    ],
)
def test_a_summary_that_is_damaged_is_refused_with_its_name_and_what_to_do(
    changes: dict[str, Any], trouble: str, tmp_path: Path
) -> None:
    with pytest.raises(FedleakError, match=rf"L3-mnist\.json.*{trouble}.*mend it"):
        read(written(tmp_path / "L3-mnist.json", **changes))


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "L3-mnist.json")
    path.write_text(path.read_text()[:100])
    with pytest.raises(FedleakError, match=r"L3-mnist\.json: damaged"):
        read(path)


def test_a_summary_is_stale_once_its_plan_changes(tmp_path: Path) -> None:
    assert is_stale(read(written(tmp_path / "L3-a.json", plan_sha256="0" * 64)))
    assert is_stale(read(written(tmp_path / "L3-b.json", plan="plans/no-such-plan.toml")))


def test_words_of_a_plan_do_not_make_its_figures_stale() -> None:
    plan = (shipped.folder() / "demo.toml").read_text(encoding="utf-8")
    told = "# Why this plan is as it is.\n" + plan.replace("title = ", 'title = "x"  # was: ', 1)
    assert settings_sha256(told) == settings_sha256(plan) == plan_sha256("demo")
    assert settings_sha256(plan.replace("seeds = [", "seeds = [99, ", 1)) != settings_sha256(plan)


def test_the_weakest_verdict_of_todays_rules_counts(tmp_path: Path) -> None:
    new = {"L3-new": read(written(tmp_path / "L3-new.json"))}
    weak = {"L3-weak": read(written(tmp_path / "L3-weak.json", verdict="direction only"))}
    old = {"L3-old": read(written(tmp_path / "L3-old.json", verdict="not reproduced", older="earlier rules"))}
    beside = {"L3-side": read(written(tmp_path / "L3-side.json", verdict="not reproduced", decides=False))}
    unjudged = {"L3-open": read(written(tmp_path / "L3-open.json", verdict=None))}
    assert verdict({**new, **weak, **old, **beside}) == "direction only"
    assert verdict({**new, **old}) == "reproduced"
    assert verdict(old) == "not reproduced"
    assert verdict({**new, **unjudged}) is None


def test_a_figure_is_a_cell_of_an_analysis_with_the_interval_beside_it() -> None:
    table = Analysis(
        name="layers",
        title="",
        text="",
        columns=["layer", "parameters", "AP", "low", "high", "chance"],
        rows=[["fc", 10, 0.5, 0.4, 0.6, 0.1], ["out", 5, 0.3, 0.2, 0.4, 0.1]],
    )
    audit = Audit(
        title="", story="", created="", source="", population={}, federation={}, findings=[], threats=[], attacks={},
        defences={}, scores=[], details=[], analyses=[table], untested=[], plan="", resolved={}, environment={},
    )  # fmt: skip

    def found(column: str, **row: str) -> Figure:
        return measured(Figure(name="x", source=From(analysis="layers", row=dict(row), column=column)), audit)

    out = found("AP", layer="out")
    assert (out.value, out.low, out.high, out.chance) == (0.3, 0.2, 0.4, 0.1)
    wide = found("parameters", layer="fc")
    assert (wide.value, wide.low, wide.chance) == (10.0, None, None)
    with pytest.raises(FedleakError, match=r"figure 'x': 0 rows of analysis 'layers' fit"):
        found("AP", layer="lstm")
    with pytest.raises(FedleakError, match=r"no column 'APP'; did you mean 'AP'"):
        found("APP", layer="out")


def test_a_figure_is_a_quality_of_an_attacks_images_or_of_the_real_ones() -> None:
    detail = Detail(
        attack="mgan-prior", adversary="server", game="reconstruct", defence=None, control=None, null=[],
        quality=[Quality(name="inception", value=2.5, low=2.0, high=2.9, real=3.1)],
    )  # fmt: skip
    audit = Audit(
        title="", story="", created="", source="", population={}, federation={}, findings=[], threats=[], attacks={},
        defences={}, scores=[], details=[detail], untested=[], plan="", resolved={}, environment={},
    )  # fmt: skip

    def found(**where: Any) -> Figure:
        return measured(Figure(name="x", source=From(attack="mgan-prior", **where)), audit)

    drawn, real = found(quality="inception"), found(quality="inception", real=True)
    assert (drawn.value, drawn.low, drawn.high) == (2.5, 2.0, 2.9)
    assert (real.value, real.low, real.chance) == (3.1, None, None)
    with pytest.raises(FedleakError, match=r"figure 'x': 0 qualities of images fit 'readable of mgan-prior"):
        found(quality="readable")


def test_a_figure_is_the_end_of_a_line_in_a_figure_of_an_analysis() -> None:
    line = Series(name="secrets", x=[0.0, 9.0], y=[1.0, 7.0], low=[0.0, 6.0], high=[2.0, 8.0])
    table = Analysis(
        name="exposure", title="", text="", columns=[], rows=[],
        figures=[Drawn(kind="lines", title="bits", x_label="", y_label="", series=[line])],
    )  # fmt: skip
    audit = Audit(
        title="", story="", created="", source="", population={}, federation={}, findings=[], threats=[], attacks={},
        defences={}, scores=[], details=[], analyses=[table], untested=[], plan="", resolved={}, environment={},
    )  # fmt: skip
    there = From(analysis="exposure", figure="bits", series="secrets")
    found = measured(Figure(name="x", source=there), audit)
    assert (found.value, found.low, found.high, found.chance) == (7.0, 6.0, 8.0, None)
    with pytest.raises(FedleakError, match=r"no line 'decoys' in a figure 'bits'; there are: 'secrets' in 'bits'"):
        measured(Figure(name="x", source=msgspec.structs.replace(there, series="decoys")), audit)


def test_attacks_of_several_summaries_stand_in_one_table() -> None:
    def measured_of(attack: str, metric: str, value: float, chance: float, **more: Any) -> Figure:
        where = From(attack=attack, metric=metric, **more)
        return Figure(name=f"{attack} {metric} {more}", value=value, chance=chance, source=where)

    def summary(*figures: Figure) -> Summary:
        return Summary(row="L3", title="t", plan="plans/demo.toml", data="d", figures=list(figures))

    real = Figure(name="real", value=3.0, source=From(attack="gan", quality="inception, own classes", real=True))
    first = summary(real, measured_of("gan", "gap1", 0.5, 0.1), measured_of("gan", "matched", 0.7, 0.5))
    second = summary(
        measured_of("mean (k=3)", "gap1", 0.6, 0.1),
        measured_of("mean (k=3)", "gap1", 0.2, 0.2, control="fresh-data"),
        Figure(name="from nowhere", value=0.99),
    )
    assert attack_table([first, second]).splitlines() == [
        "| attack | inception | gap 1 (chance 0.10) | matched (chance 0.50) |",
        "| --- | --- | --- | --- |",
        "| `gan` |  | 0.50 | 0.70 |",
        "| `mean` (k=3) |  | 0.60 |  |",
        "| `mean` (k=3), fresh-data |  | 0.20, chance 0.20 |  |",
        "| the victims' own images | 3.00 |  |  |",
    ]


def test_what_the_paper_has_stands_beside_what_was_measured_here() -> None:
    figures = [Figure(name="AP", value=0.5, low=0.4, high=0.6, paper=0.55), Figure(name="BPC", value=3.0)]
    one = Summary(row="G2", title="blogs", plan="plans/demo.toml", data="d", figures=figures)
    other = Summary(row="G2", title="photos", plan="plans/demo.toml", data="d", figures=[Figure(name="AP", paper=0.91)])
    assert paper_table([one]).splitlines()[2:] == ["| AP | 0.55 | 0.50 [0.40, 0.60] |"]
    assert paper_table([one, other]).splitlines()[2:] == [
        "| blogs: AP | 0.55 | 0.50 [0.40, 0.60] |",
        "| photos: AP | 0.91 | not measured |",
    ]


def test_the_table_of_all_rows_names_what_is_still_to_be_measured() -> None:
    bare = Summary(row="G2", title="t", plan="plans/demo.toml", data="d", figures=[Figure(name="AP")])
    done = replace(bare, fedleak="0.1.0", plan_sha256=plan_sha256("demo"), figures=[Figure(name="AP", value=0.5)])
    changed, old = replace(done, plan_sha256="0" * 64), replace(done, older="before salted draws")
    told = all_rows({"G2-a": bare, "G2-b": done, "G2-c": changed, "G2-d": old})
    assert "Not measured yet (1 of 4 experiments): `G2-a`." in told
    assert "Measured with earlier rules only (1 of 4 experiments): `G2-d`." in told
    assert "The plan's settings changed since (1 of 4 experiments): `G2-c`." in told
    assert "experiments" not in all_rows({"G2-b": done})

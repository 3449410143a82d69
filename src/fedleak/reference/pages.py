"""Which pages are generated, as a whole or between two comments.

Such a region of a page looks like this:

    <!-- generated: matrix -->
    ...
    <!-- end -->

What stands outside the comments is written by hand and left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from fedleak.errors import FedleakError, did_you_mean
from fedleak.reference import tables
from fedleak.reference.command_line import option_tables
from fedleak.reference.plan_keys import plan_keys
from fedleak.reference.rooms import rooms
from fedleak.reproduce.compare import attack_table, paper_table
from fedleak.reproduce.render import all_rows, figures_of, row_pages
from fedleak.reproduce.summary import Summary, read_all

__all__ = ["generate", "results", "rewritten"]

Region = Callable[[str], str]  # from what stands there now, because some cells of a table are written by hand

_TABLES: Mapping[str, Callable[[Mapping[str, Summary]], str]] = {
    "figures": lambda chosen: "\n\n".join(figures_of(stem, summary) for stem, summary in chosen.items()),
    "attacks": lambda chosen: attack_table(list(chosen.values())),
    "paper": lambda chosen: paper_table(list(chosen.values())),
}
_REGION = re.compile(r"(<!-- generated: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def generate(docs: Path) -> dict[Path, str]:
    """Every page with something generated on it, as it should be."""
    threats: dict[str, Region] = {
        "adversaries": tables.adversaries,
        "matrix": partial(_always, tables.attack_matrix()),
        "attacks": partial(_always, tables.attacks()),
        "defences": tables.defences,
    }
    options = option_tables()
    return {
        docs / "reference" / "plan.md": plan_keys(),
        docs / "architecture.md": rewritten(docs / "architecture.md", {"rooms": rooms}),
        docs / "threat-models.md": rewritten(docs / "threat-models.md", threats),
        docs / "reference" / "cli.md": rewritten(
            docs / "reference" / "cli.md", {name: partial(_always, text) for name, text in options.items()}
        ),
        **results(docs / "results"),
    }


def results(folder: Path) -> dict[Path, str]:
    """The pages of results: the table of all rows, every row, and any summary where a page asks for its figures."""
    summaries = read_all(folder / "data")
    own: dict[Path, dict[str, Region]] = {
        folder / "README.md": {"all rows": partial(_always, all_rows(summaries))},
        folder / "rows.md": {"every row": partial(_always, row_pages(summaries))},
    }
    found = {}
    for page in sorted(folder.glob("*.md")):
        regions = {**own.get(page, {}), **_figures(page, summaries)}
        if regions:
            found[page] = rewritten(page, regions)
    return found


def _figures(page: Path, summaries: Mapping[str, Summary]) -> dict[str, Region]:
    """The regions of a page that show summaries: `figures NAME`, or `attacks` and `paper` with one NAME or several."""
    found: dict[str, Region] = {}
    for _, region, _, _ in _REGION.findall(page.read_text(encoding="utf-8")):
        kind, *stems = region.split()
        if kind not in _TABLES or not stems:
            continue
        for stem in stems:
            if stem not in summaries:
                raise FedleakError(f"{page}: there is no summary '{stem}'{did_you_mean(stem, summaries)}")
        found[region] = partial(_always, _TABLES[kind]({stem: summaries[stem] for stem in stems}))
    return found


def rewritten(page: Path, regions: Mapping[str, Region]) -> str:
    """A page with each of its regions generated anew; all of them must be there, and no others."""
    text = page.read_text(encoding="utf-8")
    found = [name for _, name, _, _ in _REGION.findall(text)]
    for name in found:
        if name not in regions:
            raise FedleakError(f"{page}: nothing generates '{name}'{did_you_mean(name, regions)}")
    for name in regions:
        if found.count(name) != 1:
            raise FedleakError(
                f"{page}: expected '<!-- generated: {name} -->' and '<!-- end -->' once, found {found.count(name)}"
            )
    return _REGION.sub(lambda match: f"{match[1]}{regions[match[2]](match[3]).strip()}\n{match[4]}", text)


def _always(text: str, now: str) -> str:
    return text

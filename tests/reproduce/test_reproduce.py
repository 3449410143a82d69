"""`fedleak reproduce`: what it says beforehand, what it writes, and what it does not go on claiming."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from fedleak.pipeline.output import ensure_owned
from fedleak.plan import shipped
from fedleak.plan.read import load_plan
from fedleak.reproduce.measure import carried, measure, moved
from fedleak.reproduce.render import all_rows, figures_of
from fedleak.reproduce.rows import ROWS
from fedleak.reproduce.summary import Figure, Summary, folder, plan_sha256, read, read_all

PLAN = "user-level/link-seconds"
STORED = {stem: read(folder() / f"{stem}.json") for stem in ("G2-seconds", "L4-seconds")}


class Watched:
    """Notes the stages, and interrupts the first whose text begins so."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.stages: list[str] = []
        self.stop_at = stop_at

    def stage(self, text: str, units: float) -> None:
        self.stages.append(text)
        if self.stop_at is not None and text.startswith(self.stop_at):
            raise KeyboardInterrupt

    def tick(self, units: float) -> None:
        pass


def assert_same_digits(now: Summary, stored: Summary) -> None:
    assert [figure.name for figure in now.figures] == [figure.name for figure in stored.figures]
    if str(now.machine).removesuffix(", busy") == str(stored.machine).removesuffix(", busy"):
        for new, old in zip(now.figures, stored.figures, strict=True):
            again = f"{old.name}; measure again: fedleak reproduce"
            assert (new.value, new.chance) == pytest.approx((old.value, old.chance), abs=1e-9), again
    else:
        # Other processors add in another order, and training carries that on. The rule is the one by which a verdict
        # is kept: a threshold that falls between two other pairs has moved an accuracy by 0.075.
        assert moved(stored, now) == {}


def test_re_identification_in_seconds_gives_the_stored_digits(tmp_path: Path) -> None:
    stored = {"G2-seconds": STORED["G2-seconds"]}
    found = measure(stored, "gradient-leaks/seconds", False, tmp_path / "out", Watched(), jobs=1)
    assert_same_digits(found["G2-seconds"], STORED["G2-seconds"])


def test_linking_in_seconds_gives_the_stored_digits_although_it_was_interrupted(tmp_path: Path) -> None:
    stored, out = {"L4-seconds": STORED["L4-seconds"]}, tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        measure(stored, PLAN, False, out, Watched("Running"), jobs=1)
    second = Watched()
    found = measure(stored, PLAN, False, out, second, jobs=1)
    assert second.stages[0] == "Training 0 federations"
    assert_same_digits(found["L4-seconds"], STORED["L4-seconds"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two summaries, as an auditor may have one."""
    chosen = tmp_path / "data"
    chosen.mkdir()
    for stem in ("L4-seconds", "R3-minute"):
        shutil.copy(folder() / f"{stem}.json", chosen)
    return chosen


def test_a_row_is_run_and_written_into_the_folder_of_summaries(fedleak: Run, data: Path, tmp_path: Path) -> None:
    # As it is before it was measured for the first time: figures and where they come from, without values.
    path = data / "L4-seconds.json"
    spec: dict[str, Any] = json.loads(path.read_text())
    for key in ("plan_sha256", "fedleak", "commit", "seeds", "minutes", "machine"):
        spec.pop(key, None)
    spec["figures"] = [{key: figure[key] for key in ("name", "from")} for figure in spec["figures"]]
    path.write_text(json.dumps(spec))
    done = fedleak("reproduce", "l4", "--out", "out", "--data", data, "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "user-level/link-seconds: not known how long" in done.stdout
    assert (tmp_path / "out" / "user-level-link-seconds" / "results.json").exists()
    now = read(path)
    assert_same_digits(now, STORED["L4-seconds"])
    assert (now.plan_sha256, now.seeds, now.fedleak) == (plan_sha256(PLAN), [0], STORED["L4-seconds"].fedleak)
    assert now.minutes is not None and now.verdict is None
    scores = json.loads((tmp_path / "out" / "user-level-link-seconds" / "results.json").read_text())["scores"]
    matched = next(s for s in scores if s["metric"] == "matched" and s["control"] is None)
    assert (now.figures[0].value, now.figures[0].low) == (matched["value"], matched["low"])
    # The same audit, named: nothing is left to do in it, and the summary is the same but for the time.
    again = fedleak("reproduce", "L4-seconds", "--audit", "out/user-level-link-seconds", "--data", data)
    assert again.returncode == 0 and "Training 0 federations" in again.stderr
    assert read(path).figures == now.figures


def test_what_it_will_cost_is_said_and_nothing_is_run(fedleak: Run, data: Path, tmp_path: Path) -> None:
    plan = load_plan(shipped.folder() / f"{PLAN}.toml")
    ensure_owned(plan, tmp_path / "out" / "user-level-link-seconds")
    done = fedleak("reproduce", PLAN, "--dry-run", "--out", "out", "--data", data)
    assert done.returncode == 0, done.stderr
    minutes = f"{PLAN}: {STORED['L4-seconds'].minutes} minutes on {STORED['L4-seconds'].machine}, begun: resumes"
    assert minutes in done.stdout
    assert not (tmp_path / "out" / "user-level-link-seconds" / "runs").exists()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("L44", "did you mean 'L4'"),
        ("user-level/link-second", "did you mean 'user-level/link-seconds'"),
        ("?", "--list"),
    ],
)
def test_an_unknown_row_is_refused_with_the_nearest_name(name: str, hint: str, fedleak: Run, data: Path) -> None:
    done = fedleak("reproduce", name, "--data", data)
    assert done.returncode == 1 and hint in done.stderr and "Traceback" not in done.stderr


def test_the_folder_of_one_audit_is_refused_for_several_plans(fedleak: Run, data: Path, tmp_path: Path) -> None:
    shutil.copy(folder() / "G2-seconds.json", data / "L4-other.json")
    (data / "L4-other.json").write_text((data / "L4-other.json").read_text().replace('"G2"', '"L4"'))
    done = fedleak("reproduce", "L4", "--audit", tmp_path, "--data", data)
    assert done.returncode == 2 and "L4 has 2" in done.stderr


def test_a_row_without_a_summary_is_named(fedleak: Run, data: Path) -> None:
    done = fedleak("reproduce", "U3", "--data", data)
    assert done.returncode == 1 and "no summary says which plan" in done.stderr


def test_a_missing_data_set_is_named_before_anything_runs(
    fedleak: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = fedleak("reproduce", "record-level", "--out", "out", "--data", data)
    assert done.returncode == 1
    assert "nothing was run" in done.stderr and "ptb.train.txt" in done.stderr and "Download from" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_damaged_summary_is_named(fedleak: Run, data: Path) -> None:
    (data / "L4-seconds.json").write_text('{"row": "L4"')
    done = fedleak("reproduce", "--list", "--data", data)
    assert done.returncode == 1 and "L4-seconds.json: damaged" in done.stderr and "Traceback" not in done.stderr


def test_the_list_has_every_row_and_says_what_is_stale(fedleak: Run, data: Path) -> None:
    path = data / "L4-seconds.json"
    path.write_text(path.read_text().replace(str(plan_sha256(PLAN)), "0" * 64))
    lines = fedleak("reproduce", "--list", "--data", data).stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(ROWS)
    stale = {line.split()[0]: "plan changed since" in line for line in lines if line.startswith(" ")}
    assert stale["L4-seconds"]


def judged(*figures: Figure) -> Summary:
    return Summary(
        row="G2", title="t", plan="plans/demo.toml", data="d", figures=list(figures), fedleak="0", verdict="reproduced",
        why="w",
    )  # fmt: skip


def test_a_verdict_is_dropped_once_a_figure_leaves_the_interval_it_had() -> None:
    before = judged(Figure(name="AP", value=0.5, low=0.4, high=0.6), Figure(name="BPC", value=2.0))
    near = judged(Figure(name="AP", value=0.58, low=0.5, high=0.7), Figure(name="BPC", value=2.01))
    far = judged(Figure(name="AP", value=0.7, low=0.6, high=0.8), Figure(name="BPC", value=2.5))
    assert moved(before, near) == {} and carried(before, near).verdict == "reproduced"
    assert moved(before, far) == {"AP": (0.5, 0.7), "BPC": (2.0, 2.5)}
    now = carried(before, far)
    assert now.verdict is None and "'reproduced'" in now.why and "AP 0.5 -> 0.7" in now.why


def test_another_figure_in_a_summary_is_another_table_on_the_page(data: Path) -> None:
    summaries = read_all(folder())
    stem, before = "L6-mnist", read_all(folder())["L6-mnist"]
    first = Figure(name=before.figures[0].name, value=0.99, low=0.98, high=1.0)
    changed = {**summaries, stem: judged(first)}
    assert "0.99 [0.98, 1.00]" in figures_of(stem, changed[stem])
    assert all_rows(changed) != all_rows(summaries)

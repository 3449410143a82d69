"""`fedleak init`: look at data, guess what can be guessed, and write a plan that works."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from fedleak.cli import init
from fedleak.cli.main import cli
from fedleak.errors import DataError, FedleakError, PlanError
from fedleak.plan.read import load_plan
from fedleak.population.prepare import prepare
from recorded_run import record_run, write_app

PEOPLE = "user,a,label\n" + "".join(f"u{i % 3},{i * 7 % 12}.5,{'xy'[i * 5 % 7 % 2]}\n" for i in range(36))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, answers: str | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> Result:
    if monkeypatch is not None:  # a terminal, in which someone answers
        monkeypatch.setattr(init, "interactive", lambda: True)
    result = CliRunner().invoke(cli, ["init", *arguments], input=answers)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def written(name: str) -> dict[str, Any]:
    """The plan's tables, after making sure that its data can be read and divided."""
    plan = load_plan(Path(name))
    prepare(plan.dataset, plan.population, plan.seeds[0])
    return tomllib.loads(Path(name).read_text())


def wearables(name: str = "wearables.csv", user: str = "wearer_id", comma: bool = False) -> None:
    rng = np.random.default_rng(0)
    lines = [f"row;{user};sex;recorded_on;session;heart_rate;cadence;firmware;activity"]
    for n in range(288):
        who, session = n // 24, n // 4
        rate = "?" if n == 7 else f"{rng.normal(80, 9):.2f}"
        day = f"202401{1 + session % 6 * 4:02}"
        rest = f"{rate};{rng.normal(2, 1):.3f};1.0.3;{('walk', 'run', 'rest')[rng.integers(3)]}"
        lines.append(f"{n};W{who:02};{'mf'[who % 2]};{day};{session};{rest}")
    text = "\r\n".join(lines)
    Path(name).write_text(text.replace(".", ",").replace("1,0,3", "1.0.3") if comma else text, encoding="utf-8-sig")


def test_the_columns_of_a_table_are_found_with_reasons() -> None:
    wearables()
    said = run("wearables.csv", "--yes").output
    dataset = written("wearables.toml")["dataset"]
    assert dataset == {
        "name": "table",
        "path": "wearables.csv",
        "task": "classify",
        "user": "wearer_id",
        "features": ["heart_rate", "cadence"],
        "label": "activity",
        "time": "recorded_on",
        "document": "session",
        "attributes": ["sex"],
        "missing": "drop",
    }
    assert written("wearables.toml")["population"] == {"prior": "chrono"}
    assert "12 different values in 288 of 288 rows; named like a user" in said
    assert "column 'row' is not used: numbers the rows" in said and "'firmware' is not used" in said
    text = Path("wearables.toml").read_text()
    assert "1 of 288 rows have missing values; they are left out" in text and text.isascii()


def test_the_written_plan_passes_the_check() -> None:
    wearables()
    run("wearables.csv", "--yes")
    text = Path("wearables.toml").read_text().replace("rounds = 100", "rounds = 5").replace("[0, 1, 2]", "[0]")
    Path("wearables.toml").write_text(text)
    checked = CliRunner().invoke(cli, ["check", "wearables.toml"])
    assert checked.exit_code == 0, checked.output
    assert "Data: 12 users" in checked.output and "Estimate: about" in checked.output


def test_only_what_cannot_be_known_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    wearables()
    said = run("wearables.csv", answers="random\n", monkeypatch=monkeypatch).output
    assert said.count("> ") == 1 and "What does the adversary have of each user already?" in said
    assert written("wearables.toml")["population"]["prior"] == "random"


def test_a_user_column_with_an_unusual_name_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wearables(user="gadget")
    answers = "gadgit\ngadget\n\n"  # a misspelling, the right name, then the default prior
    said = run("wearables.csv", answers=answers, monkeypatch=monkeypatch).output
    assert "Which column says whose row it is?" in said and "did you mean 'gadget'?" in said
    assert written("wearables.toml")["dataset"]["user"] == "gadget"


def test_decimal_commas_are_noticed() -> None:
    wearables(comma=True)
    run("wearables.csv", "--yes")
    dataset = written("wearables.toml")["dataset"]
    assert dataset["decimal"] == "comma" and dataset["features"] == ["heart_rate", "cadence"]


def messages(name: str = "messages.jsonl", **more: Any) -> None:
    rng = np.random.default_rng(0)
    words = ("hello", "there", "see", "you", "at", "the", "station", "tomorrow", "morning", "coffee", "please")
    rows = [
        {
            "sender": f"p{n % 6}",
            "sent_at": 1_700_000_000 + 90_000 * n,
            "body": " ".join(rng.choice(words, 9)),
            **{key: value[n % len(value)] for key, value in more.items()},
        }
        for n in range(120)
    ]
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_text_without_a_label_is_predicted_word_by_word() -> None:
    messages()
    said = run("messages.jsonl", "--yes").output
    plan = written("messages.toml")
    assert plan["dataset"]["task"] == "next-token" and plan["dataset"]["text"] == "body"
    assert plan["dataset"]["user"] == "sender" and plan["dataset"]["time"] == "sent_at"
    assert plan["model"] == {"name": "word-lm"} and "6 users are few" in said


def test_text_with_a_number_is_regressed() -> None:
    messages(stars=[1, 2, 3, 4, 5, 2, 3])
    run("messages.jsonl", "--yes")
    plan = written("messages.toml")
    assert plan["dataset"]["task"] == "regress" and plan["dataset"]["label"] == "stars"
    assert plan["model"] == {"name": "rating"}


def test_flags_decide_over_guesses() -> None:
    messages(stars=[1, 2, 3, 4, 5, 2, 3])
    run("messages.jsonl", "--label", "none", "--time", "none", "--prior", "random", "--out", "mine.toml")
    plan = written("mine.toml")
    assert plan["dataset"]["task"] == "next-token"
    assert "time" not in plan["dataset"] and plan["population"]["prior"] == "random"


@pytest.mark.parametrize(
    ("first", "prior", "said"),
    [
        (1980, "chrono", "time:      year (holds dates (12 different values"),
        (70, "random", "column 'year' is named like a time but holds no dates"),
    ],
)
def test_years_are_times_where_their_century_is_known(first: int, prior: str, said: str) -> None:
    wage = np.random.default_rng(0).normal(20, 4, 240)
    rows = "".join(f"w{i // 12},{first + i % 12},{i % 7},{wage[i]:.3f},{'xy'[i % 3 % 2]}\n" for i in range(240))
    Path("panel.csv").write_text("person,year,hours,wage,status\n" + rows)
    output = run("panel.csv", "--yes").output
    assert said in output
    plan = written("panel.toml")
    assert plan["population"]["prior"] == prior and ("time" in plan["dataset"]) == (prior == "chrono")
    assert "there are no times to go by" not in Path("panel.toml").read_text()


def test_times_of_one_day_give_a_random_prior() -> None:
    rows = "".join(f"u{i % 6},2024-05-31,{i}.5,{i % 7},{'xyz'[i // 6 % 3]}\n" for i in range(120))
    Path("readings.csv").write_text("user,date,a,b,label\n" + rows)
    said = run("readings.csv", "--yes").output
    plan = written("readings.toml")
    assert plan["population"]["prior"] == "random" and "time" not in plan["dataset"]
    assert "the times are not used, and prior is random: " in said
    assert "the older half" not in Path("readings.toml").read_text()


def pictures(colour: bool) -> None:
    rng = np.random.default_rng(0)
    for user in range(4):
        for i in range(8):
            folder = Path(f"pictures/resident-{user}/{'ab'[i % 2]}")
            folder.mkdir(parents=True, exist_ok=True)
            shape = (20, 24, 3) if colour else (20, 24)
            Image.fromarray(rng.integers(0, 256, shape).astype(np.uint8)).save(folder / f"{i}.png")


@pytest.mark.parametrize("colour", [True, False])
def test_images_are_measured(colour: bool) -> None:
    pictures(colour)
    Path("pictures/resident-0/photo.heic").write_bytes(b"x")
    said = run("pictures", "--yes").output
    plan = written("pictures.toml")
    assert plan["dataset"] == {"name": "image-folder", "path": "pictures", "size": 16, "colour": colour}
    assert plan["model"] == {"name": "cnn"} and "1 .heic" in said


def test_a_recorded_run_needs_its_code_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record_run(tmp_path / "run")
    write_app(tmp_path, monkeypatch)
    run("run", "--model", "tiny_app:Net", "--data", "tiny_app:prior")
    plan = tomllib.loads(Path("run.toml").read_text())
    assert plan["trace"] == {"path": "run"} and plan["truth"] == {"owners": "key"}
    assert plan["model"] == {"name": "tiny_app:Net"} and plan["prior"] == {"data": "tiny_app:prior"}
    checked = CliRunner().invoke(cli, ["check", "run.toml"])
    assert "reads a recorded run" in checked.output
    # The recorded model has a BatchNorm, and the one that is named has none: the check builds it and compares.
    assert "does not fit the recorded run" in str(checked.exception)


def test_without_a_terminal_the_flags_are_named() -> None:
    with pytest.raises(PlanError, match=r"name the data: fedleak init DATA --yes; .*--user, --label"):
        run()
    wearables(user="gadget")
    with pytest.raises(PlanError, match=r"whose row it is\? Name it with --user, or take the guess '\w+' with --yes"):
        run("wearables.csv")


def test_a_plan_is_never_overwritten_unasked() -> None:
    wearables()
    Path("wearables.toml").write_text("mine")
    with pytest.raises(PlanError, match="exists; choose another --out, or replace it with --force"):
        run("wearables.csv", "--yes")
    assert Path("wearables.toml").read_text() == "mine"
    run("wearables.csv", "--yes", "--force")
    assert Path("wearables.toml").read_text() != "mine"


@pytest.mark.parametrize(
    ("name", "content", "flags", "error"),
    [
        ("no.csv", None, [], "no such file or folder"),
        ("a.txt", "x", [], "unknown kind of table"),
        ("a.csv", "", [], "empty; expected a first line"),
        ("a.csv", "user,a,y\n", [], "no rows"),
        ("a.csv", "a,b\n1,2\n3,4\n", [], r"whose row it is\? Name it with --user"),
        ("a.csv", "user,a,y\n" + "u,1,x\nv,2,y\n" * 9, ["--user", "usr"], "did you mean 'user'"),
        (
            "a.csv",
            PEOPLE,
            ["--model", "a:b"],
            "--model does not apply to data of this kind",
        ),
        ("a.csv", PEOPLE, ["--prior", "chrono"], "--prior chrono needs times"),
        ("a.csv", "user,y\n" + "u,x\nv,y\nu,y\n" * 9, [], "no column of numbers is left"),
    ],
)
def test_what_cannot_become_a_plan_is_told_in_one_line(
    name: str, content: str | None, flags: list[str], error: str
) -> None:
    if content is not None:
        Path(name).write_text(content)
    with pytest.raises(FedleakError, match=error) as caught:
        run(name, "--yes", *flags)
    assert "\n" not in str(caught.value) and not list(Path().glob("*.toml"))


def test_a_folder_that_holds_neither_is_refused_and_the_table_in_it_named() -> None:
    Path("data").mkdir()
    Path("data/rows.csv").write_text("user,a\n")
    with pytest.raises(DataError, match=r"neither a recorded run .* did you mean the file data/rows\.csv"):
        run("data", "--yes")


def test_a_flag_for_tables_is_refused_for_images() -> None:
    for user in "ab":
        Path(f"photos/{user}/one").mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(f"photos/{user}/one/1.png")
    with pytest.raises(PlanError, match="--user does not apply to data of this kind"):
        run("photos", "--yes", "--user", "who")


def test_of_many_users_some_are_drawn_and_the_title_does_not_count_all() -> None:
    rows = "".join(f"p{i // 8},{i * 37 % 101}.{i % 97:02},{'xy'[i * 5 % 7 % 2]}\n" for i in range(160 * 8))
    Path("crowd.csv").write_text("person,a,label\n" + rows)
    run("crowd.csv", "--yes")
    plan = written("crowd.toml")
    assert plan["population"]["users"] == 100
    assert plan["title"] == "crowd.csv: what do updates give away about its users?"


def test_names_of_columns_cannot_break_out_of_a_comment() -> None:
    rows = "".join(f"u{i % 5},{i % 7},{i}.5,{'xy'[i % 2]}\n" for i in range(60))
    Path("odd.csv").write_text('user,"a\nname = ""evil""",b,label\n' + rows)
    run("odd.csv", "--yes")
    plan = written("odd.toml")
    assert plan["dataset"]["name"] == "table" and 'a\nname = "evil"' in plan["dataset"]["features"]

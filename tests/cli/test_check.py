"""`fedleak check`: the plan, its data and its model, before anything is trained for long."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from command_line import TINY
from fedleak.cli.main import cli
from fedleak.errors import DataError, FedleakError

TABLE = """
[dataset]
name = "table"
path = "rows.csv"
features = ["a", "b"]
label = "y"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def check(text: str, *options: str) -> str:
    Path("plan.toml").write_text(text)
    result = CliRunner().invoke(cli, ["check", "plan.toml", *options])
    if result.exception is not None:
        raise result.exception
    assert sorted(path.name for path in Path().iterdir() if path.suffix in ("", ".json")) == []
    return result.output


def with_table(text: str, content: str) -> str:
    Path("rows.csv").write_text(content)
    return text[: text.index("[dataset]")] + TABLE + text[text.index("[model]") :]


def test_data_model_and_estimate_are_told() -> None:
    said = check(TINY)
    assert "plan.toml: valid; trains 2 federations of 30 rounds, runs 2 attacks" in said
    assert "Data: 8 users; " in said and " test examples" in said
    assert "Model: 610 parameters in 2 layers" in said
    assert "Estimate: about" in said and "of memory" in said and "of disk" in said
    assert "reid-knn" in said and "2 runs" in said


def test_a_missing_file_is_found() -> None:
    text = with_table(TINY, "")
    Path("rows.csv").unlink()
    with pytest.raises(DataError, match=r"rows\.csv: no such file"):
        check(text)
    assert "valid" in check(text, "--quick")


def test_a_missing_column_is_found() -> None:
    with pytest.raises(DataError, match="no column 'b'; known: a, user, y"):
        check(with_table(TINY, "user,a,y\nann,1,x\n"))


def test_all_missing_values_are_counted() -> None:
    rows = "user,a,b,y\n" + "ann,?,1,x\nbob,2,?,y\nann,?,3,y\n"
    with pytest.raises(DataError, match=r"3 missing values in 3 of 3 rows \('a' 2, 'b' 1"):
        check(with_table(TINY, rows))


def test_a_model_that_does_not_fit_its_data_is_found() -> None:
    code = "from torch import nn\ndef build(signature):\n    return nn.Linear(7, signature.outputs)\n"
    Path("narrow_net.py").write_text(code)
    with pytest.raises(FedleakError):
        check(TINY.replace('name = "mlp"\nhidden = [8]', 'name = "narrow_net:build"'))


def test_quick_runs_no_code_of_the_plan() -> None:
    Path("loud.py").write_text("raise SystemExit('imported')\n")
    assert "valid" in check(TINY.replace('name = "mlp"\nhidden = [8]', 'name = "loud:build"'), "--quick")


def test_what_an_analysis_takes_is_not_claimed() -> None:
    said = check(TINY + '[[analysis]]\nname = "t-sne"\n')
    assert "Estimate: at least" in said and "not in the estimate: analysis t-sne" in said

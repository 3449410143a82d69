import re
import tomllib

import pytest
from click.testing import CliRunner

from fedleak import registry
from fedleak.cli.list import summaries
from fedleak.cli.main import _VERBS, cli
from fedleak.plan import shipped


def said(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_everything_that_is_registered() -> None:
    output = said("list")
    kinds: tuple[registry.Kind, ...] = ("attack", "defence", "dataset", "model", "adversary")
    for name in [name for kind in kinds for name in registry.names(kind)] + shipped.names():
        assert f"  {name} " in output


@pytest.mark.parametrize("kind", ["attack", "defence", "game", "analysis", "adversary", "dataset", "model"])
def test_every_entry_of_a_kind_has_the_same_grammatical_form(kind: registry.Kind) -> None:
    """A third-person verb, a question or a noun phrase; each begins with a capital, a number or a product name."""
    forms = {
        "attack": r"[A-Z][a-z]+s [^?]+\.",
        "defence": r"[A-Z][a-z]+s [^?]+\.",
        "game": r"[A-Z][^.]+\?",
        "analysis": r"[A-Z][^.]+\?",
        "adversary": r"(The|A|An) [^?]+\.",
        "dataset": r"([A-Z]|scikit-learn)[^?]+\.",
        "model": r"(A|An|Your|MobileNet) ?[^?]+\.",
    }
    for name, text in summaries(kind):
        assert re.fullmatch(forms[kind], text), f"{name}: {text}"


def test_the_matrix_follows_from_what_attacks_and_adversaries_declare() -> None:
    rows = {line.split()[0]: line for line in said("list", "--matrix").splitlines()}
    for name in registry.names("attack"):
        attack = registry.load("attack", name)
        everyone = [registry.load("adversary", other) for other in registry.names("adversary")]
        able = [who for who in everyone if attack.needs in who.observations and attack.capabilities in who.capabilities]
        assert rows[name].count("yes") == len(able)
    assert "the capability to inject" in rows["watermark"] and rows["watermark"].count("yes") == 1


def test_a_shipped_plan_is_listed_under_its_title() -> None:
    for name in shipped.names():
        assert shipped.title(name) == tomllib.loads(shipped.find(name).read_text(encoding="utf-8"))["title"]


@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    output = said(verb, "--help")
    assert f"fedleak {verb}" in output.split("Example")[1]


def test_check_says_what_a_plan_would_do_and_shows_its_defaults() -> None:
    assert "valid; trains 18 federations of 100 rounds, runs 36 attacks" in said("check", "demo", "--quick")
    assert '"prior_share": 0.5' in said("check", "demo", "--resolved")


@pytest.mark.usefixtures("find_real_data")
def test_data_says_what_is_here() -> None:
    state = {line.split()[0]: line.split()[1] for line in said("data").splitlines() if not line.startswith(" ")}
    assert set(state) == set(registry.names("dataset"))
    assert all(state[name] == "ready" for name in ("mnist-writers", "writers-canvas", "blog", "amazon"))


def test_data_says_what_is_missing_and_how_to_get_it(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    output = said("data")
    assert "digits          ready" in output
    assert "mnist-writers   missing" in output
    assert "qmnist-train-labels-idx2-int.gz" in output
    assert "Download from" in output

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.defences.noise import Noise
from fedleak.errors import PlanError
from fedleak.plan import shipped
from fedleak.plan.plan import FederationPlan
from fedleak.plan.read import load_plan, parse

GOOD = """
title = "t"
seeds = [0, 1]
[dataset]
name = "digits"
[model]
name = "mlp"
[federation]
rounds = 3
[[attack]]
name = "reid-knn"
[[defence]]
name = "noise"
sigma = 0.5
[limits.identify]
ap = 0.5
"""


def broken(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_plan_keeps_what_was_said_and_fills_in_the_rest() -> None:
    plan = parse(GOOD, "good.toml")
    assert plan.federation == FederationPlan(rounds=3)
    assert plan.resolved["federation"]["fraction"] == 0.1
    assert plan.resolved["attack"] == [{"name": "reid-knn", "layer": "last", "k": 10}]
    assert plan.defences[0] == (Noise(sigma=0.5),)
    assert plan.limits == {"identify": {"ap": 0.5}}
    assert plan.seeds == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 3", "round = 3", "bad.toml [federation]: unknown key 'round'; did you mean 'rounds'?"),
        ("rounds = 3", "rounds = -3", "bad.toml [federation] rounds = -3: expected int >= 1"),
        ("rounds = 3", 'rounds = "3"', "bad.toml [federation] rounds = '3': expected int, got str"),
        ("rounds = 3", "rounds = 3.5", "bad.toml [federation] rounds = 3.5: expected int, got float"),
        ("rounds = 3", "rounds = true", "bad.toml [federation] rounds = true: expected int, got bool"),
        ("rounds = 3", "lr = inf", "bad.toml [federation] lr = inf: expected a finite number"),
        ("rounds = 3", "lr = nan", "bad.toml [federation] lr = nan: expected a finite number"),
        ("rounds = 3", "fraction = 1.5", "bad.toml [federation] fraction = 1.5: expected float <= 1.0"),
        (
            "rounds = 3",
            'optimizer = "sdg"',
            "bad.toml [federation] optimizer = 'sdg': no such choice; did you mean 'sgd'?",
        ),
        ("[federation]", "[federaton]", "bad.toml: unknown key 'federaton'; did you mean 'federation'?"),
        ("seeds = [0, 1]", "record = 3", "bad.toml: record = 3: expected table, got int"),
        (
            "rounds = 3",
            '[audit]\ncontrols = ["idd"]',
            "bad.toml [audit] controls = ['idd']: no such choice; did you mean",
        ),
        (
            "rounds = 3",
            "[audit]\ntarget = 3",
            "bad.toml [audit] target = 3: the target is no longer a multiple of chance but an advantage between 0",
        ),
        ("rounds = 3", "[audit]\ntarget = 0.0", "bad.toml [audit] target = 0.0: expected float > 0.0"),
        ("reid-knn", "reid-kn", "bad.toml [[attack]] 1: unknown attack 'reid-kn'; did you mean 'reid-knn'?"),
        ('"noise"', '"nose"', "bad.toml [[defence]] 1: unknown defence 'nose'; did you mean 'noise'?"),
        ('"digits"', '"digit"', "bad.toml [dataset]: unknown dataset 'digit'; did you mean 'digits'?"),
        ('"mlp"', '"mlpp"', "bad.toml [model]: unknown model 'mlpp'; did you mean 'mlp'?"),
        ('name = "mlp"', "", "bad.toml [model]: missing key 'name'; known: "),
        ("sigma = 0.5", "sigm = 0.5", "bad.toml [[defence]] 1: unknown key 'sigm'; did you mean 'sigma'?"),
        ("sigma = 0.5", "", "bad.toml [[defence]] 1: missing key 'sigma'"),
        ("sigma = 0.5", "sigma = 0", "bad.toml [[defence]] 1 sigma = 0: expected float > 0.0"),
        ("sigma = 0.5", "sigma = 1\nalso = 3", "bad.toml [[defence]] 1 also: expected a list"),
        ("sigma = 0.5", 'sigma = 1\nalso = [{name = "x"}]', "bad.toml [[defence]] 1 also 1: unknown defence 'x'"),
        ("sigma = 0.5", "sigma = 1\ndeployed = 1", "bad.toml [[defence]] 1 deployed = 1: expected bool"),
        ("ap = 0.5", "map = 0.5", "bad.toml [limits] identify: unknown metric 'map'; did you mean 'ap'?"),
        ("ap = 0.5", "ap = 50", "bad.toml [limits] identify.ap = 50: expected float <= 1.0"),
        ("seeds = [0, 1]", "seeds = []", "bad.toml: seeds = []: expected array of length >= 1"),
        ("seeds = [0, 1]", "seeds = [-1]", "bad.toml: seeds = [-1]: expected int >= 0"),
        ("seeds = [0, 1]", "seeds = [1, 1]", "bad.toml: seeds: entry 2 repeats entry 1"),
        ('title = "t"', "title = ", "bad.toml: not valid TOML"),
        ('[[attack]]\nname = "reid-knn"', "", "bad.toml: no [[attack]] given"),
        ('[dataset]\nname = "digits"', "", "bad.toml: missing table [dataset]"),
        (
            "[limits.identify]",
            '[audit]\nadversaries = ["anonymous-serve"]\n[limits.identify]',
            "bad.toml [audit] adversaries: unknown adversary 'anonymous-serve'; did you mean 'anonymous-server'?",
        ),
        (
            "[limits.identify]",
            '[audit]\nadversaries = ["eavesdropper"]\n[limits.identify]',
            "bad.toml [audit]: attack 'reid-knn' needs updates; adversary 'eavesdropper' lacks updates. "
            "Choose one that has it: server, anonymous-server, active-server, malicious-server (fedleak list "
            "--matrix)",
        ),
    ],
)
def test_a_bad_plan_is_explained_in_one_line_with_file_table_key_and_remedy(old: str, new: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(broken(old, new), "bad.toml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_same_attack_twice_is_refused_unless_its_settings_differ() -> None:
    twice = broken("[limits.identify]", '[[attack]]\nname = "reid-knn"\n[limits.identify]')
    with pytest.raises(PlanError, match=r"\[\[attack\]\]: entry 2 repeats entry 1"):
        parse(twice, "bad.toml")
    assert len(parse(twice.replace("[limits.identify]", "k = 3\n[limits.identify]")).attacks) == 2


def test_only_one_defence_can_be_deployed() -> None:
    two = broken("sigma = 0.5", 'sigma = 0.5\ndeployed = true\n[[defence]]\nname = "rand-aug"\ndeployed = true')
    with pytest.raises(PlanError, match="only one can be deployed"):
        parse(two)
    assert parse(two.replace("deployed = true\n", "", 1)).deployed == 1
    assert parse(GOOD).deployed is None


def test_defences_combine() -> None:
    plan = parse(broken("sigma = 0.5", 'sigma = 0.5\nalso = [{name = "rand-aug", alpha = 2}]'))
    assert [defence.name for defence in plan.defences[0]] == ["noise", "rand-aug"]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"title = 'a' b"])
def test_a_file_that_is_not_a_plan_is_explained(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_bytes(content)
    with pytest.raises(PlanError, match=r"plan.toml: (cannot be read|not valid TOML)"):
        load_plan(path)


def test_a_plan_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such plan"):
        load_plan(tmp_path / "none.toml")
    with pytest.raises(PlanError, match=r"neither a file nor a shipped plan; did you mean 'demo'\?"):
        shipped.find("dem")


@pytest.mark.parametrize("name", shipped.names())
def test_every_shipped_plan_is_valid(name: str) -> None:
    plan = load_plan(shipped.find(name))
    assert plan.title
    assert plan.story


# All that TOML can say.
values = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates() | st.times() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["name", "rounds", "users", "prior", "adversaries", "also", "deployed", "hidden", "ap", "zz"])
TABLES = [
    *("dataset", "population", "model", "federation", "inject", "record", "audit", "limits", "full", "x"),
    *("attack", "game", "analysis", "defence", "seeds", "title"),
]


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=40, deadline=None)
@given(keys, values)
def test_no_plan_makes_the_reader_crash(table: str, key: str, value: object) -> None:
    # Once as a key of what GOOD says, or of nothing; once in a list of tables; once instead of a table.
    for change in ({key: value}, [{key: value}], value):
        try:
            parse(GOOD, "any.toml", {table: change})
        except PlanError as error:
            assert str(error).startswith("any.toml")

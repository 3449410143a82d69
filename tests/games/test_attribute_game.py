"""Which group is asked about, from whom it is learnt, and what cannot be asked."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import TINY, Run
from fedleak.core import UserId
from fedleak.errors import AttackError
from fedleak.games.attribute import Attribute, AttributeQuestions, banded
from fedleak.games.game import GameInstance
from fedleak.games.traces.users import USERS
from fedleak.report import results_file
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(
    run: Path, game: Attribute, about: Mapping[UserId, Mapping[str, str]] | None = None, seed: int = 0
) -> GameInstance:
    truth = Truth.load(run / "truth")
    if about is not None:
        truth = replace(truth, attributes=about)
    return game.ask(Trace.open(run / "trace"), truth, Prior.load(run / "prior"), np.random.default_rng(seed))


def labels(asked: GameInstance) -> list[str]:
    assert isinstance(asked.questions, AttributeQuestions)
    return [asked.questions.options[i] for i in asked.questions.labels]


def test_known_users_are_asked_about_with_their_own_prior_data_and_values(run: Path) -> None:
    asked = ask(run, Attribute(attribute="group"))
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    assert asked.questions.options == ("even", "odd")
    assert set(asked.questions.updates) == set(np.flatnonzero(np.asarray(trace.shadow) < 0))
    for row, right in zip(asked.questions.updates, asked.answers.right, strict=True):
        user = truth.client_user[trace.header.clients[trace.client[row]]]
        assert truth.attributes[user]["group"] == asked.questions.options[right]
    assert labels(asked) == [truth.attributes[user]["group"] for user in asked.prior.candidates]
    assert np.array_equal(asked.shadow, trace.shadow)


@pytest.mark.parametrize("seed", range(5))
def test_new_users_are_nowhere_in_what_the_adversary_is_given(run: Path, seed: int) -> None:
    asked = ask(run, Attribute(attribute="group", users="new", train_share=0.25), seed=seed)
    about = {asked.answers.users[i] for i in asked.answers.who}
    assert not about & set(asked.prior.candidates)
    everyone, original = Prior.load(run / "prior").candidates, np.asarray(Trace.open(run / "trace").shadow)
    kept = asked.shadow >= 0
    assert not about & {everyone[i] for i in original[kept]}
    assert [asked.prior.candidates[i] for i in asked.shadow[kept]] == [everyone[i] for i in original[kept]]
    assert sorted(labels(asked)) == ["even"] * 2 + ["odd"] * 2, "a quarter of each group of six, rounded"


def test_users_without_the_attribute_are_left_out_on_both_sides(run: Path) -> None:
    truth = Truth.load(run / "truth")
    without = set(truth.users[:3])
    about = {user: {} if user in without else given for user, given in truth.attributes.items()}
    asked = ask(run, Attribute(attribute="group"), about)
    assert set(asked.prior.candidates) == set(truth.users) - without
    assert not {asked.answers.users[i] for i in asked.answers.who} & without


def test_numbers_are_cut_into_bands(run: Path) -> None:
    users = Truth.load(run / "truth").users
    about = {user: {"age": str(18 + i)} for i, user in enumerate(users)}
    asked = ask(run, Attribute(attribute="age", bands=(20, 25)), about)
    assert asked.questions.options == ("<20", "20-<25", ">=25")
    assert labels(asked) == ["<20"] * 2 + ["20-<25"] * 5 + [">=25"] * (USERS - 7)
    options, value = banded(["3", None, "40"], [5, 10, 20], "age")
    assert (options, value.tolist()) == (("<5", ">=20"), [0, -1, 1]), "bands that nobody is in are no options"


@pytest.mark.parametrize(
    ("game", "values", "message"),
    [
        (Attribute(attribute="grup"), ["a", "b"], r"no user has the attribute 'grup'; did you mean 'group'\?"),
        (Attribute(attribute="group"), ["a"], r"every user's 'group' is 'a', so there is nothing to infer"),
        (Attribute(attribute="group", bands=(50,)), ["1", "2"], r"is '<50', .* or other bands"),
        (Attribute(attribute="group", bands=(50,)), ["1", "old"], r"a user's 'group' is 'old'; leave bands out"),
        (Attribute(attribute="group", bands=(50, 20)), ["1", "2"], r"bands = \[50, 20\]: expected increasing numbers"),
    ],
)
def test_what_cannot_be_asked_is_refused(run: Path, game: Attribute, values: list[str], message: str) -> None:
    users = Truth.load(run / "truth").users
    with pytest.raises(AttackError, match=message):
        ask(run, game, {user: {"group": values[i % len(values)]} for i, user in enumerate(users)})


def test_a_data_set_that_says_nothing_about_users_is_named_as_the_reason(run: Path) -> None:
    with pytest.raises(AttackError, match="this data set has no attributes"):
        ask(run, Attribute(attribute="group"), {})


def test_a_value_of_one_user_cannot_be_learnt_from_others(run: Path) -> None:
    users = Truth.load(run / "truth").users
    about = {user: {"group": "rare" if i == 0 else ("a", "b")[i % 2]} for i, user in enumerate(users)}
    with pytest.raises(AttackError, match=r"only one user's 'group' is 'rare'"):
        ask(run, Attribute(attribute="group", users="new"), about)
    assert "rare" in ask(run, Attribute(attribute="group"), about).questions.options


def test_an_audit_plays_both_settings_apart_and_the_control_too(fedleak: Run, tmp_path: Path) -> None:
    games = '[[game]]\nname = "attribute"\nattribute = "slant"\n'
    (tmp_path / "plan.toml").write_text(
        TINY.replace("users = 8", "users = 16")
        + '[[attack]]\nname = "attribute-mlp"\nepochs = 5\n[[attack]]\nname = "reid-joint"\nepochs = 5\n'
        + games
        + games
        + 'users = "new"\n'
    )
    done = fedleak("audit", "plan.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    found = results_file.read_results(tmp_path / "out")
    names = {score.game for score in found.scores if score.attack == "attribute-mlp"}
    assert names == {"attribute (users=known)", "attribute (users=new)"}
    asked = [score for score in found.scores if score.game.startswith("attribute") and score.metric == "top1"]
    assert {score.control for score in asked} == {None, "iid"}
    assert all(score.options == 2 and score.chance >= 0.5 for score in asked)
    assert any(score.attack == "reid-joint" for score in found.scores)

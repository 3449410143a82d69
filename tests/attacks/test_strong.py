"""What the strongest attack does where the contract does not look."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedleak
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.evidence_fusion import Trial, level_of_strangers, one_to_one, weigh
from fedleak.attacks.deanonymize.linking import (
    CERTAIN,
    Joining,
    agglomerate,
    alike,
    alike_in_size,
    groups,
    outcomes,
    threshold,
)
from fedleak.attacks.deanonymize.mlp import ReidMlp
from fedleak.attacks.deanonymize.pca_projection import directions, focus
from fedleak.attacks.deanonymize.strong import Strong
from fedleak.attacks.deanonymize.wccn import templates, variation
from fedleak.attacks.deanonymize.words import counts, likelihood
from fedleak.attacks.features import unit
from fedleak.attacks.shadow import WHOLE, divide, halves, rebuilt, retrain
from fedleak.core import FloatArray, rng_for
from fedleak.errors import AttackError
from fedleak.games.identify import Identify
from fedleak.metrics.permutation import average_precision
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.stages import train
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.population.population import Examples
from fedleak.testing import planted_trace
from fedleak.views.adversaries import ANONYMOUS_SERVER, SERVER, Adversary
from fedleak.views.view import View

PLAN = """
seeds = [3]
[dataset]
name = "digits"
examples = 40
style = 1.0
class_bias = 2.0
[population]
users = 30
[model]
name = "mlp"
[federation]
rounds = 10
fraction = 0.2
centralised = false
[audit]
controls = []
[[attack]]
name = "reid-strong"
"""


SMALL = Strong(snapshots=8, dims=512)


class Silent:
    def stage(self, text: str, units: float) -> None: ...

    def tick(self, units: float) -> None: ...


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Run]:
    plan, out = parse(PLAN), tmp_path_factory.mktemp("strong")
    train(plan, out, Silent(), 1)
    return plan, runs(plan, out)[0]


def look(run: Run, adversary: Adversary = ANONYMOUS_SERVER, game: Identify | None = None, **means: Any) -> Any:
    given = build_questions(run, game or Identify())
    return View(run.folder / "trace", adversary, given.shadow, **means), given


def score(attack: Any, run: Run, adversary: Adversary = ANONYMOUS_SERVER) -> float:
    view, given = look(run, adversary)
    claims = attack.run(view, given.prior, given.questions, AttackContext(rng_for(0, "attack")))
    return average_precision(claims, given.answers.right).value


def test_where_few_labelled_updates_exist_it_makes_its_own(trained: tuple[Plan, Run]) -> None:
    found = score(SMALL, trained[1])
    assert found > 0.8
    assert found > score(ReidMlp(), trained[1]) + 0.1
    assert found > score(replace(SMALL, snapshots=0), trained[1]) + 0.02


def test_claims_do_not_depend_on_the_number_of_workers(trained: tuple[Plan, Run]) -> None:
    one, two = (
        SMALL.run(view, given.prior, given.questions, AttackContext(rng_for(0, "attack"), workers=workers))
        for workers in (1, 2)
        for view, given in [look(trained[1])]
    )
    np.testing.assert_array_equal(one, two)


def test_strangers_are_told_from_users_with_prior_data(trained: tuple[Plan, Run]) -> None:
    view, given = look(trained[1], game=Identify(seen=0.5))
    claims = SMALL.run(view, given.prior, given.questions, AttackContext(rng_for(0, "attack")))
    assert claims.shape == (len(given.questions), len(given.questions.options))
    unseen = given.answers.right == len(given.questions.options) - 1
    stranger = claims.argmax(axis=1) == len(given.questions.options) - 1
    assert stranger[unseen].mean() > max(0.7, stranger[~unseen].mean() + 0.25)


def test_lasting_handles_are_used_instead_of_linking(trained: tuple[Plan, Run]) -> None:
    view, given = look(trained[1], SERVER)
    claims = replace(SMALL, link=False).run(view, given.prior, given.questions, AttackContext(rng_for(0, "attack")))
    handles = view.updates.handle[given.questions.updates]
    for handle in np.unique(handles):
        assert (claims[handles == handle] == claims[handles == handle][0]).all()


def test_the_memory_of_the_plan_holds_for_it_too(trained: tuple[Plan, Run]) -> None:
    view, given = look(trained[1])
    with pytest.raises(AttackError, match="raise memory"):
        SMALL.run(view, given.prior, given.questions, AttackContext(rng_for(0, "attack"), memory=0))


def test_the_server_makes_what_a_client_would_send(trained: tuple[Plan, Run]) -> None:
    """Its own updates of a candidate's data point where the candidate's shadow client pointed."""
    view, given = look(trained[1])
    model = rebuilt(view)
    assert model is not None
    made = retrain(view, model, given.prior, 10, divide(given.prior, 2, 0), lambda rows: np.array(rows["out"]), 0)
    assert set(np.unique(made.part)) == {WHOLE, 0, 1, 2, 3}
    table = np.asarray(view.updates.layer("out"))
    for row in np.flatnonzero(view.updates.shadow >= 0)[:20]:
        same = (made.round == view.updates.round[row]) & (made.part == WHOLE)
        mine = made.rows[same & (made.who == view.updates.shadow[row])][0]
        assert mine @ table[row] > 0.9 * np.linalg.norm(mine) * np.linalg.norm(table[row])


def test_code_that_a_trace_names_is_never_run(trained: tuple[Plan, Run], tmp_path: Path) -> None:
    view, _ = look(trained[1])
    header = view._trace.header
    for recipe in ({"name": "own", "target": "os:getcwd"}, {"name": "nobody's"}, {"name": "cnn"}, None):
        view._trace.header = msgspec.structs.replace(header, settings={**header.settings, "architecture": recipe})
        assert rebuilt(view) is None
    made_up = View(planted_trace(tmp_path / "run", 0) / "trace", ANONYMOUS_SERVER)
    assert rebuilt(made_up) is None


def test_halves_keep_documents_whole_and_classes_even() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(12, dtype=np.float32)[:, None]
    one, other = halves(Examples(x=x, y=np.repeat([0, 1, 2], 4)), rng)
    assert one.y is not None and np.bincount(one.y).tolist() == [2, 2, 2]
    assert sorted([*one.x[:, 0], *other.x[:, 0]]) == x[:, 0].tolist()
    several = (np.arange(36).reshape(12, 3) % 5 == 0).astype(np.float32)  # of several labels an example
    one, other = halves(Examples(x=x, y=several), rng)
    assert one.x.shape == other.x.shape == (6, *x.shape[1:])
    assert sorted([*one.x[:, 0], *other.x[:, 0]]) == sorted(x[:, 0])
    one, other = halves(Examples(x=x, document=np.repeat([7, 8, 9, 10], 3)), rng)
    assert one.document is not None and other.document is not None
    assert set(one.document).isdisjoint(other.document)
    assert len(one) + len(other) == 12


def test_directions_of_updates_lose_nothing_of_them() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(30, 4)) @ rng.normal(size=(4, 500))).astype(np.float32)
    found = directions(rows, 10)
    assert found.shape == (500, 4)  # no more than there are
    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-4)
    np.testing.assert_allclose(rows @ found @ found.T, rows, atol=1e-2)
    assert directions(rows, 2).shape == (500, 2)
    assert np.isfinite(directions(np.zeros((3, 5), np.float32), 2)).all()


def test_anonymous_updates_keep_their_angles_and_known_ones_only_what_they_share_with_them(
    trained: tuple[Plan, Run],
) -> None:
    view, given = look(trained[1])
    wanted = np.arange(len(view.updates))
    asked = given.questions.updates
    known = np.setdiff1d(wanted, asked)
    lens, measured = focus(view, wanted, asked, 4096, 0, 2000)
    named = lens.to_name(measured)
    np.testing.assert_allclose(lens({layer.name: view.updates.layer(layer.name) for layer in view.layout}), measured)
    for layer in view.layout:
        rows = unit(np.array(view.updates.layer(layer.name)))
        np.testing.assert_allclose(
            named[layer.name][asked] @ named[layer.name][asked].T, rows[asked] @ rows[asked].T, atol=1e-3
        )
        # What a known update has beside the anonymous ones is gone.
        span = np.linalg.svd(rows[asked].astype(np.float64), full_matrices=False)
        inside = rows[known] @ span.Vh[1e-3 * span.S[0] < span.S].T
        turned = named[layer.name][known] @ named[layer.name][known].T
        np.testing.assert_allclose(turned, unit(inside) @ unit(inside).T, atol=3e-2)
    linked, together = lens.to_link(measured), np.zeros((len(wanted), len(wanted)))
    for layer in view.layout:
        rows = unit(np.array(view.updates.layer(layer.name)))
        together += rows @ rows.T
    np.testing.assert_allclose(linked @ linked.T, together, atol=1e-2)


def test_whitening_makes_users_vary_equally_in_every_direction() -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(40), 50)
    users = rng.normal(size=(40, 5))
    rows = (users[who] + rng.normal(size=(2000, 5)) * [10, 1, 1, 1, 0.1]).astype(np.float32)
    found = variation(rows, who)
    look = found.whitening(1e-6)
    mapped = np.linalg.solve(look.root, (rows - look.centre).T).T
    means = np.stack([mapped[who == i].mean(axis=0) for i in range(40)])
    np.testing.assert_allclose(np.cov((mapped - means[who]).T), np.eye(5), atol=0.05)
    level = look(rows)
    np.testing.assert_allclose(level, unit(mapped), atol=1e-4)
    blind = found.whitening(1e6)(rows)  # drawn all the way, angles are what they were
    np.testing.assert_allclose(blind, unit(rows - found.centre), atol=1e-3)
    mean, names = templates(level, who)
    assert names.tolist() == list(range(40))
    np.testing.assert_allclose(np.linalg.norm(mean, axis=1), 1, atol=1e-5)


@given(st.integers(0, 1000))
def test_updates_of_one_round_are_never_joined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds = rng.integers(0, 4, 12)
    rows = rng.standard_normal((12, 3), dtype=np.float32)
    client = groups(agglomerate(rows @ rows.T, rounds), 12, -np.inf)
    for group in np.unique(client):
        assert len(set(rounds[client == group])) == (client == group).sum()


def test_updates_of_a_client_are_joined_by_likeness() -> None:
    # Two clients in three rounds; the pair of a round never joins, however alike.
    angles = np.radians([0, 80, 5, 85, 10, 90])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    joined = agglomerate(rows @ rows.T, np.array([1, 1, 2, 2, 3, 3]))
    assert groups(joined, 6, 0.9).tolist() == [0, 1, 0, 1, 0, 1]
    assert len(np.unique(groups(joined, 6, np.inf))) == 6


def test_joining_stops_where_it_went_wrong_for_the_adversarys_own_clients() -> None:
    who = np.array([0, 0, 1, 1])
    joined = [Joining(0, 1, 0.9), Joining(2, 3, 0.7), Joining(0, 2, 0.3)]
    assert threshold(outcomes(joined, who)) == pytest.approx(0.5)
    assert 2 < threshold(outcomes(joined[2:], who)) == threshold([]) < CERTAIN  # nothing is joined but what must be
    assert agglomerate(np.zeros((0, 0), np.float32), np.zeros(0, np.int64)) == []


def test_updates_that_moved_the_same_words_are_alike() -> None:
    used = np.array([[True, True, False, False], [True, True, False, False], [False, False, True, True], [True] * 4])
    np.testing.assert_allclose(alike(used), [[1, 1, -1, 0], [1, 1, -1, 0], [-1, -1, 1, 0], [0, 0, 0, 0]], atol=1e-6)


def test_updates_of_different_sizes_are_never_joined_and_a_rare_size_is_evidence() -> None:
    sizes = np.array([7, 7, 9, 9, 9, 9])
    found = alike_in_size(sizes, 3)
    assert found[0, 1] == 1  # two of six updates: one of three clients
    assert 0 < found[2, 3] < found[0, 1]
    assert alike_in_size(np.full(6, 5), 3).max() == 0  # a size that all have says nothing
    joined = agglomerate(np.ones((6, 6), np.float32) + found, np.array([1, 2, 1, 2, 3, 4]))
    assert groups(joined, 6, -np.inf).tolist() == [0, 0, 1, 1, 1, 1]


def test_a_server_that_can_compute_sizes_links_by_them(tmp_path: Path) -> None:
    """Noise hides which updates are alike; a number of examples that nobody else has does not."""
    rng = np.random.default_rng(0)
    users = {
        f"u{n}": (rng.normal(rng.normal(size=6), 1, (n, 6)).astype(np.float32), rng.integers(3, size=n))
        for n in range(16, 48, 4)
    }
    found = {}
    for weighting in ("examples", "equal"):
        plan = fedleak.read_plan(
            {
                "dataset": fedleak.ArrayDataset(users),
                "model": {"name": "mlp", "hidden": [8]},
                "federation": {
                    "rounds": 20,
                    "fraction": 0.5,
                    "batch": 4,
                    "weighting": weighting,
                    "centralised": False,
                },
                "audit": {"controls": [], "adaptive": False},
                "attack": [{"name": "reid-strong"}],
                "defence": [{"name": "noise", "sigma": 0.3}],
            }
        )
        train(plan, tmp_path / weighting, Silent(), 1)
        view, given = look(runs(plan, tmp_path / weighting)[1])
        claims = SMALL.run(view, given.prior, given.questions, AttackContext(rng_for(0, "attack")))
        # Updates that were linked have the same scores.
        alike = (claims[:, None] == claims[None]).all(axis=2)
        same = given.answers.right[:, None] == given.answers.right[None]
        found[weighting] = (alike & same).sum() / same.sum()
        assert weighting == "equal" or not (alike & ~same).any()
    assert found["examples"] > 0.9 > 0.5 > found["equal"]


def test_evidence_that_says_nothing_gets_little_weight() -> None:
    rng = np.random.default_rng(0)
    right = np.tile(np.arange(10), 20)
    good = np.eye(10)[right] + 0.5 * rng.normal(size=(200, 10))
    bad = rng.normal(size=(200, 10))
    weights = weigh([Trial(np.stack([good, bad]).astype(np.float32), right)])
    assert weights[0] > 10 * weights[1]


def test_a_level_tells_strangers_from_users() -> None:
    scores: FloatArray = np.full((1, 6, 3), -5, dtype=np.float32)
    scores[0, [0, 1, 2, 3], [0, 1, 0, 1]] = 5
    trial = Trial(scores, np.array([0, 1, 0, 1, 2, 2]))
    assert 0 < level_of_strangers([trial], np.ones(1), 2) <= 5.1


def test_whom_one_client_fits_well_is_not_given_to_another() -> None:
    # The second client fits the first user a little better than the second, but that one is taken.
    logits = np.array([[9.0, 0.0], [1.0, 0.0]])
    logs = one_to_one(logits, np.array([5, 5]), 2)
    assert logs[0].argmax() == 0 and logs[1].argmax() == 1
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)


def test_one_stranger_may_have_any_number_of_clients() -> None:
    logits = np.array([[-9.0, -9.0, 0.0]] * 4 + [[9.0, 0.0, 0.0]])
    logs = one_to_one(logits, np.ones(5, dtype=np.int64), 2)
    assert logs.argmax(axis=1).tolist() == [2, 2, 2, 2, 0]


def test_words_that_were_used_name_their_author() -> None:
    known = np.array([[50, 50, 0, 0], [0, 0, 50, 50]], dtype=np.float32)
    found = likelihood(np.array([[True, True, False, False], [False, False, True, True]]), known)
    assert found.argmax(axis=1).tolist() == [0, 1]
    text = Examples(x=np.array([[2, 3, 3, 0], [2, 0, 0, 0]]))
    assert counts(text, 5).tolist() == [0, 0, 2, 2, 0]  # what is read: all but the last place, without padding
    assert counts(replace(text, y=np.zeros(2)), 5).tolist() == [0, 0, 2, 2, 0]

"""What a client trains on: some of it, or all, other users'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Task
from fedleak.defences.bkg_repl import BackgroundReplacement
from fedleak.defences.mm_aug import ModeAugmentation
from fedleak.defences.modes import tf_idf
from fedleak.defences.rand_aug import RandomAugmentation
from fedleak.errors import DataError, PlanError
from fedleak.federation.hooks import Defence, PublicData
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.recurrent import WordLm
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.configure import configure
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

PLAN = FederationPlan(batch=10, lr=0.1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def public(examples: Examples, model: Model | None = None, seed: int = 0) -> PublicData:
    return PublicData(examples, model or Mlp().build(Signature(Task.CLASSIFY, (3,), 2)), PLAN, rng(seed))


def some(n: int, value: float) -> Examples:
    return Examples(x=np.full((n, 3), value, dtype=np.float32), y=np.arange(n) % 2)


@given(st.integers(1, 40), st.floats(0.01, 1), st.integers(1, 60), st.integers(0, 10**6))
def test_the_share_that_was_asked_for_is_replaced_and_nothing_is_gained_or_lost(
    own: int, alpha: float, background: int, seed: int
) -> None:
    [mixed] = BackgroundReplacement(alpha=alpha).on_data([some(own, 1.0)], public(some(background, 2.0)), [rng(seed)])
    assert len(mixed) == own
    assert (mixed.x[:, 0] == 2).sum() == max(1, round(alpha * own))
    assert mixed.y is not None


def test_at_one_nothing_of_ones_own_is_left_and_above_it_is_refused() -> None:
    [mixed] = BackgroundReplacement(alpha=1.0).on_data([some(9, 1.0)], public(some(100, 2.0)), [rng()])
    assert (mixed.x == 2).all()
    with pytest.raises(PlanError, match=r"alpha = 1.5: expected float <= 1.0"):
        configure(BackgroundReplacement, {"alpha": 1.5}, "plan [[defence]] 1")
    with pytest.raises(PlanError, match="alpha = 0"):
        configure(BackgroundReplacement, {"alpha": 0.0}, "plan [[defence]] 1")


@pytest.mark.parametrize("defence", [BackgroundReplacement(), RandomAugmentation(), ModeAugmentation()])
def test_without_a_background_it_says_how_to_get_one(defence: Defence) -> None:
    with pytest.raises(DataError, match=f"'{defence.name}' needs background data.*background_users = N"):
        defence.on_data([some(2, 1.0)], None, [rng()])


def blobs(kinds: int, each: int, seed: int = 0) -> Examples:
    """Images of a few kinds that are easily told apart, in a mixed order."""
    draw = np.random.default_rng(seed)
    kind = draw.permutation(np.repeat(np.arange(kinds), each))
    x = 0.02 * draw.random((len(kind), 1, 8, 8), dtype=np.float32)
    x.reshape(len(kind), -1)[np.arange(len(kind)), 9 * (kind % 7)] = 1.0
    return Examples(x=x, y=kind)


def essays(kinds: int, each: int) -> Examples:
    """Texts of which each kind uses words of its own, some of them short."""
    draw = np.random.default_rng(1)
    kind = draw.permutation(np.repeat(np.arange(kinds), each))
    x = 2 + 5 * kind[:, None] + draw.integers(0, 5, (len(kind), 12))
    x[::4, 8:] = 0
    return Examples(x=x, document=kind.astype(np.int64))


CASES: dict[str, tuple[Examples, Model, ModeAugmentation]] = {
    "pixels": (
        blobs(4, 30),
        Cnn(channels=(4, 8), hidden=16).build(Signature(Task.CLASSIFY, (1, 8, 8), 4)),
        ModeAugmentation(alpha=2.0, modes=4),
    ),
    "features of the model": (
        blobs(4, 30),
        Cnn(channels=(4, 8), hidden=16).build(Signature(Task.CLASSIFY, (1, 8, 8), 4)),
        ModeAugmentation(alpha=2.0, modes=4, features="model"),
    ),
    "words": (
        essays(4, 30),
        WordLm(embedding=6, hidden=8).build(Signature(Task.NEXT_TOKEN, (12,), 30)),
        ModeAugmentation(alpha=2.0, modes=4),
    ),
    "states of a language model": (
        essays(4, 30),
        WordLm(embedding=6, hidden=8).build(Signature(Task.NEXT_TOKEN, (12,), 30)),
        ModeAugmentation(alpha=2.0, modes=4, features="model"),
    ),
}


def kinds(mixed: Examples) -> set[int]:
    column = mixed.y if mixed.y is not None else mixed.document
    assert column is not None
    return set(column.tolist())


@pytest.mark.parametrize(("background", "model", "defence"), CASES.values(), ids=CASES)
def test_each_client_takes_from_one_kind_and_clients_from_different_ones(
    background: Examples, model: Model, defence: ModeAugmentation
) -> None:
    own = background.take(slice(0, 10))
    picked, again = (
        defence.on_data([own] * 12, public(background, model, 3), [rng(seed) for seed in range(12)]) for _ in range(2)
    )
    for mixed, same in zip(picked, again, strict=True):
        assert len(mixed) == 30
        np.testing.assert_array_equal(mixed.x[:10], own.x)
        np.testing.assert_array_equal(mixed.x, same.x)
    added = [kinds(mixed.take(slice(10, None))) for mixed in picked]
    assert len(set().union(*added)) > 1
    # k-means need not find the kinds exactly; at random an addition of 20 would show all four.
    assert np.mean([len(found) for found in added]) < 2


def test_more_kinds_than_examples_are_as_many_as_examples() -> None:
    background = blobs(2, 3)
    model = Mlp(hidden=(4,)).build(Signature(Task.CLASSIFY, (1, 8, 8), 2))
    defence = ModeAugmentation(alpha=1.0, modes=50)
    [mixed] = defence.on_data([background], public(background, model), [rng()])
    assert len(mixed) == 12


@pytest.mark.parametrize(("features", "background"), [("tf-idf", blobs(2, 3)), ("raw", essays(2, 3))])
def test_features_that_do_not_fit_the_data_are_refused(features: str, background: Examples) -> None:
    model = Mlp(hidden=(4,)).build(Signature(Task.CLASSIFY, (1, 8, 8), 2))
    defence = configure(ModeAugmentation, {"features": features}, "plan")
    with pytest.raises(PlanError, match=f"features = '{features}' does not fit data of"):
        defence.on_data([background], public(background, model), [rng()])


def test_a_model_without_a_last_layer_has_no_features_before_it() -> None:
    model = Transformer(width=8, heads=2, tied=True).build(Signature(Task.NEXT_TOKEN, (12,), 30))
    with pytest.raises(PlanError, match="ends in 'norm'"):
        ModeAugmentation(features="model").on_data([essays(2, 4)], public(essays(2, 4), model), [rng()])


def test_words_that_all_texts_share_count_less_than_rare_ones() -> None:
    weights = tf_idf(np.array([[2, 3, 0], [2, 4, 0], [2, 5, 1]])).toarray()
    assert (weights[:, 2] > 0).all()
    assert weights[0, 3] > weights[0, 2]
    assert (weights[:, :2] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_two_kinds_of_augmentation_add_up(seed: int) -> None:
    own, background = some(10, 1.0), some(50, 2.0)
    mixed = RandomAugmentation(alpha=0.5).on_data([own], public(background), [rng(seed)])
    [last] = BackgroundReplacement(alpha=1.0).on_data(mixed, public(background), [rng(seed)])
    assert len(last) == 15
    assert (last.x == 2).all()

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak import registry
from fedleak.core import Task
from fedleak.defences.noise import Noise
from fedleak.defences.rand_aug import RandomAugmentation
from fedleak.errors import DataError
from fedleak.federation import hooks
from fedleak.federation.hooks import Defence, PublicData
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

HOOKS = [hook for hook in vars(Defence) if hook.startswith("on_")]


def public(examples: Examples) -> PublicData:
    model = Mlp().build(Signature(Task.CLASSIFY, (3,), 2))
    return PublicData(examples, model, FederationPlan(), np.random.default_rng(0))


def some(n: int, value: float) -> Examples:
    return Examples(x=np.full((n, 3), value, dtype=np.float32), y=np.arange(n) % 2)


@pytest.mark.parametrize("name", registry.names("defence"))
def test_every_defence_acts_at_a_hook_or_hides_something_and_says_what_it_does(name: str) -> None:
    cls = registry.load("defence", name)
    assert issubclass(cls, Defence)
    assert cls.summary
    assert cls.hides or any(getattr(cls, hook) is not getattr(Defence, hook) for hook in HOOKS)


def test_every_hook_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "defend.md").read_text()
    for hook in HOOKS:
        assert f"| `{hook}` |" in page and f"- {hook}, " in (hooks.__doc__ or "")


@given(st.floats(0.01, 100), st.integers(0, 2**32))
def test_noise_has_the_spread_that_was_asked_for_and_no_bias(sigma: float, seed: int) -> None:
    update = {"a": np.zeros(4000, dtype=np.float32), "b": np.full(4000, 3.0, dtype=np.float32)}
    sent = Noise(sigma=sigma).on_update(update, np.random.default_rng(seed))
    for layer, values in update.items():
        added = sent[layer] - values
        assert sent[layer].dtype == np.float32
        assert np.std(added) == pytest.approx(sigma, rel=0.08)
        assert abs(added.mean()) < 6 * sigma / np.sqrt(4000)


def test_relative_noise_follows_the_size_of_each_layer() -> None:
    update = {"small": np.full(4000, 0.01, dtype=np.float32), "large": np.full(4000, 5.0, dtype=np.float32)}
    sent = Noise(sigma=2.0, relative=True).on_update(update, np.random.default_rng(0))
    assert np.std(sent["small"] - update["small"]) == pytest.approx(0.02, rel=0.08)
    assert np.std(sent["large"] - update["large"]) == pytest.approx(10.0, rel=0.08)


def test_noise_leaves_the_update_itself_alone_and_repeats_with_its_generator() -> None:
    update = {"a": np.ones(10, dtype=np.float32)}
    first, again = (Noise(sigma=1.0).on_update(update, np.random.default_rng(3)) for _ in range(2))
    assert (update["a"] == 1).all()
    assert np.array_equal(first["a"], again["a"])


@given(st.integers(1, 30), st.floats(0.1, 4), st.integers(1, 50), st.integers(0, 2**32))
def test_augmentation_keeps_every_own_example_and_adds_the_share_that_was_asked_for(
    own: int, alpha: float, background: int, seed: int
) -> None:
    [mixed] = RandomAugmentation(alpha=alpha).on_data(
        [some(own, 1.0)], public(some(background, 2.0)), [np.random.default_rng(seed)]
    )
    assert (mixed.x[:own] == 1).all()
    assert (mixed.x[own:] == 2).all()
    assert len(mixed) - own == max(1, round(alpha * own))
    assert mixed.y is not None


def test_augmentation_repeats_no_background_example_while_there_are_enough() -> None:
    background = Examples(x=np.arange(40, dtype=np.float32)[:, None], y=np.zeros(40, dtype=np.int64))
    own = Examples(x=np.full((40, 1), -1, dtype=np.float32), y=np.zeros(40, dtype=np.int64))
    [mixed] = RandomAugmentation(alpha=1.0).on_data([own], public(background), [np.random.default_rng(0)])
    assert sorted(mixed.x[40:, 0]) == list(range(40))


@pytest.mark.parametrize("background", [None, some(0, 1.0)])
def test_augmentation_without_background_says_how_to_get_some(background: Examples | None) -> None:
    given = None if background is None else public(background)
    with pytest.raises(DataError, match="background_users = N"):
        RandomAugmentation().on_data([some(2, 1.0)], given, [np.random.default_rng(0)])

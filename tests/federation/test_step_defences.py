"""What defences do inside local steps: to embeddings, to recurrent layers, and to the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from reference import PlainLm
from small_runs import run, same, small_model, some_clients

from fedleak.core import FloatArray, Task, UserId
from fedleak.defences.dp_sgd import DpSgd
from fedleak.defences.embedding_adversarial import EmbeddingAdversarial
from fedleak.defences.embedding_dropout import EmbeddingDropout
from fedleak.defences.embedding_noise import EmbeddingNoise
from fedleak.defences.lstm_dropout import LstmDropout
from fedleak.errors import PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded
from fedleak.federation.federation import Client
from fedleak.federation.hooks import Defence
from fedleak.federation.loss import total
from fedleak.federation.model import ActivationHooks, Architecture, Model, Signature, Stochastic
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.recurrent import Rating, WordLm
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

LENGTH, WORDS = 7, 9
TEXTS = Signature(Task.NEXT_TOKEN, (LENGTH,), WORDS)
PLAN = FederationPlan(rounds=2, fraction=1.0, batch=4, lr=0.2)
EVERY = [EmbeddingNoise(sigma=0.5), EmbeddingDropout(), EmbeddingAdversarial(epsilon=1.0), LstmDropout()]
MODELS: dict[str, Architecture] = {
    "char-lm": CharLm(embedding=4, hidden=6, layers=2),
    "word-lm": WordLm(embedding=4, hidden=6),
    "transformer": Transformer(width=8, heads=2),
}


def clients() -> list[Client]:
    rng = np.random.default_rng(0)
    texts = [Examples(x=rng.integers(1, WORDS, (size, LENGTH))) for size in (9, 4)]
    return [Client(f"d-{n}", UserId(f"u{n}"), -1, text) for n, text in enumerate(texts)]


def fits(defence: Defence, model: Model) -> bool:
    return set(defence.places) <= set(getattr(model, "places", ()))


@pytest.mark.parametrize("defence", EVERY, ids=lambda d: d.name)
@pytest.mark.parametrize("architecture", MODELS.values(), ids=MODELS)
def test_each_changes_training_repeats_itself_and_goes_with_clipped_examples(
    architecture: Architecture, defence: Defence
) -> None:
    model = architecture.build(TEXTS)
    if not fits(defence, model):
        with pytest.raises(PlanError, match=f"'{defence.name}' acts on the output of the lstm layer"):
            run(model, clients(), defence, plan=PLAN)
        return
    model.group = 1  # something for a second worker to do
    plain, first = run(model, clients(), plan=PLAN), run(model, clients(), defence, plan=PLAN)
    again = run(model, clients(), defence, plan=PLAN, workers=2)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert not np.allclose(plain[0].updates["embedding"], first[0].updates["embedding"], atol=1e-5)
    both, dp = (
        run(model, clients(), defence, DpSgd(noise=0.01), plan=PLAN),
        run(model, clients(), DpSgd(noise=0.01), plan=PLAN),
    )
    assert not same(both[0], dp[0])


@pytest.mark.parametrize("defence", EVERY, ids=lambda d: d.name)
def test_a_model_without_the_place_is_refused_before_anything_is_trained(defence: Defence) -> None:
    with pytest.raises(PlanError, match="but this model has no such layer; choose another model"):
        run(small_model(), some_clients(), defence)


@pytest.mark.parametrize("architecture", MODELS.values(), ids=MODELS)
def test_touching_a_place_without_changing_it_changes_nothing(architecture: Architecture) -> None:
    model = architecture.build(TEXTS)
    assert isinstance(model, Stochastic)
    weights = {f"{layer.name}.{t}": torch.randn(2, *shape) for layer in model.layout for t, shape in layer.tensors}
    x = torch.randint(1, WORDS, (2, 3, 5))
    shapes: dict[str, tuple[int, ...]] = {}

    def watch(place: str) -> ActivationHooks:
        def keep(values: torch.Tensor) -> torch.Tensor:
            shapes[place] = tuple(values.shape)
            return values

        return {place: keep}

    for place in model.places:
        touched = model.train_forward(weights, x, (), watch(place))
        torch.testing.assert_close(touched, model.forward(weights, x), rtol=0, atol=0)
        assert shapes[place][:3] == (2, 3, 5)


def test_a_rating_can_be_touched_too() -> None:
    model = Rating(embedding=3, hidden=4, vocabulary=WORDS).build(Signature(Task.REGRESS, (LENGTH,), 1))
    rng = np.random.default_rng(0)
    data = Examples(x=rng.integers(1, WORDS, (8, LENGTH)), y=rng.random(8, dtype=np.float32))
    plain, noisy = (run(model, [Client("d", UserId("u"), -1, data)], *d, plan=PLAN) for d in ((), (EVERY[0],)))
    assert not same(plain[0], noisy[0])


def rngs(stage: str, client: int) -> np.random.Generator:
    return np.random.default_rng([client, *stage.encode()])


def one_step(defences: Sequence[Defence], x: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> dict[str, FloatArray]:
    """What one plain step of learning rate one does to a word model: minus the gradient."""
    model = WordLm(embedding=4, hidden=6).build(TEXTS)
    settings = FederationPlan(rounds=1, fraction=1.0, batch=len(x), lr=1.0)
    engine = Embedded(model, Task.NEXT_TOKEN, settings, Pool.of([Examples(x=x)], ["a"]), defences, defended=[True])
    return {name: rows[0].numpy() for name, rows in engine.updates(start(model), [0], rngs).items()}


def start(model: Model) -> dict[str, FloatArray]:
    return dict(model.init(np.random.default_rng(5)))


def plain_module() -> tuple[PlainLm, Model]:
    model = WordLm(embedding=4, hidden=6).build(TEXTS)
    module, weights = PlainLm(WORDS, 4, 6), start(model)
    named = {name.removesuffix("_l0"): value for name, value in module.named_parameters()}
    with torch.no_grad():
        for layer in model.layout:
            for tensor, shape in layer.tensors:
                value = torch.tensor(weights[layer.name][layer.span(tensor)]).view(shape)
                named[f"{layer.name}.{tensor}"].copy_(value)
    return module, model


def test_adversarial_training_is_the_mean_of_both_losses_at_the_worst_nearby_embedding() -> None:
    """By hand: the perturbation of eq. 13 for each example, then one gradient of both losses."""
    x = np.random.default_rng(1).integers(1, WORDS, (3, LENGTH))
    moved = one_step([EmbeddingAdversarial(epsilon=0.7)], x)
    module, model = plain_module()
    tokens = torch.tensor(x)

    def loss(vectors: torch.Tensor) -> torch.Tensor:
        outputs = module.out(module.lstm(vectors)[0])
        return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), tokens[:, 1:].flatten())

    vectors = module.embedding(tokens[:, :-1]).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss(vectors), vectors)
    push = 0.7 * g / g.flatten(1).norm(dim=1)[:, None, None]
    vectors = module.embedding(tokens[:, :-1])
    both = (loss(vectors) + loss(vectors + push)) / 2
    assert loss(vectors + push) > loss(vectors)
    both.backward()  # type: ignore[no-untyped-call]
    for layer in model.layout:
        named = {name.removesuffix("_l0"): value.grad for name, value in module.named_parameters()}
        wanted = torch.cat([named[f"{layer.name}.{t}"].flatten() for t, _ in layer.tensors])  # type: ignore[union-attr]
        np.testing.assert_allclose(moved[layer.name], -wanted.numpy(), atol=2e-5)


def test_noise_on_the_embedding_has_the_spread_that_was_asked_for() -> None:
    seen: list[torch.Tensor] = []

    def loss(touches: ActivationHooks) -> torch.Tensor:
        seen.append(touches["embedding"](torch.ones(2, 50, 10, 20)))
        return seen[-1].sum()

    EmbeddingNoise(sigma=0.3).on_loss(loss, [np.random.default_rng(n) for n in range(2)])({})
    assert float(seen[0].std()) == pytest.approx(0.3, rel=0.03)
    assert float(seen[0].mean()) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("defence", "place"), [(EmbeddingDropout(rate=0.4), "embedding"), (LstmDropout(rate=0.4), "lstm")]
)
def test_dropout_leaves_out_its_share_and_is_right_on_average(defence: Defence, place: str) -> None:
    seen: list[torch.Tensor] = []

    def loss(touches: ActivationHooks) -> torch.Tensor:
        seen.append(touches[place](torch.ones(2, 50, 10, 20)))
        return seen[-1].sum()

    defence.on_loss(loss, [np.random.default_rng(n) for n in range(2)])({})
    assert float((seen[0] == 0).float().mean()) == pytest.approx(0.4, abs=0.02)
    assert float(seen[0].mean()) == pytest.approx(1.0, abs=0.03)


def test_two_at_one_place_act_one_after_the_other() -> None:
    def loss(touches: ActivationHooks) -> torch.Tensor:
        return touches["embedding"](torch.zeros(1, 40, 10, 20)).square().mean()

    rng = [np.random.default_rng(0)]
    noisy = EmbeddingNoise(sigma=1.0).on_loss(loss, rng)
    thinned = EmbeddingDropout(rate=0.5).on_loss(noisy, rng)
    # In the order of the plan: noised first, then half of it dropped and the rest doubled.
    assert float(thinned({})) == pytest.approx(2.0, rel=0.05)


def test_clients_that_do_not_defend_train_as_without() -> None:
    model = CharLm(embedding=4, hidden=6).build(TEXTS)
    both = clients()
    spared = [Client(both[0].id, both[0].user, -1, both[0].data, defended=False), both[1]]
    plain, mixed = run(model, both, plan=PLAN)[0], run(model, spared, EmbeddingNoise(sigma=1.0), plan=PLAN)[0]
    for row, client in enumerate(plain.clients):
        alike = np.allclose(plain.updates["out"][row], mixed.updates["out"][row], atol=1e-6)
        assert alike is not spared[client].defended


def test_the_loss_of_one_example_among_clients_is_its_own() -> None:
    """What per-example clipping rests on: a client with one example has that example's mean loss."""
    outputs, x = torch.randn(2, 1, 4, WORDS), torch.randint(1, WORDS, (2, 1, 5))
    both = total(Task.NEXT_TOKEN, outputs, x, None, torch.ones(2, 1))
    each = [torch.nn.functional.cross_entropy(outputs[n, 0], x[n, 0, 1:]) for n in range(2)]
    torch.testing.assert_close(both, each[0] + each[1])

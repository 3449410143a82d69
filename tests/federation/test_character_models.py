"""Character models compute what torch's own layers compute, in windows and one character after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedleak.core import Params, Task
from fedleak.errors import DataError, PlanError
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.model import Architecture, Signature, Stochastic, Tensors
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.incremental import Incremental
from fedleak.federation.models.parts import drop
from fedleak.federation.models.transformer import Transformer, _Turn

LENGTH, OUTPUTS = 17, 12
SIGNATURE = Signature(Task.NEXT_TOKEN, (LENGTH,), OUTPUTS)
ARCHITECTURES: dict[str, Architecture] = {
    "lstm-1": CharLm(embedding=6, hidden=10),
    "lstm-3": CharLm(embedding=6, hidden=10, layers=3),
    "transformer": Transformer(width=12, heads=3, layers=2),
    "transformer-tied": Transformer(width=12, heads=1, layers=1, tied=True),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


class PlainCharLm(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(OUTPUTS, 6)
        self.lstm = nn.LSTM(6, 10, layers, batch_first=True)
        self.out = nn.Linear(10, OUTPUTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.lstm(self.embedding(x))[0])
        return y


class PlainTransformer(nn.Module):
    """Torch's own parts, put together one head after another."""

    def __init__(self, heads: int, layers: int, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(OUTPUTS, 12)
        self.heads = heads
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(12, heads, 48, 0.0, F.gelu, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(12)
        self.out = None if tied else nn.Linear(12, OUTPUTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(x)
        block: Any
        for block in self.blocks:
            h = h + self.attention(block, block.norm1(h))
            h = h + block.linear2(F.gelu(block.linear1(block.norm2(h))))
        h = self.norm(h)
        y: torch.Tensor = h @ self.embedding.weight.T if self.out is None else self.out(h)
        return y

    def attention(self, block: Any, h: torch.Tensor) -> torch.Tensor:
        size = 12 // self.heads
        q, k, v = F.linear(h, block.self_attn.in_proj_weight, block.self_attn.in_proj_bias).chunk(3, -1)
        found = []
        for head in range(self.heads):
            mine = slice(head * size, (head + 1) * size)
            scores = rotated(q[..., mine]) @ rotated(k[..., mine]).transpose(1, 2) / size**0.5
            scores = scores.masked_fill(torch.ones(h.shape[1], h.shape[1]).triu(1).bool(), -torch.inf)
            found.append(scores.softmax(-1) @ v[..., mine])
        y: torch.Tensor = block.self_attn.out_proj(torch.cat(found, -1))
        return y


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions as multiplication of complex numbers (Su et al., 2021, eq. 12)."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half], x[..., half:])
    speeds = torch.tensor([10000 ** (-i / half) for i in range(half)])
    turned = pairs * torch.exp(1j * torch.arange(x.shape[1])[:, None] * speeds)
    return torch.cat([turned.real, turned.imag], -1)


PARTS = {
    "attention.norm_weight": "norm1.weight",
    "attention.norm_bias": "norm1.bias",
    "attention.in_weight": "self_attn.in_proj_weight",
    "attention.in_bias": "self_attn.in_proj_bias",
    "attention.out_weight": "self_attn.out_proj.weight",
    "attention.out_bias": "self_attn.out_proj.bias",
    "feedforward.norm_weight": "norm2.weight",
    "feedforward.norm_bias": "norm2.bias",
    "feedforward.in_weight": "linear1.weight",
    "feedforward.in_bias": "linear1.bias",
    "feedforward.out_weight": "linear2.weight",
    "feedforward.out_bias": "linear2.bias",
    "norm.norm_weight": "norm.weight",
    "norm.norm_bias": "norm.bias",
}


def torch_name(key: str) -> str:
    layer, tensor = key.split(".")
    kind, number = layer.rstrip("123"), layer[-1]
    if kind == "lstm":
        return f"lstm.{tensor}_l{int(number) - 1}"
    part = PARTS.get(f"{kind}.{tensor}", key)
    return f"blocks.{int(number) - 1}.{part}" if number.isdigit() else part


def plain(name: str, weights: Tensors) -> nn.Module:
    module: nn.Module
    if name.startswith("lstm"):
        module = PlainCharLm(int(name[-1]))
    else:
        module = PlainTransformer(*((1, 1, True) if "tied" in name else (3, 2, False)))
    parameters = dict(module.named_parameters())
    assert {torch_name(key) for key in weights} == set(parameters)
    with torch.no_grad():
        for key, value in weights.items():
            parameters[torch_name(key)].copy_(value)
    return module


def scattered(model_weights: Params, rng: np.random.Generator) -> Params:
    """Weights without the regularities of an initial model (zero biases, unit scales)."""
    return {k: (v + 0.3 * rng.standard_normal(v.shape)).astype(np.float32) for k, v in model_weights.items()}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_outputs_and_gradients_of_each_client_are_those_of_torchs_own_layers(name: str) -> None:
    rng = np.random.default_rng(0)
    model = ARCHITECTURES[name].build(SIGNATURE)
    parts = [tensors(model, scattered(model.init(rng), rng)) for _ in range(3)]
    weights = {key: torch.cat([part[key] for part in parts]).requires_grad_() for key in parts[0]}
    x = torch.from_numpy(rng.integers(0, OUTPUTS, (3, 4, LENGTH - 1)))
    outputs = model.forward(weights, x)
    pull = torch.from_numpy(rng.standard_normal(outputs.shape).astype(np.float32))
    gradients = torch.autograd.grad(outputs, list(weights.values()), pull)
    for client, part in enumerate(parts):
        module = plain(name, {key: value[0] for key, value in part.items()})
        expected = module(x[client])
        torch.testing.assert_close(outputs[client], expected, atol=2e-5, rtol=1e-4)
        parameters = dict(module.named_parameters())
        found = torch.autograd.grad(expected, [parameters[torch_name(key)] for key in weights], pull[client])
        for key, gradient, right in zip(weights, gradients, found, strict=True):
            torch.testing.assert_close(gradient[client], right, atol=1e-4, rtol=1e-3, msg=key)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_reading_on_from_a_state_gives_what_the_whole_window_gives(name: str) -> None:
    rng = np.random.default_rng(1)
    model = ARCHITECTURES[name].build(SIGNATURE)
    assert isinstance(model, Incremental)
    parts = [tensors(model, scattered(model.init(rng), rng)) for _ in range(2)]
    weights = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    texts = rng.integers(0, OUTPUTS, (5, LENGTH - 1))
    texts[:, :4] = texts[0, :4]  # all five begin alike, and part from there
    x = torch.from_numpy(texts)
    with torch.inference_mode():
        expected = torch.log_softmax(model.forward(weights, x.expand(2, -1, -1)), -1)
        reader = model.reader(weights)
        state = reader.start()
        for t in range(4):
            logs, state = reader.read(state, x[:1, t])
            torch.testing.assert_close(logs, expected[:, :1, t], atol=2e-5, rtol=1e-4)
        state = state.take(torch.zeros(5, dtype=torch.int64))
        for t in range(4, 9):
            logs, state = reader.read(state, x[:, t])
            torch.testing.assert_close(logs, expected[:, :, t], atol=2e-5, rtol=1e-4)
        chosen = torch.tensor([4, 1, 1])
        state = state.take(chosen)
        for t in range(9, LENGTH - 1):
            logs, state = reader.read(state, x[chosen, t])
            torch.testing.assert_close(logs, expected[:, chosen, t], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(2, 3))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_comes_later_does_not_change_a_prediction(name: str) -> None:
    rng = np.random.default_rng(2)
    model = ARCHITECTURES[name].build(SIGNATURE)
    weights = tensors(model, scattered(model.init(rng), rng))
    x = torch.from_numpy(rng.integers(0, OUTPUTS, (1, 1, LENGTH - 1)))
    other = x.clone()
    other[..., 9:] = (other[..., 9:] + 1) % OUTPUTS
    before, after = model.forward(weights, x), model.forward(weights, other)
    torch.testing.assert_close(before[:, :, :9], after[:, :, :9])
    assert (before[:, :, 9] - after[:, :, 9]).abs().max() > 1e-3


@pytest.mark.parametrize("architecture", [CharLm(hidden=10, dropout=0.4), Transformer(width=16, dropout=0.4)])
def test_dropout_acts_in_training_only_and_follows_each_clients_generator(architecture: Architecture) -> None:
    rng = np.random.default_rng(3)
    model = architecture.build(SIGNATURE)
    single = tensors(model, model.init(rng))
    both = {key: value.expand(2, *value.shape[1:]) for key, value in single.items()}
    x = torch.from_numpy(rng.integers(0, OUTPUTS, (2, 3, LENGTH - 1)))
    assert isinstance(model, Stochastic)
    train = model.train_forward
    together = train(both, x, [np.random.default_rng(n) for n in (5, 6)])
    alone = train(single, x[1:], [np.random.default_rng(6)])
    torch.testing.assert_close(together[1:], alone)
    assert not torch.allclose(together[1:], train(single, x[1:], [np.random.default_rng(7)]), atol=1e-3)
    torch.testing.assert_close(model.forward(both, x), model.forward(both, x))
    assert not torch.allclose(model.forward(both, x), together, atol=1e-3)


def test_dropout_leaves_out_its_share_and_keeps_the_mean() -> None:
    values = torch.ones(2, 100, 100)
    dropped = drop(values, 0.25, [np.random.default_rng(n) for n in range(2)])
    assert np.unique(dropped.numpy()).tolist() == [0.0, pytest.approx(4 / 3)]
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert not torch.equal(dropped[0], dropped[1])
    assert drop(values, 0.25, ()) is values


def test_a_transformer_knows_how_far_back_a_character_stands_and_not_where() -> None:
    model = Transformer(width=12, heads=3, layers=1).build(SIGNATURE)
    weights = tensors(model, scattered(model.init(np.random.default_rng(0)), np.random.default_rng(1)))
    turn = _Turn(torch.arange(50), 4)
    q, k = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    table = turn(q.expand(50, 4)) @ turn(k.expand(50, 4)).T
    torch.testing.assert_close(table[20, 13], table[40, 33])
    assert not torch.isclose(table[20, 13], table[20, 14])
    # Longer than any window of the training.
    assert model.forward(weights, torch.ones(1, 1, 3 * LENGTH, dtype=torch.int64)).isfinite().all()


def test_a_token_of_another_alphabet_is_refused() -> None:
    for architecture in (CharLm(), Transformer()):
        model = architecture.build(SIGNATURE)
        weights = tensors(model, model.init(np.random.default_rng(0)))
        with pytest.raises(DataError, match="token 12 is outside"):
            model.forward(weights, torch.full((1, 1, 4), 12))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(PlanError, match="width = 10 cannot be divided among heads = 4"):
        Transformer(width=10, heads=4).build(SIGNATURE)
    with pytest.raises(PlanError, match=r"an odd size \(3\)"):
        Transformer(width=12, heads=4).build(SIGNATURE)

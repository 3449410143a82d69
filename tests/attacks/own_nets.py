"""Models as users write them: with BatchNorm and dropout, and with every kind of output."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from fedleak import Signature


class Net(nn.Module):
    """A small classifier whose `kind` says in what it wraps its outputs."""

    def __init__(self, signature: Signature, kind: str = "tensor", dropout: float = 0.0) -> None:
        super().__init__()
        self.kind = kind
        self.fc, self.bn = nn.Linear(math.prod(signature.input_shape), 12), nn.BatchNorm1d(12)
        self.drop, self.out = nn.Dropout(dropout), nn.Linear(12, signature.outputs)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.out(self.drop(self.bn(self.fc(x.flatten(1))).relu()))
        wrapped = {
            "tensor": y,
            "dict": {"loss": y.mean(), "logits": y},
            "only": {"out": y},
            "named": {"a": y, "b": y},
            "tuple": (y, x),
            "object": SimpleNamespace(logits=y),
        }
        return wrapped[self.kind]


def tensor(signature: Signature) -> nn.Module:
    return Net(signature)


def in_dict(signature: Signature) -> nn.Module:
    return Net(signature, "dict")


def in_tuple(signature: Signature) -> nn.Module:
    return Net(signature, "tuple")


def in_object(signature: Signature) -> nn.Module:
    return Net(signature, "object")


def only(signature: Signature) -> nn.Module:
    return Net(signature, "only")


def named(signature: Signature) -> nn.Module:
    return Net(signature, "named")


def dropping(signature: Signature) -> nn.Module:
    return Net(signature, "dict", dropout=0.2)


def reading(signature: Signature) -> nn.Module:
    Path("sizes.txt").read_text()
    return Net(signature)


class Writer(nn.Module):
    """A small language model; positions come before tokens, which is not the order in which it reads them."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.position, self.token = nn.Embedding(signature.input_shape[0], 8), nn.Embedding(signature.outputs, 8)
        self.rnn, self.drop = nn.GRU(8, 16, batch_first=True), nn.Dropout(0.1)
        self.out = nn.Linear(16, signature.outputs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        places = torch.arange(x.shape[1]).clamp(max=self.position.num_embeddings - 1)
        return {"logits": self.out(self.drop(self.rnn(self.token(x) + self.position(places))[0]))}


def writer(signature: Signature) -> nn.Module:
    return Writer(signature)


class Failing(Net):
    """Works on the made-up examples, and fails in training when it meets real ones."""

    def forward(self, x: torch.Tensor) -> Any:
        if len(x) > 3:
            raise RuntimeError("too many\n  examples")
        return super().forward(x)


def failing(signature: Signature) -> nn.Module:
    return Failing(signature)


def unbuilt(signature: Signature) -> nn.Module:
    sizes: dict[str, nn.Module] = {}
    return sizes["no such size"]

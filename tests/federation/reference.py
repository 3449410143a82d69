"""A deliberately plain federation client: one torch.nn module, one torch.optim optimiser, one batch after another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fedleak.core import Layout, Params, Task
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples


class PlainMlp(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.fc1, self.out = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(F.relu(self.fc1(x.flatten(1))))
        return y


class PlainCnn(nn.Module):
    def __init__(self, channels: int, side: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, kernel, padding=kernel // 2)
        self.conv2 = nn.Conv2d(8, 16, kernel, padding=kernel // 2)
        self.fc, self.out = nn.Linear(16 * (side // 4) ** 2, 32), nn.Linear(32, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        y: torch.Tensor = self.out(F.relu(self.fc(x.flatten(1))))
        return y


class PlainNormed(nn.Module):
    """A convolution with its normalisation, under the names of one layer."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.weight = conv.weight
        self.scale = nn.Parameter(torch.ones(outputs))
        self.shift = nn.Parameter(torch.zeros(outputs))
        self.stride, self.groups = stride, groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.conv2d(x, self.weight, None, self.stride, self.weight.shape[-1] // 2, 1, self.groups)
        return F.group_norm(h, h.shape[1] // 8, self.scale, self.shift).relu()


class PlainMobileNet(nn.Module):
    """Three blocks at a quarter of the width; the stem and the second block halve the image."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.stem = PlainNormed(channels, 8, 3, 2)
        self.dw1, self.pw1 = PlainNormed(8, 8, 3, 1, 8), PlainNormed(8, 16, 1, 1)
        self.dw2, self.pw2 = PlainNormed(16, 16, 3, 2, 16), PlainNormed(16, 32, 1, 1)
        self.dw3, self.pw3 = PlainNormed(32, 32, 3, 1, 32), PlainNormed(32, 32, 1, 1)
        self.out = nn.Linear(32, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.pw1(self.dw1(self.stem(x)))
        h = self.pw3(self.dw3(self.pw2(self.dw2(h))))
        y: torch.Tensor = self.out(h.mean((2, 3)))
        return y


class PlainLm(nn.Module):
    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.lstm(self.embedding(x))[0])
        return y


class PlainRating(nn.Module):
    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = self.lstm(self.embedding(x))[0]
        last = (x != 0).sum(1) - 1
        y: torch.Tensor = self.out(states[torch.arange(len(x)), last])
        return y


def _parameters(module: nn.Module) -> Mapping[str, nn.Parameter]:
    return {name.removesuffix("_l0"): value for name, value in module.named_parameters()}


def client_update(
    module: nn.Module,
    layout: Layout,
    weights: Params,
    data: Examples,
    task: Task,
    settings: FederationPlan,
    rng: np.random.Generator,
) -> Params:
    """Train one client and return after - before, layer by layer."""
    parameters = _parameters(module)
    with torch.no_grad():
        for layer in layout:
            for tensor, shape in layer.tensors:
                value = torch.tensor(weights[layer.name][layer.span(tensor)]).view(shape)
                parameters[f"{layer.name}.{tensor}"].copy_(value)
    optimizer: torch.optim.Optimizer
    if settings.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), settings.lr)
    else:
        optimizer = torch.optim.SGD(module.parameters(), settings.lr)
    for _ in range(settings.epochs):
        order = rng.permutation(len(data))
        for start in range(0, len(order), settings.batch):
            batch = data.take(order[start : start + settings.batch])
            x = torch.tensor(batch.x)
            optimizer.zero_grad()
            if task is Task.NEXT_TOKEN:
                outputs = module(x[:, :-1])
                loss = F.cross_entropy(outputs.flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
            elif task is Task.CLASSIFY:
                loss = F.cross_entropy(module(x), torch.tensor(batch.y))
            elif task is Task.MULTI_LABEL:
                loss = F.binary_cross_entropy_with_logits(module(x), torch.tensor(batch.y))
            else:
                loss = F.mse_loss(module(x).squeeze(1), torch.tensor(batch.y))
            loss.backward()  # type: ignore[no-untyped-call]
            if settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(module.parameters(), settings.clip)
            optimizer.step()
    return {
        layer.name: torch.cat([parameters[f"{layer.name}.{t}"].detach().flatten() for t, _ in layer.tensors]).numpy()
        - weights[layer.name]
        for layer in layout
    }

"""The same job on pfl's simulator: `pfl_peer.py JOB.npz MODEL THREADS REPEAT`, with the interpreter of pfl's venv."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from job import BATCH, CLIP, LR, PER_ROUND, ROUNDS, Mark, accuracy, held_out, load, loss_of, now, report, start
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.internal.ops.selector import set_framework_module
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn


class Clock(TrainingProcessCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        self.marks.append(now())
        return False, Metrics()


def with_loss(name: str, module: nn.Module) -> nn.Module:
    """Give the module what pfl asks of one."""

    def loss(self: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss_of(name, self, x, y)

    def metrics(self: nn.Module, *_: Any) -> dict[str, Any]:
        return {}

    for function in (loss, metrics):
        setattr(module, function.__name__, MethodType(function, module))
    return module


def main(path: str, name: str, threads: str, repeat: str) -> None:
    torch.set_num_threads(int(threads))
    from pfl.internal.ops import pytorch_ops

    set_framework_module(pytorch_ops)
    job = load(Path(path))
    xs, ys = torch.from_numpy(job["x"]), torch.from_numpy(job["y"])
    for run in range(int(repeat)):
        rng = np.random.default_rng(run)

        def data_of(user: int, rng: np.random.Generator = rng) -> Dataset:
            order = torch.from_numpy(rng.permutation(len(xs[user])))
            return Dataset([xs[user][order], ys[user][order]], user_id=str(user))

        queue = iter(job["selected"].ravel().tolist())
        users = FederatedDataset(data_of, lambda queue=queue: next(queue, 0))
        server = with_loss(name, start(name, job))
        model = PyTorchModel(server, torch.optim.SGD, torch.optim.SGD(server.parameters(), 1.0))
        clock = Clock()
        began = now()
        FederatedAveraging().run(
            NNAlgorithmParams(
                central_num_iterations=ROUNDS,
                evaluation_frequency=ROUNDS + 1,
                train_cohort_size=PER_ROUND,
                val_cohort_size=0,
            ),
            SimulatedBackend(users, users),
            model,
            NNTrainHyperParams(
                local_num_epochs=1,
                local_learning_rate=LR[name],
                local_batch_size=BATCH,
                local_max_grad_norm=CLIP.get(name),
            ),
            callbacks=[clock],
            send_metrics_to_platform=False,
        )
        report(began, clock.marks, accuracy(name, server, *held_out(job)))


if __name__ == "__main__":
    main(*sys.argv[1:])

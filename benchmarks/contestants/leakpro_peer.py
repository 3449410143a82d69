"""Gradient inversion by LeakPro: `leakpro_peer.py JOB.npz IMAGES.npy ITERATIONS SEED`, in its environment.

Its attack "Inverting Gradients" with its own settings (Adam 0.1, total variation 1e-6). Its stock data extension deals
the examples anew into batches of 32; the one here keeps the client's batches, and the check below fails without it. The
labels of each batch are told, in order. Two results: the iterate of least loss, which an attacker can choose, and the
one that LeakPro returns, which it chooses by the likeness to the real images.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inversion_job import Job, load, report
from leakpro.attacks.gia_attacks.invertinggradients import InvertingConfig, InvertingGradients
from leakpro.fl_utils.data_utils import CustomTensorDataset, GiaImageExtension
from leakpro.fl_utils.gia_optimizers import MetaSGD
from leakpro.utils.logger import logger
from torch.utils.data import DataLoader


class InOrder(GiaImageExtension):
    """Loaders with the client's batches, in its order."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def get_at_data(self, client_loader: DataLoader[Any]) -> tuple[object, ...]:
        """The client's data, and noise of the same shape."""
        examples: Any = client_loader.dataset
        real = torch.stack([image.clone() for image, _ in examples])
        labels = [label for _, label in examples]
        noise = torch.randn(real.shape)
        loader = DataLoader(CustomTensorDataset(noise, labels), batch_size=self.batch, shuffle=False)
        return client_loader, real, noise, labels, loader


def main(job: Job, output: Path, iterations: int, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    logger.setLevel(logging.ERROR)
    data = CustomTensorDataset(job.images.clone(), list(job.labels))
    loader = DataLoader(data, batch_size=job.batch, shuffle=False)
    config = InvertingConfig(
        at_iterations=iterations, optimizer=MetaSGD(lr=job.lr), epochs=job.epochs, data_extension=InOrder(job.batch)
    )
    mean, std = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    attack = InvertingGradients(job.module, loader, mean, std, configs=config)
    attack.prepare_attack()
    job.check(attack.client_gradient, "LeakPro")
    began = time.process_time()
    result = None
    for _, _, found in attack.run_attack():
        result = found
    assert result is not None, "LeakPro ended without a result"
    images = attack.best_reconstruction.dataset.reconstruction.detach()
    chosen = result.recreated_data.dataset.reconstruction.detach()
    np.save(output.with_suffix(".chosen.npy"), chosen.clamp(0, 1).numpy())
    report(images.clamp(0, 1), began, output)


if __name__ == "__main__":
    main(load(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))

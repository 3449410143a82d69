"""Gradient inversion by breaching: `breaching_peer.py JOB.npz IMAGES.npy ITERATIONS SEED`, in its environment.

Its attack "Inverting Gradients" with its own settings but for the number of iterations, and without total variation,
whose kernels there are for three colours. It is told the labels of each local step, in order.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from pathlib import Path

import breaching
import torch
from inversion_job import Job, load, report
from torch import nn


class Data:
    """What its data sets say of themselves."""

    modality = "vision"
    size = (60_000,)
    classes = 10
    shape = (1, 28, 28)
    normalize = False
    mean, std = (0.0,), (1.0,)


def main(job: Job, output: Path, iterations: int, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, loss = job.module.eval(), nn.CrossEntropyLoss()
    with contextlib.redirect_stdout(io.StringIO()):
        config = breaching.get_attack_config("invertinggradients")
    config.optim.max_iterations = iterations
    config.optim.callback = iterations
    config.regularization.total_variation.scale = 0.0
    setup = {"device": torch.device("cpu"), "dtype": torch.float}
    attacker = breaching.attacks.prepare_attack(model, loss, config, setup)
    local = {
        "lr": job.lr,
        "steps": len(job.batches),
        "data_per_step": min(job.batch, len(job.labels)),
        "labels": [job.labels[part] for part in job.batches],
    }
    told = {"num_data_points": len(job.labels), "labels": job.labels, "local_hyperparams": local, "data_key": "inputs"}
    update = [job.update[key] for key in job.weights]
    attacker.objective.initialize(loss, attacker.cfg.impl, local)
    made, _ = attacker.objective._grad_fn(model, job.images.clone(), job.labels)
    job.check(made, "breaching")
    payload = [{"parameters": list(model.parameters()), "buffers": list(model.buffers()), "metadata": Data}]
    shared = [{"gradients": update, "buffers": None, "metadata": told}]
    began = time.process_time()
    found, _ = attacker.reconstruct(payload, shared, {}, dryrun=False)
    report(found["data"].clamp(0, 1), began, output)


if __name__ == "__main__":
    main(load(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))

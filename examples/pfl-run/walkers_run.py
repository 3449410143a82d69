"""A simulation of pfl with twelve users. The lines with the recorder let Fedleak record it.

Run it: `python walkers_run.py --rounds 10 --record fedleak-run`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.privacy_mechanism import NormClippingOnly
from walkers_task import USERS, Net, steps

from fedleak.record.pfl import FedleakRecorder


def users() -> FederatedDataset:
    """A cohort is drawn anew in every round."""

    def load(user: str) -> Dataset:
        x, y = steps(user)
        return Dataset(raw_data=[x, y], user_id=user)

    return FederatedDataset(load, get_user_sampler("minimize_reuse", list(USERS)))


def main() -> None:
    """Train, and record what is clipped, as it leaves a device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clip", type=float, default=0.2, help="the largest L2 norm of what a user sends")
    parser.add_argument("--record", type=Path, default=Path("fedleak-run"))
    options = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  # pfl draws its cohorts from this generator

    net = Net()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    recorder = FedleakRecorder(options.record)
    clipping = NormClippingOnly(order=2, clipping_bound=options.clip)
    backend = SimulatedBackend(users(), users(), postprocessors=[clipping, recorder])
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=options.rounds, evaluation_frequency=5, train_cohort_size=6, val_cohort_size=None
        ),
        backend,
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.1, local_batch_size=10),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[recorder],
    )


if __name__ == "__main__":
    main()

"""Membership by Privacy Meter: `privacy_meter_peer.py SIGNALS.npz SCORES.npy`, with its checkout on PYTHONPATH.

Its function `run_rmia` on the probabilities that our models give: (records, models), the target first, and the same of
the population. Its second model is the target's partner, which it leaves out; no reference has seen any record.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from attacks import run_rmia


def main(signals: Path, output: Path) -> None:
    with np.load(signals, allow_pickle=False) as file:
        records, population = file["records"], file["population"]
        member, a = file["member"], float(file["a"])
    seen = np.zeros(records.shape, dtype=bool)
    seen[:, 0] = member
    began = time.process_time()
    scores = run_rmia(
        target_model_idx=0,
        all_signals=records,
        population_signals=population,
        all_memberships=seen,
        num_reference_models=records.shape[1] - 2,
        offline_a=a,
    )
    seconds = time.process_time() - began
    np.save(output, scores)
    sys.stdout.write(f'RESULT {{"cpu": {seconds}, "numpy": "{np.__version__}"}}\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""hospitals: the ServerApp."""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedleak.record.flower import record
from hospitals.task import HOSPITALS, Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds, with all hospitals in each."""
    torch.manual_seed(0)
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=HOSPITALS)
    strategy = record(strategy, "fedleak-run")
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )

"""hf_app: the ServerApp."""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedleak.record.flower import record
from hf_app.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    torch.manual_seed(0)
    strategy = FedAvg(fraction_evaluate=0.0)
    strategy = record(strategy, "fedleak-run")
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )

"""The same job on Flower's simulation: `flower_peer.py JOB.npz MODEL THREADS REPEAT`, in the venv of flwr.

Flower draws its own 20 of the 100 clients each round. Two clients run at a time, each on one core.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from job import (
    BATCH,
    CLIENTS,
    CLIP,
    EXAMPLES,
    LR,
    PER_ROUND,
    ROUNDS,
    Mark,
    accuracy,
    held_out,
    load,
    loss_of,
    now,
    report,
    start,
)

PATH, NAME, THREADS, REPEAT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def client() -> ClientApp:
    app = ClientApp()
    path, name, threads = PATH, NAME, THREADS  # Ray's workers get these with the function

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(threads)
        job = load(path)
        user = int(context.node_config["partition-id"])
        x, y = torch.from_numpy(job["x"][user]), torch.from_numpy(job["y"][user])
        module = start(name, job)
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(module.parameters(), lr=LR[name])
        order = torch.randperm(len(x))
        for first in range(0, len(x), BATCH):
            rows = order[first : first + BATCH]
            optimizer.zero_grad()
            loss_of(name, module, x[rows], y[rows]).backward()  # type: ignore[no-untyped-call]
            if name in CLIP:
                torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP[name])
            optimizer.step()
        content = RecordDict(
            {
                "arrays": ArrayRecord(module.state_dict()),
                "metrics": MetricRecord({"num-examples": EXAMPLES}),
            }
        )
        return Message(content=content, reply_to=message)

    return app


class Timed(FedAvg):  # type: ignore[misc]
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.marks: list[Mark] = []

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        result = super().aggregate_train(server_round, replies)
        self.marks.append(now())
        return result


def server(began: Mark) -> ServerApp:
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        job = load(PATH)
        module = start(NAME, job)
        strategy = Timed(
            fraction_train=PER_ROUND / CLIENTS,
            fraction_evaluate=0.0,
            min_train_nodes=PER_ROUND,
            min_available_nodes=CLIENTS,
        )
        result = strategy.start(grid, ArrayRecord(module.state_dict()), num_rounds=ROUNDS)
        module.load_state_dict(result.arrays.to_torch_state_dict())
        report(began, strategy.marks, accuracy(NAME, module, *held_out(job)))

    return app


if __name__ == "__main__":
    for _ in range(REPEAT):
        run_simulation(
            server_app=server(now()),
            client_app=client(),
            num_supernodes=CLIENTS,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )

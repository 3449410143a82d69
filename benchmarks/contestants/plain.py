"""A plain loop over clients, as users write it: `plain.py JOB.npz MODEL THREADS REPEAT`."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import torch
from job import BATCH, CLIP, LR, accuracy, held_out, load, loss_of, now, report, start


def main(path: str, name: str, threads: str, repeat: str) -> None:
    torch.set_num_threads(int(threads))
    job = load(Path(path))
    xs, ys = torch.from_numpy(job["x"]), torch.from_numpy(job["y"])
    for run in range(int(repeat)):
        torch.manual_seed(run)
        server = start(name, job)
        began, marks = now(), []
        for selected in job["selected"]:
            state = server.state_dict()
            total = {key: torch.zeros_like(value) for key, value in state.items()}
            for client in selected:
                local = copy.deepcopy(server)
                optimizer = torch.optim.SGD(local.parameters(), lr=LR[name])
                x, y = xs[client], ys[client]
                order = torch.randperm(len(x))
                for first in range(0, len(x), BATCH):
                    rows = order[first : first + BATCH]
                    optimizer.zero_grad()
                    loss_of(name, local, x[rows], y[rows]).backward()  # type: ignore[no-untyped-call]
                    if name in CLIP:
                        torch.nn.utils.clip_grad_norm_(local.parameters(), CLIP[name])
                    optimizer.step()
                for key, value in local.state_dict().items():
                    total[key] += (value - state[key]) / len(selected)
            server.load_state_dict({key: state[key] + total[key] for key in state})
            marks.append(now())
        report(began, marks, accuracy(name, server, *held_out(job)))


if __name__ == "__main__":
    main(*sys.argv[1:])

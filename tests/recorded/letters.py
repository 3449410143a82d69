"""A federation of phones that learn to type, recorded by the real recorder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from letters_app.data import PHONES, typed
from letters_app.task import CharNet, train
from repeatable import same_pseudonyms

from fedleak.federation.engines.embedded import one_thread
from fedleak.record.recorder import Recorder, Reply

PLAN = """
title = "phones"
[trace]
path = "run"
[truth]
owners = "key"
secrets = "letters_app.audit:secrets"
[prior]
secret = "pin {d4}"
characters = "letters_app.audit:characters"
[model]
name = "letters_app.task:CharNet"
[audit]
adversaries = ["eavesdropper"]
controls = ["decoys", "shuffled-selection", "swapped-secrets"]
"""
ATTACKS = """
[[attack]]
name = "exposure-baseline"
[[attack]]
name = "eavesdrop"
"""


def record_phones(
    folder: Path,
    *,
    net: type[CharNet] = CharNet,
    rounds: int = 120,
    present: int = 3,
    restarted: tuple[int, int] | None = None,
    **settings: Any,
) -> Path:
    """Average what the phones of each round have learnt; `restarted` is a phone with a new name after a round."""
    rng = np.random.default_rng(4)
    with same_pseudonyms(), one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model, local = net(), net()
        recorder = Recorder(folder, origin={"framework": "torch", "version": "loop", "strategy": "FedAvg"}, **settings)
        for number in range(rounds):
            start = {key: value.clone() for key, value in model.state_dict().items()}
            recorder.sent({key: value.numpy() for key, value in start.items()})
            replies, states = [], []
            for phone in rng.choice(PHONES, present, replace=False).tolist():
                local.load_state_dict(start)
                x = typed(phone)
                train(local, x)
                states.append({key: value.detach().clone() for key, value in local.state_dict().items()})
                arrays = {key: value.numpy() for key, value in states[-1].items()}
                node = f"node-{phone}"
                if restarted is not None and phone == restarted[0] and number >= restarted[1]:
                    node += "-again"
                replies.append(Reply(client=node, arrays=arrays, examples=len(x), partition=str(phone)))
            model.load_state_dict({key: torch.stack([one[key] for one in states]).mean(0) for key in start})
            recorder.received(replies, [], after={key: value.numpy() for key, value in model.state_dict().items()})
        recorder.close()
    return folder


if __name__ == "__main__":
    print(f"recorded in {record_phones(Path(sys.argv[1]))}")

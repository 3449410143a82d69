"""What each hospital runs: NVFlare's client API around an ordinary training loop."""

from __future__ import annotations

import nvflare.client as flare
import torch
from hospital_task import Net, patients, train


def main() -> None:
    """Train whenever the server sends a model."""
    torch.set_num_threads(1)
    flare.init()
    x, y = patients(flare.get_site_name())
    model = Net()
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        examples = train(model, x, y)
        weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
        flare.send(flare.FLModel(params=weights, meta={"NUM_STEPS_CURRENT_ROUND": examples}))


if __name__ == "__main__":
    main()

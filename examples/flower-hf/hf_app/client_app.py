"""hf_app: the ClientApp."""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedleak.record.flower import identify
from hf_app.task import Net, draw
from hf_app.task import train as train_net

app = ClientApp(mods=[identify])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on this client's sentences."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = (torch.from_numpy(column) for column in draw(int(context.node_config["partition-id"]), "train"))
    train_net(net, x, y)
    metrics = MetricRecord({"num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)

"""hospitals: the ClientApp."""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedleak.record.flower import identify
from hospitals.task import Net, load_data
from hospitals.task import train as train_net

app = ClientApp(mods=[identify])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on the visits of this hospital's patients."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    hospital = int(context.node_config["partition-id"])
    x, y = load_data(hospital)
    loss = train_net(
        net,
        x,
        y,
        epochs=int(context.run_config["local-epochs"]),
        batch_size=int(context.run_config["batch-size"]),
        lr=float(context.run_config["learning-rate"]),
        seed=1000 * int(message.content["config"]["server-round"]) + hospital,
    )
    metrics = MetricRecord({"train-loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)

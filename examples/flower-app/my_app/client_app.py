"""my_app: the ClientApp."""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedleak.record.flower import identify
from my_app.task import Net, load_data, test
from my_app.task import train as train_net

app = ClientApp(mods=[identify])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on this client's data."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    partition = int(context.node_config["partition-id"])
    server_round = int(message.content["config"]["server-round"])
    x, y = load_data(partition, "train")
    loss = train_net(
        net,
        x,
        y,
        epochs=int(context.run_config["local-epochs"]),
        batch_size=int(context.run_config["batch-size"]),
        lr=float(context.run_config["learning-rate"]),
        seed=1000 * server_round + partition,
    )
    content = RecordDict(
        {
            "arrays": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"train-loss": loss, "num-examples": len(x)}),
        }
    )
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test the model on other data of the same user."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = load_data(int(context.node_config["partition-id"]), "test")
    loss, accuracy = test(net, x, y)
    metrics = MetricRecord({"eval-loss": loss, "eval-acc": accuracy, "num-examples": len(x)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)

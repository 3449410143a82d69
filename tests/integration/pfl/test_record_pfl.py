"""Simulations of pfl are recorded as they were, and trained as if nobody recorded them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from framework_runs import assert_closed, assert_private, assert_still_open, audit, flat, updates_by_name
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.privacy_mechanism import NormClippingOnly
from training_accidents import FillTheDisk, KillAfter

from fedleak.record.key import read_key
from fedleak.record.pfl import FedleakRecorder
from fedleak.record.state import RecorderState
from fedleak.trace.reader import Trace

EXAMPLE = Path(__file__).parents[3] / "examples" / "pfl-run"
sys.path.insert(0, str(EXAMPLE))

from walkers_task import USERS, Net, steps  # noqa: E402

CLIP = 0.2


class Spy(FedleakRecorder):
    """Keeps what each user sends, beside the recorder: a copy made before the recorder is told."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.seen: list[dict[str, dict[str, Any]]] = []

    def on_train_begin(self, *, model: Any) -> Any:
        self.seen.append({})
        return super().on_train_begin(model=model)

    def postprocess_one_user(self, *, stats: Any, user_context: Any) -> tuple[Any, Any]:
        values = {name: np.array(value.tolist(), dtype=np.float32) for name, value in stats.items()}
        self.seen[-1][user_context.user_id] = flat(values)
        return super().postprocess_one_user(stats=stats, user_context=user_context)

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        self.seen.append({})
        return super().after_central_iteration(aggregate_metrics, model, central_iteration=central_iteration)


def simulate(
    postprocessors: Sequence[Any], callbacks: Sequence[Any], rounds: int = 3, *, named: bool = True, seed: int = 0
) -> dict[str, Any]:
    """Train the example's model; returns its final weights."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002

    def load(user: str) -> Dataset:
        return Dataset(raw_data=list(steps(user)), user_id=user if named else None)

    def users() -> FederatedDataset:
        return FederatedDataset(load, get_user_sampler("minimize_reuse", list(USERS)))

    net = Net()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds, evaluation_frequency=2, train_cohort_size=4, val_cohort_size=2
        ),
        SimulatedBackend(users(), users(), postprocessors=list(postprocessors)),
        PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.1, local_batch_size=10),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=list(callbacks),
    )
    return {name: value.detach().numpy().copy() for name, value in net.named_parameters()}


def locally_trained(weights: Mapping[str, Any], user: str) -> dict[str, Any]:
    """What a user's training changes of a snapshot, computed with torch alone."""
    net = Net()
    shapes = {name: value.shape for name, value in net.named_parameters()}
    for layer, vector in weights.items():
        done = 0
        for name in (name for name in shapes if name.startswith(f"{layer}.")):
            size = shapes[name].numel()
            net.get_parameter(name).data = torch.from_numpy(vector[done : done + size].copy()).reshape(shapes[name])
            done += size
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    x, y = (torch.from_numpy(values) for values in steps(user))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for start in range(0, len(x), 10):
        optimiser.zero_grad()
        net.loss(x[start : start + 10], y[start : start + 10]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return flat({name: (value.detach() - before[name]).numpy() for name, value in net.named_parameters()})


def norm(update: dict[str, Any]) -> float:
    return float(np.sqrt(sum(float(values @ values) for values in update.values())))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, run as its README says."""
    folder = tmp_path_factory.mktemp("pfl") / "fedleak-run"
    subprocess.run(
        [sys.executable, str(EXAMPLE / "walkers_run.py"), "--rounds", "10", "--record", str(folder)],
        check=True,
        capture_output=True,
        timeout=600,
    )
    return folder


def test_the_example_records_what_each_user_sent_after_clipping(example: Path) -> None:
    trace = Trace.open(example / "trace")
    clipped = 0
    for number in range(1, 11):
        sent = updates_by_name(example, number)
        assert len(sent) == 6
        for user, update in sent.items():
            raw = locally_trained(trace.snapshot(number - 1), user)
            scale = min(1.0, CLIP / norm(raw))
            clipped += scale < 1
            for layer, values in raw.items():
                np.testing.assert_allclose(update[layer], values * scale, atol=1e-6)
        mean = {layer: np.mean([update[layer] for update in sent.values()], axis=0) for layer in ("fc1", "fc2")}
        for layer, values in mean.items():
            moved = trace.snapshot(number)[layer] - trace.snapshot(number - 1)[layer]
            np.testing.assert_allclose(moved, values, atol=1e-6)
            np.testing.assert_allclose(trace.aggregate(number)[layer], values, atol=1e-6)
    assert 0 < clipped < 60, "the bound should matter for some updates"
    assert trace.header.origin == {"framework": "pfl", "version": "0.6.0"}
    assert_private(example, USERS)
    assert_closed(example, 10)


def test_the_plan_of_the_example_names_users_and_its_control_does_not(example: Path, tmp_path: Path) -> None:
    found = {
        score.control: score
        for score in audit(EXAMPLE, example, tmp_path / "example").scores
        if score.attack == "reid-knn" and score.metric == "ap"
    }
    assert found[None].low > found[None].chance
    assert found["rotated-owners"].low <= found["rotated-owners"].chance


def test_the_place_of_the_recorder_decides_whether_it_sees_raw_or_clipped_updates(tmp_path: Path) -> None:
    before, after = Spy(tmp_path / "before"), Spy(tmp_path / "after")
    simulate([before, NormClippingOnly(order=2, clipping_bound=0.05), after], [before, after])
    for number in (1, 2, 3):
        raw, clipped = updates_by_name(tmp_path / "before", number), updates_by_name(tmp_path / "after", number)
        assert raw.keys() == clipped.keys() == before.seen[number - 1].keys() and len(raw) == 4
        for user in raw:
            assert norm(raw[user]) > 0.05 and norm(clipped[user]) == pytest.approx(0.05, rel=1e-4)
            for layer in ("fc1", "fc2"):
                np.testing.assert_array_equal(raw[user][layer], before.seen[number - 1][user][layer])
                np.testing.assert_array_equal(clipped[user][layer], after.seen[number - 1][user][layer])


def test_weighted_statistics_are_recorded_as_updates_with_their_number_of_examples(tmp_path: Path) -> None:
    recorder = FedleakRecorder(tmp_path / "run")
    simulate([WeightByDatapoints(), recorder], [recorder])
    trace = Trace.open(tmp_path / "run" / "trace")
    node = {known.client: known.node for known in read_key(tmp_path / "run" / "key")}
    for index, size in zip(trace.client, trace.size, strict=True):
        assert size == len(steps(node[trace.header.clients[index]])[0])
    for number in (1, 2, 3):
        for user, update in updates_by_name(tmp_path / "run", number).items():
            raw = locally_trained(trace.snapshot(number - 1), user)
            for layer, values in raw.items():
                np.testing.assert_allclose(update[layer], values, atol=1e-6)
        for layer in ("fc1", "fc2"):
            moved = trace.snapshot(number)[layer] - trace.snapshot(number - 1)[layer]
            np.testing.assert_allclose(trace.aggregate(number)[layer], moved, atol=1e-6)


def test_a_second_start_appends_and_clients_keep_their_pseudonyms(tmp_path: Path) -> None:
    first = FedleakRecorder(tmp_path / "run")
    simulate([first], [first], rounds=2)
    key = {known.node: known.client for known in read_key(tmp_path / "run" / "key")}
    last = Trace.open(tmp_path / "run" / "trace").snapshot(2)
    second = Spy(tmp_path / "run")
    simulate([second], [second], rounds=2, seed=1)
    trace = Trace.open(tmp_path / "run" / "trace")
    # The second start begins with another model: a round without clients leads there.
    assert_closed(tmp_path / "run", 5)
    assert updates_by_name(tmp_path / "run", 3) == {}
    assert updates_by_name(tmp_path / "run", 4).keys() == second.seen[0].keys()
    np.testing.assert_array_equal(trace.snapshot(2)["fc1"], last["fc1"])
    assert key.items() <= {known.node: known.client for known in read_key(tmp_path / "run" / "key")}.items()


def in_child(work: Callable[[], object]) -> int:
    """Run in a process of its own; returns how it ended, as `waitpid` says."""
    child = os.fork()
    if child == 0:
        # What it prints must not go to a file of pytest's, which may not grow either.
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_killed_simulation_keeps_its_finished_rounds_and_a_second_start_appends(tmp_path: Path) -> None:
    recorder = FedleakRecorder(tmp_path / "run")
    assert in_child(lambda: simulate([recorder], [recorder, KillAfter(2)])) == -signal.SIGKILL
    assert_still_open(tmp_path / "run", 2)
    before = updates_by_name(tmp_path / "run", 2)
    again = FedleakRecorder(tmp_path / "run")
    simulate([again], [again], rounds=1, seed=1)
    assert_closed(tmp_path / "run", 4)
    for user, update in updates_by_name(tmp_path / "run", 2).items():
        np.testing.assert_array_equal(update["fc1"], before[user]["fc1"])


def test_a_folder_that_cannot_be_written_does_not_stop_or_change_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    plain = simulate([], [])
    recorder = FedleakRecorder(tmp_path / "file" / "run")
    with pytest.warns(UserWarning, match="Fedleak stopped recording") as caught:
        recorded = simulate([recorder], [recorder])
    assert len(caught) == 1
    for name, values in plain.items():
        np.testing.assert_array_equal(recorded[name], values)


def test_a_disk_that_fills_up_ends_the_recording_and_not_the_training(tmp_path: Path) -> None:
    recorder = FedleakRecorder(tmp_path / "run")
    plain = simulate([], [], rounds=4)

    def train() -> None:
        warnings.simplefilter("ignore")
        trained = simulate([recorder], [recorder, FillTheDisk(2)], rounds=4)
        assert all(np.array_equal(trained[name], values) for name, values in plain.items())

    assert in_child(train) == 0
    state = RecorderState.load(tmp_path / "run")
    assert state.state == "partial" and state.rounds == 2 and "no room for round 3" in state.reason
    Trace.open(tmp_path / "run" / "trace").verify()


def test_users_without_an_id_cannot_be_linked_across_rounds(tmp_path: Path) -> None:
    recorder = FedleakRecorder(tmp_path / "run")
    simulate([recorder], [recorder], named=False)
    client = Trace.open(tmp_path / "run" / "trace").client
    assert len(client) == 12 and len(set(client.tolist())) == 12


def test_a_recorder_that_is_no_callback_says_so_once(tmp_path: Path) -> None:
    recorder = FedleakRecorder(tmp_path / "run")
    with pytest.warns(UserWarning, match="as a callback") as caught:
        simulate([recorder], [])
    assert len(caught) == 1 and not (tmp_path / "run").exists()


def test_parameters_reach_the_recording(tmp_path: Path) -> None:
    half = FedleakRecorder(tmp_path / "half", dtype="float16", every=2, layers=["fc2"])
    sums = FedleakRecorder(tmp_path / "sums", sums=True)
    simulate([half, sums], [half, sums], rounds=4)
    trace = Trace.open(tmp_path / "half" / "trace")
    assert trace.updates("fc2").dtype == np.float16 and trace.header.unrecorded == ("fc1",)
    assert [len(updates_by_name(tmp_path / "half", number)) for number in (1, 2, 3, 4)] == [0, 4, 0, 4]
    assert not Trace.open(tmp_path / "sums" / "trace").header.holds_updates

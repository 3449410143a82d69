"""fedleak check-model: imprint blocks are found, ordinary models raise no alarm, hostile files give one line."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedleak import registry
from fedleak.cli.check_model import command
from fedleak.core import Capability, Task, rng_for
from fedleak.errors import DataError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded
from fedleak.federation.imprint_detector import suspicions
from fedleak.federation.model import Input, Signature
from fedleak.federation.models.imprint import Imprinted, design
from fedleak.federation.models.mlp import Mlp
from fedleak.games.traces.examples import write_examples
from fedleak.pipeline.model_check import _tensors, check_file, check_trace
from fedleak.plan.plan import FederationPlan, ImprintPlan
from fedleak.population.population import Examples

SHAPE = (1, 12, 12)


def signature_of(name: str) -> tuple[Signature, Examples]:
    architecture, rng = registry.load("model", name), rng_for(0, "check-model", name)
    task = architecture.tasks[0]
    if Input.NUMBERS in architecture.reads:
        x = rng.random((24, *SHAPE), dtype=np.float32)
        return Signature(task, SHAPE, 4), Examples(x=x, y=rng.integers(4, size=24))
    tokens = rng.integers(40, size=(24, 8))
    return Signature(task, (8,), 40), Examples(
        x=tokens, y=None if task is Task.NEXT_TOKEN else rng.integers(4, size=24)
    )


@pytest.mark.parametrize("name", sorted(set(registry.names("model")) - {"own"}))
def test_ordinary_models_raise_no_alarm_before_and_after_training(name: str) -> None:
    signature, data = signature_of(name)
    model = registry.load("model", name)().build(signature)
    weights = model.init(rng_for(0, "weights"))
    assert not suspicions(_tensors(weights, model.layout))
    plan = FederationPlan(rounds=1, batch=8, lr=0.3, epochs=2)
    engine = Embedded(model, signature.task, plan, Pool.of([data], ["a"]))
    rows = engine.updates(weights, [0], lambda *path: rng_for(0, *path))
    trained = {layer: weights[layer] + values.numpy()[0] for layer, values in rows.items()}
    assert not suspicions(_tensors(trained, model.layout))


@pytest.mark.parametrize("kind", ["linear", "scaled"])
@pytest.mark.parametrize("bins", [32, 1024])
def test_an_imprint_block_is_found_in_its_layer(kind: str, bins: int) -> None:
    plan = ImprintPlan(bins=bins, kind=kind)  # type: ignore[arg-type]
    public = rng_for(0, "public").random((200, *SHAPE), dtype=np.float32) ** 2
    base = Mlp().build(Signature(Task.CLASSIFY, SHAPE, 4))
    model = Imprinted(base, SHAPE, plan, design(plan, public))
    [found] = suspicions(_tensors(model.init(rng_for(0, "weights")), model.layout))
    assert found.tensor == "imprint-bins.weight" and found.parallel > 0.9 * bins
    assert found.weighed_alike == "imprint-out.weight"


def test_bins_among_ordinary_neurons_are_found() -> None:
    rng = rng_for(0, "mixed")
    rows = rng.normal(size=(96, 30))
    rows[rng.permutation(96)[:40]] = rng.normal(size=30)
    [found] = suspicions({"fc.weight": rows, "fc.bias": rng.normal(size=96)})
    assert found.parallel == 40 and found.weighed_alike == ""


def test_copies_of_one_neuron_without_grades_raise_no_alarm() -> None:
    same = np.tile(rng_for(0, "same").normal(size=30), (64, 1))
    assert not suspicions({"fc.weight": same, "fc.bias": np.zeros(64)})
    assert not suspicions({"fc.weight": np.zeros((64, 30)), "fc.bias": np.arange(64.0)})


def safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    header, raw = {}, b""
    for name, values in tensors.items():
        part = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(raw), len(raw) + len(part)]}
        raw += part
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + raw


def test_weights_are_read_from_safetensors_and_numpy_archives(tmp_path: Path) -> None:
    plan = ImprintPlan(bins=64)
    model = Imprinted(
        Mlp().build(Signature(Task.CLASSIFY, SHAPE, 4)), SHAPE, plan, design(plan, rng_for(0).random((50, *SHAPE)))
    )
    tensors = _tensors(model.init(rng_for(0, "weights")), model.layout)
    (tmp_path / "model.safetensors").write_bytes(safetensors(tensors))
    np.savez(tmp_path / "model.npz", **tensors)  # type: ignore[arg-type]
    for name in ("model.safetensors", "model.npz"):
        [found] = check_file(tmp_path / name)
        assert found.tensors == len(tensors) and len(found.suspicions) == 1


HUGE = struct.pack("<Q", 1 << 60) + b"{}"
OUTSIDE = json.dumps({"a": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 1 << 40]}}).encode()
NEGATIVE = json.dumps({"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK damaged",
        HUGE,
        struct.pack("<Q", len(OUTSIDE)) + OUTSIDE,
        struct.pack("<Q", len(NEGATIVE)) + NEGATIVE + b"\0\0\0\0",
        struct.pack("<Q", 2) + b"[]",
    ],
)
def test_damaged_files_give_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError) as error:
        check_file(tmp_path / "model.safetensors")
    assert "\n" not in str(error.value)


def test_files_that_can_execute_code_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK")
    with pytest.raises(DataError, match="can execute code"):
        check_file(tmp_path / "model.pt")


def test_the_command_names_the_layer_and_exits_with_3(tmp_path: Path) -> None:
    run = write_examples(tmp_path, 0, leak=True, power=Capability.CHOOSE_MODEL)
    assert [len(one.suspicions) for one in check_trace(run)] == [1, 1]
    done = CliRunner().invoke(command, [str(run)], standalone_mode=False)
    assert done.return_value == 3
    assert "the model after round 1: 'imprint-bins.weight': 128 of 128 neurons measure the same" in done.output
    with pytest.raises(DataError, match="no such file"):
        CliRunner().invoke(command, [str(tmp_path / "none.npz")], standalone_mode=False, catch_exceptions=False)

"""Writing one round while the next one is trained."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import a_round, contents, header, params, record

from fedleak.errors import TrainingError
from fedleak.federation.federation import Round
from fedleak.trace.reader import Trace
from fedleak.trace.recording import record as record_behind
from fedleak.trace.writer import TraceWriter


@pytest.fixture(autouse=True, params=[0, 1 << 40], ids=["behind", "at once"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Take every round for a large one, or none."""
    monkeypatch.setattr("fedleak.trace.recording._LARGE", request.param)
    return int(request.param)


def begun(folder: Path) -> TraceWriter:
    head = header(rounds=6)
    writer = TraceWriter.open(folder, head)
    writer.start(params(head.layout, (), "weights", 0))
    return writer


def test_the_bytes_are_those_of_one_after_another(tmp_path: Path) -> None:
    writer = begun(tmp_path / "behind")
    yielded = [done.number for done in record_behind(writer, (a_round(writer.header, n) for n in range(1, 7)))]
    assert yielded == [1, 2, 3, 4, 5, 6]
    record(tmp_path / "straight", writer.header)
    assert contents(tmp_path / "behind") == contents(tmp_path / "straight")


def test_a_round_is_yielded_only_when_it_is_on_disk(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    for done in record_behind(writer, (a_round(writer.header, n) for n in range(1, 7))):
        assert Trace.open(tmp_path).rounds >= done.number


def test_what_was_trained_before_a_failure_is_kept(tmp_path: Path) -> None:
    writer = begun(tmp_path)

    def failing() -> Iterator[Round]:
        yield from (a_round(writer.header, n) for n in range(1, 4))
        raise TrainingError("NaN")

    with pytest.raises(TrainingError):
        list(record_behind(writer, failing()))
    assert Trace.open(tmp_path).rounds == 3


def test_a_round_that_cannot_be_written_stops_the_run(tmp_path: Path, large: int) -> None:
    writer = begun(tmp_path)
    asked: list[int] = []

    def rounds() -> Iterator[Round]:
        for number in (1, 3, 4, 5):  # the third cannot follow the first
            asked.append(number)
            yield a_round(writer.header, number)

    with pytest.raises(ValueError, match="round 3 cannot follow round 1"):
        list(record_behind(writer, rounds()))
    assert asked == ([1, 3] if large else [1, 3, 4])  # behind, one more is trained before the error is seen
    assert Trace.open(tmp_path).rounds == 1

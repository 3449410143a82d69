"""Progress without a terminal: a log shows how far a stage is and how long it will take."""

import subprocess
import sys
import threading

from fedleak.cli.progress import Lines


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_tells_the_share_and_the_time_left() -> None:
    clock = Clock()
    said: list[str] = []
    lines = Lines(said.append, clock=clock)
    lines.stage("Training 7 federations", 700)
    clock.now += 30
    lines.tick(175)
    assert said == ["Training 7 federations ..."]
    assert lines.line() == "Training 7 federations: 25% after 30 s, about 1.5 min left"


def test_before_anything_is_done_the_time_left_is_not_invented() -> None:
    clock = Clock()
    lines = Lines(lambda text: None, clock=clock)
    lines.stage("Running 3 attacks", 3)
    clock.now += 45
    assert lines.line() == "Running 3 attacks: 0% after 45 s, time left not known yet"


def test_a_stage_begins_from_nothing() -> None:
    clock = Clock()
    lines = Lines(lambda text: None, clock=clock)
    lines.stage("Training", 10)
    lines.tick(10)
    clock.now += 500
    lines.stage("Scoring", 4)
    clock.now += 10
    lines.tick(1)
    assert lines.line() == "Scoring: 25% after 10 s, about 30 s left"


def test_lines_come_by_the_clock_and_stop_with_the_work() -> None:
    said: list[str] = []
    twice = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) > 2:
            twice.set()

    with Lines(say, every=0.01) as lines:
        lines.stage("Training", 10)  # no round is ever finished
        assert twice.wait(30)
    assert all(line.startswith("Training: 0% after") for line in said[1:])
    count = len(said)
    assert not any(thread is lines._thread for thread in threading.enumerate())
    assert len(said) == count


def test_a_stage_without_work_is_silent() -> None:
    said: list[str] = []
    with Lines(said.append, every=0.001) as lines:
        lines.stage("Training 0 federations", 0)
        threading.Event().wait(0.05)
    assert said == ["Training 0 federations ..."]


def test_a_pipe_gets_lines_and_no_bar() -> None:
    code = "from fedleak.cli.progress import bar\nwith bar() as p:\n    p.stage('Training [x]', 2); p.tick(2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "Training [x] ...\n" and done.stdout == ""

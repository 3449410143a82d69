"""Progress on standard error, so that results can be piped: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from fedleak.core import duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar", "Lines", "Shown", "bar"]

_EVERY = 30.0  # seconds between two lines in a log


class Shown(Protocol):
    """Shows each stage and the progress within it."""

    def stage(self, text: str, units: float) -> None:
        """Begin a stage."""
        ...

    def tick(self, units: float) -> None:
        """Advance within it."""
        ...


class Bar:
    """A bar for every stage, with the time left."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task: TaskID | None = None

    def stage(self, text: str, units: float) -> None:
        """Begin a stage."""
        if self.task is not None:
            self.progress.update(self.task, completed=self.progress.tasks[-1].total)
        self.task = self.progress.add_task(text, total=max(units, 1e-9))
        if units == 0:
            self.progress.update(self.task, completed=1e-9)

    def tick(self, units: float) -> None:
        """Advance the bar."""
        assert self.task is not None
        self.progress.advance(self.task, units)


class Lines:
    """A line at the beginning of every stage, and then one every 30 seconds, whether or not anything was finished."""

    def __init__(
        self,
        say: Callable[[str], None],
        every: float = _EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._every, self._clock = say, every, clock
        self._text, self._units, self._done, self._since = "", 0.0, 0.0, clock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def stage(self, text: str, units: float) -> None:
        """Begin a stage."""
        self._text, self._units, self._done, self._since = text, units, 0.0, self._clock()
        self._say(f"{text} ...")

    def tick(self, units: float) -> None:
        """Note what was done; the next line says it."""
        self._done += units

    def line(self) -> str:
        """How far the stage is, and how long it will take at this speed."""
        share = min(1.0, self._done / self._units) if self._units > 0 else 0.0
        spent = self._clock() - self._since
        left = f"about {duration(spent * (1 - share) / share)} left" if share > 0 else "time left not known yet"
        return f"{self._text}: {share:.0%} after {duration(spent)}, {left}"

    def _repeat(self) -> None:
        # By the clock and not by ticks: one round, or one attack, may take minutes.
        while not self._over.wait(self._every):
            if self._units > self._done:
                self._say(self.line())

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def bar() -> Iterator[Shown]:
    """Show the progress of every stage, as standard error allows."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    errors = Console(stderr=True, highlight=False)
    if not errors.is_terminal:
        with Lines(lambda text: errors.print(text, markup=False, soft_wrap=True)) as lines:
            yield lines
        return
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=errors) as progress:
        yield Bar(progress)

"""Progress display of a run on stderr: a progress bar on a terminal, occasional lines elsewhere."""

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from coupling.errors import printable_lines
from coupling.meanwhile import meanwhile
from coupling.signals import leave_closed_terminal

__all__ = ["ConsoleScreen", "Screen", "progress_bar", "reporting_if_slow", "reporting_stalls"]

_LINE_EVERY = 10.0  # seconds, without a terminal
_LINE = 200  # characters of numbers, without a terminal
# bar, slash, time left, "left" and the gaps between the columns
_BAR_AND_COUNTS = 10 + 1 + 7 + 4 + 4


@contextlib.contextmanager
def _on_a_terminal_that_may_close() -> Iterator[None]:
    """Ignore errors of writing to a terminal that was closed, which a run may outlive."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        leave_closed_terminal()


class Screen(Protocol):
    """Interface through which a run shows its progress."""

    def say(self, text: str) -> None:
        """Show a permanent line."""

    def progress(self, status: dict[str, Any]) -> None:
        """Replace the last status shown by the current one."""

    def evaluating(self, name: str, over: int, episodes: int, actions: int) -> None:
        """Show the progress of the evaluation of a controller, in place of what was shown last."""


class ConsoleScreen:
    """Display of a run's status on stderr. Use it as a context manager."""

    def __init__(self) -> None:
        self._console = Console(
            stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False
        )
        self._bar = Progress(
            BarColumn(bar_width=10, table_column=Column(no_wrap=True, min_width=10)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("left", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
            console=self._console,
            speed_estimate_period=120,
        )
        self._task = self._bar.add_task("training", total=None, numbers="", visible=False)
        self._next_line = 0.0
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> "ConsoleScreen":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            with _on_a_terminal_that_may_close():
                self._bar.stop()

    def say(self, text: str) -> None:
        """Print a permanent line."""
        with _on_a_terminal_that_may_close():
            self._console.print(printable_lines(text))

    def progress(self, status: dict[str, Any]) -> None:
        """Show the current status: a bar or, without a terminal, a line every ten seconds."""
        done, total = status["environment_steps"], status["steps_planned"]
        self._first = self._first or (time.monotonic(), done)
        if self._console.is_terminal:
            self._show(done, total, lambda room: _numbers(status, room))
        elif self._line_is_due():
            self.say(
                f"{done}/{total} steps, {self._left(done, total)} left, {_numbers(status, _LINE)}"
            )

    def evaluating(self, name: str, over: int, episodes: int, actions: int) -> None:
        """Show how many episodes of an evaluation are over, and how many actions the others have taken."""
        numbers = f"{name}: action {actions}"
        if self._console.is_terminal:
            self._show(over, episodes, lambda room: numbers[:room])
        elif self._line_is_due():
            self.say(f"{over}/{episodes} episodes, {numbers}")

    def _show(self, done: int, total: int, numbers: Callable[[int], str]) -> None:
        room = self._console.width - _BAR_AND_COUNTS - 2 * len(str(total))
        with _on_a_terminal_that_may_close():
            self._bar.update(
                self._task,
                completed=done,
                total=total,
                numbers=numbers(room).ljust(room),
                visible=True,
                refresh=True,
            )

    def _line_is_due(self) -> bool:
        due = time.monotonic() >= self._next_line
        if due:
            self._next_line = time.monotonic() + _LINE_EVERY
        return due

    def _left(self, done: int, total: int) -> str:
        assert self._first is not None
        since, begun = self._first
        if done == begun:
            return "?"
        seconds = int((total - done) * (time.monotonic() - since) / (done - begun))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show the progress of a job and the time left; yields a function to call with the fraction done, 0 to 1."""
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda done: bar.update(task, completed=done)


@contextlib.contextmanager
def reporting_if_slow(
    what: str, say: Callable[[str], None], every: float = 5.0, first: float = 1.0
) -> Iterator[None]:
    """Report ``what`` is being done if it takes longer than ``first`` seconds, and repeat it with the elapsed time."""

    def tell(over: threading.Event) -> None:
        began, wait = time.monotonic(), first
        while not over.wait(wait):
            passed = time.monotonic() - began
            say(what if passed < every else f"{what}: {passed:.0f} s")
            wait = every

    with meanwhile(tell):
        yield


@contextlib.contextmanager
def reporting_stalls(
    what: str, say: Callable[[str], None], every: float = 10.0
) -> Iterator[Callable[[], None]]:
    """Report repeatedly that something has not happened for ``every`` seconds; yields a function to call if it does."""
    last = time.monotonic()

    def happened() -> None:
        nonlocal last
        last = time.monotonic()

    def tell(over: threading.Event) -> None:
        said = 0.0
        while not over.wait(1.0):
            quiet = time.monotonic() - last
            said = min(said, quiet)
            if quiet - said >= every:
                say(f"{what} for {quiet:.0f} s")
                said = quiet

    with meanwhile(tell):
        yield happened


def _short(steps: int) -> str:
    """Return a number of steps in about four characters."""
    return f"{steps}" if steps < 1000 else f"{steps / 1000:.{1 if steps < 9950 else 0}f}k"


def _numbers(status: dict[str, Any], room: int) -> str:
    """Return as many numbers as there is room for, the most important first: absent workers, return, length, rates.

    The return is that of the latest episodes (``coupling/run/recent.py``), with the steps since the first of them
    ended.
    """
    parts = [
        f"{status['steps_per_second']:.0f} steps/s",
        f"{status['updates_per_second']:.0f} updates/s",
    ]
    if status["mean_return"] is not None:
        parts = [
            f"return {status['mean_return']:.4g} (last {_short(status['recent_age_steps'])})",
            f"length {status['mean_length']:.4g}",
            *parts,
        ]
    absent = status["absent"] if status["state"] == "training" else []
    if absent:
        who = f"worker {absent[0]}" if len(absent) == 1 else f"{len(absent)} workers"
        parts.insert(0, f"waiting for {who}")
    text = ""
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if len(longer) > room:
            break
        text = longer
    return text

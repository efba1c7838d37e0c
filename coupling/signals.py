"""Signals that ask a process to end, their handlers, and output streams without a reader, such as a closed terminal."""

import contextlib
import os
import select
import signal
import stat
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

__all__ = [
    "ENDING",
    "Interrupted",
    "Signals",
    "deaf_streams",
    "discard",
    "interrupting",
    "interruption_behind",
    "leave_closed_terminal",
    "number_of",
]

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Signals besides Ctrl-C that ask a process to end: SIGTERM from a scheduler or a person, SIGHUP from a closed
terminal, and SIGUSR1, which SLURM sends before a job's time limit if asked to (``--signal=B:USR1@120``)."""


class Interrupted(KeyboardInterrupt):
    """Raised when the command is asked to end.

    Parameters
    ----------
    text
        What was reached and how to continue; may be empty.
    number
        Number of the signal.
    """

    def __init__(self, text: str = "", number: int = signal.SIGINT) -> None:
        super().__init__(*filter(None, [text]))
        self.number = number


def number_of(interruption: KeyboardInterrupt) -> int:
    """Return the number of the signal behind a KeyboardInterrupt, SIGINT if it has none."""
    return getattr(interruption, "number", signal.SIGINT)


def interruption_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that caused an error, or None.

    A signal during the import of a compiled module surfaces as an ImportError.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Raise :class:`Interrupted` at the first signal of :data:`ENDING`, and ignore further ones.

    When a terminal is closed, the shell and the kernel both send SIGHUP. A signal that this process was started to
    ignore, as ``nohup`` does with SIGHUP, stays ignored.
    """
    came = False
    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        leave_closed_terminal()
        raise Interrupted(number=number)

    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items() if not came else ():
            signal.signal(number, handler)


class Signals:
    """Handler of Ctrl-C and :data:`ENDING`, which raises :class:`Interrupted` or notes the signal.

    Attributes
    ----------
    noted
        The first signal received, 0 before.
    """

    def __init__(self) -> None:
        self.noted = 0
        self._deferring = False

    def __enter__(self) -> "Signals":
        heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {
            number: signal.signal(number, self._handle) for number in (signal.SIGINT, *heard)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            is_over = self.noted and number != signal.SIGINT
            signal.signal(number, signal.SIG_IGN if is_over else handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note the first signal in :attr:`noted`; a second Ctrl-C interrupts."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        leave_closed_terminal()
        is_first, self.noted = not self.noted, self.noted or number
        # other signals may repeat while the run is ending: a closed terminal sends SIGHUP twice
        if not (is_first and self._deferring) and (is_first or number == signal.SIGINT):
            raise Interrupted(number=number)


def deaf_streams() -> list[TextIO]:
    """Return which of stdout and stderr are pipes without a reader or a closed terminal."""
    deaf = []
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):  # no such stream, or not a file
            poll = select.poll()
            poll.register(stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                deaf.append(stream)
    return deaf


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def leave_closed_terminal() -> None:
    """Redirect output to the null device if its terminal is closed, where each write would fail."""
    for stream in deaf_streams():
        if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode):  # not a pipe
            discard(stream)

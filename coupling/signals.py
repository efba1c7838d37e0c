"""Signals that ask a process to end, and output streams whose reader is gone, a closed terminal for example."""

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
    "deaf_streams",
    "discard",
    "interrupting",
    "interruption_behind",
    "leave_closed_terminal",
    "number_of",
]

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""What asks a process to end besides Ctrl-C: a scheduler or a person, a terminal that is closed, and the warning that
SLURM sends before a job's time limit when it is asked to (``--signal=B:USR1@120``)."""


class Interrupted(KeyboardInterrupt):
    """The command was asked to end.

    Parameters
    ----------
    text
        What was reached and how to go on; may be empty.
    number
        Of the signal.
    """

    def __init__(self, text: str = "", number: int = signal.SIGINT) -> None:
        super().__init__(*filter(None, [text]))
        self.number = number


def number_of(interruption: KeyboardInterrupt) -> int:
    """Return the signal behind a KeyboardInterrupt: SIGINT unless it says otherwise."""
    return getattr(interruption, "number", signal.SIGINT)


def interruption_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that an error came from, or None.

    A signal in the middle of the import of a compiled module comes out of it as an ImportError.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Let the first signal of :data:`ENDING` raise :class:`Interrupted`, and ignore further ones: it is ending then.

    A closed terminal sends SIGHUP twice, by the shell and by the kernel. A signal that this process was started to
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


def deaf_streams() -> list[TextIO]:
    """Return which of stdout and stderr are pipes that nobody reads any more, or a terminal that was closed."""
    deaf = []
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):  # there is none, or it is no file
            poll = select.poll()
            poll.register(stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                deaf.append(stream)
    return deaf


def discard(stream: TextIO) -> None:
    """Let what is still to be written to a stream go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def leave_closed_terminal() -> None:
    """Let output that was for a terminal go nowhere once it is closed; there, each write would be an error."""
    for stream in deaf_streams():
        if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode):  # a pipe is another matter
            discard(stream)

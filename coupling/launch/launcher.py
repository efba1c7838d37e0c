"""Common parts of the launchers: the interface, restarts after deaths, and worker processes."""

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from coupling.errors import RunError
from coupling.files import private_opener
from coupling.launch.failure_window import Alike, FailureWindow
from coupling.worker.parent import PARENT_VARIABLE
from coupling.worker.process import HOPELESS
from rl_agent.runtime.user_cache import settle

__all__ = [
    "Death",
    "Launcher",
    "Mending",
    "MendingLauncher",
    "Place",
    "describe_exit",
    "last_stderr_lines",
    "size_of",
    "start_worker",
    "worker_command",
    "worker_environment",
]

_QUOTED_LINES = 12
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Death:
    """How a worker ended.

    Attributes
    ----------
    slot
        Number of the worker.
    reason
        Exit code or signal, or why it was killed.
    quotation
        The last lines of its stderr; None if they are not available.
    """

    slot: int
    reason: str
    quotation: str | None

    def __str__(self) -> str:
        said = (
            f"; the last lines of its stderr:\n{self.quotation}"
            if self.quotation
            else ", with no output on stderr"
        )
        return f"worker {self.slot} died ({self.reason}){'' if self.quotation is None else said}"

    @property
    def hopeless(self) -> str:
        """The end of the last line of stderr, if it says that the environments cannot be reset; else empty."""
        last = (self.quotation or "").rpartition("\n")[2]
        return last[last.index(HOPELESS) :] if HOPELESS in last else ""


class Launcher(Protocol):
    """Interface for starting the workers of a run, noticing deaths, restarting within limits, and ending them.

    No method blocks, except :meth:`start` for an engine's answer and :meth:`stop` for a bounded time.

    Attributes
    ----------
    restarts
        Number of restarts so far.
    """

    restarts: int

    def start(self) -> None:
        """Start every worker, or take over those left by an earlier process of the run."""

    def supervise(self) -> list[Death]:
        """Return the deaths since the last call, and restart the workers whose delay is over.

        Raises
        ------
        RunError
            If a worker died more often than allowed.
        """

    def running_for(self, slot: int) -> float:
        """Return the seconds since the worker was started; 0 if it is not running or the time is unknown."""

    def kill(self, slot: int, reason: str) -> None:
        """Kill a worker that hangs; :meth:`supervise` returns its death."""

    def waits_for(self) -> str:
        """Return in a sentence what workers that are not running yet wait for; empty if none waits."""

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, kill those that do not, and leave nothing behind."""


class Mending:
    """Counts the deaths of each worker and determines when it may be restarted.

    Parameters
    ----------
    workers
        Number of workers.
    allowed
        Number of deaths of one worker within ten minutes after which it is still restarted.
    """

    def __init__(self, workers: int, allowed: int) -> None:
        self._deaths = [FailureWindow(allowed) for _ in range(workers)]
        self._hopeless = [Alike() for _ in range(workers)]

    def restart_at(self, death: Death) -> float:
        """Count a death and return the monotonic time of the restart; the delay grows with each death.

        Raises
        ------
        RunError
            If the worker died more often than allowed, or repeatedly because its environments cannot be reset.
        """
        alike = self._hopeless[death.slot]
        if death.hopeless and alike.note(death.hopeless):
            raise RunError(
                f"worker {death.slot} ended {alike.count} times in the same way: {death.hopeless}"
            )
        now, deaths = time.monotonic(), self._deaths[death.slot]
        deaths.note(1, now)
        if deaths.exceeded:
            raise RunError(f"worker {death.slot} died {deaths}; {death}")
        return now + min(10.0, 0.1 * 2 ** (deaths.count - 1))


@dataclass
class Place:
    """State of one worker slot, across restarts.

    Attributes
    ----------
    worker
        The launcher's handle of the worker, such as a process or a job; None while there is none.
    said_before
        Length of its stderr file in bytes when it was started.
    killed_for
        Why the launcher killed it; empty if it did not.
    restart_at
        Monotonic time from which it may be restarted.
    """

    worker: Any = None
    said_before: int = 0
    killed_for: str = ""
    restart_at: float = 0.0


P = TypeVar("P", bound=Place)


class MendingLauncher(ABC, Generic[P]):
    """Base class of launchers that restart workers that have died.

    Parameters
    ----------
    places
        State of each worker, by its number.
    allowed
        Number of deaths of one worker within ten minutes after which it is still restarted.
    """

    def __init__(self, places: Sequence[P], allowed: int) -> None:
        self._places = list(places)
        self._mending = Mending(len(self._places), allowed)
        self.restarts = 0

    @abstractmethod
    def _begin(self, slots: Sequence[int]) -> None:
        """Start these workers."""

    @abstractmethod
    def _look_at(self, slot: int, place: P) -> Death | None:
        """Return the death of a worker that was started, or None if it has not died."""

    def supervise(self) -> list[Death]:
        """Collect the workers that have died and restart those whose delay is over.

        Returns
        -------
        list of Death
            The deaths since the last call.

        Raises
        ------
        RunError
            If a worker died more often than allowed, or cannot be started.
        """
        now, deaths, due = time.monotonic(), list[Death](), list[int]()
        for slot, place in enumerate(self._places):
            if place.worker is None:
                due += [slot] if now >= place.restart_at else []
            elif (death := self._look_at(slot, place)) is not None:
                deaths.append(death)
        self.restarts += len(due)
        self._begin(due)
        return deaths

    def _bury(self, slot: int, how: str, words: str | None) -> Death:
        """Record a death and schedule the restart of the worker."""
        place = self._places[slot]
        death = Death(slot, place.killed_for or how, words)
        place.worker = None
        place.restart_at = self._mending.restart_at(death)
        return death

    def _close(self) -> None:
        """Empty all places permanently."""
        for place in self._places:
            place.worker, place.restart_at = None, float("inf")


def worker_command(
    connection: Path, slot: int, environments: int, outbox: Path | None
) -> list[str]:
    """Return the command of a worker. It contains the name of the file with the keys, but no key."""
    # -P: so that a folder named flowsim in the current folder, such as that of a clone, does not shadow the package
    command = [sys.executable, "-P", "-m", "coupling.worker", "--connect", str(connection)]
    command += ["--slot", str(slot), "--environments", str(environments)]
    return command if outbox is None else [*command, "--outbox", str(outbox)]


def worker_environment(threads: int, devices: Sequence[int] = (), slot: int = 0) -> dict[str, str]:
    """Return the environment variables of a worker, which ends with its parent process and sees one GPU."""
    settle()  # an unusable cache is reported here, once, and the workers share its replacement
    variables = (
        os.environ
        | dict.fromkeys(_THREAD_VARIABLES, str(threads))
        | {PARENT_VARIABLE: str(os.getpid())}
    )
    return variables | (
        {"CUDA_VISIBLE_DEVICES": str(devices[slot % len(devices)])} if devices else {}
    )


def start_worker(
    command: Sequence[str], environment: dict[str, str], words: Path, *, session: bool = True
) -> subprocess.Popen[bytes]:
    """Start a worker process whose stdout and stderr are appended to a file.

    Parameters
    ----------
    command, environment
        From ``worker_command`` and ``worker_environment``.
    words
        The file, which other users cannot read.
    session
        Whether the process gets its own session, so that signals to the group of this process, such as a Ctrl-C at
        the terminal, do not reach it.
    """
    with open(words, "ab", opener=private_opener) as end:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=end,
            start_new_session=session,
        )


def size_of(words: Path) -> int:
    """Return the size of a stderr file in bytes, 0 if it does not exist."""
    return words.stat().st_size if words.exists() else 0


def describe_exit(code: int) -> str:
    """Describe how a process ended, from :attr:`subprocess.Popen.returncode`."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_stderr_lines(stderr: Path, since: int = 0) -> str:
    """Return the last lines of a worker's stderr, marked as a quotation.

    Parameters
    ----------
    stderr
        The file; it need not exist.
    since
        Offset in bytes at which the output of the current process begins.
    """
    if not stderr.exists():
        return ""
    with stderr.open("rb") as file:
        file.seek(max(since, stderr.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in lines[-_QUOTED_LINES:])

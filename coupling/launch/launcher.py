"""What launchers have in common: the interface, deaths and how many are mended, and the process of a worker."""

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
    "last_words",
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
        The last lines of its stderr; None when they cannot be had.
    """

    slot: int
    reason: str
    quotation: str | None

    def __str__(self) -> str:
        said = (
            f"; its last words:\n{self.quotation}"
            if self.quotation
            else ", without a word on stderr"
        )
        return f"worker {self.slot} died ({self.reason}){'' if self.quotation is None else said}"

    @property
    def hopeless(self) -> str:
        """Why the worker's environments cannot be had, if that was its last word; else empty."""
        last = (self.quotation or "").rpartition("\n")[2]
        return last[last.index(HOPELESS) :] if HOPELESS in last else ""


class Launcher(Protocol):
    """Who starts the workers of a run, notices when they die, starts them again within bounds, and ends them.

    Nothing here waits, but :meth:`start` for an engine's answer and :meth:`stop` for a bounded time.

    Attributes
    ----------
    restarts
        How often a worker was started again.
    """

    restarts: int

    def start(self) -> None:
        """Start every worker, or take over those that a run before this one has left."""

    def supervise(self) -> list[Death]:
        """Collect the workers that have died since the last call, and start those again whose pause is over.

        Raises
        ------
        RunError
            When a worker died more often than is mended.
        """

    def running_for(self, slot: int) -> float:
        """Return the seconds since the worker was started; 0 when it is not running, or when nobody can know."""

    def kill(self, slot: int, reason: str) -> None:
        """End a worker that hangs; its death is collected by :meth:`supervise`."""

    def waits_for(self) -> str:
        """Return what workers that have no place yet wait for, in a sentence; empty when none does."""

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, and kill those that do not; nothing is left behind."""


class Mending:
    """Counts the deaths of each worker, and says when it may be started again.

    Parameters
    ----------
    workers
        How many there are.
    allowed
        How many deaths of one worker within ten minutes are mended.
    """

    def __init__(self, workers: int, allowed: int) -> None:
        self._deaths = [FailureWindow(allowed) for _ in range(workers)]
        self._hopeless = [Alike() for _ in range(workers)]

    def restart_at(self, death: Death) -> float:
        """Count a death and return the monotonic time of the restart, later after each one.

        Raises
        ------
        RunError
            When the worker died more often than is mended, or again and again because its environments cannot be had.
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
    """One worker's place, through all its incarnations.

    Attributes
    ----------
    worker
        What the launcher has of it, such as a process or a job; None while there is none.
    said_before
        Length of the file of its stderr when it began.
    killed_for
        Why its launcher ended it.
    restart_at
        Monotonic time from which it may be started again.
    """

    worker: Any = None
    said_before: int = 0
    killed_for: str = ""
    restart_at: float = 0.0


P = TypeVar("P", bound=Place)


class MendingLauncher(ABC, Generic[P]):
    """A launcher that looks after its workers, and starts those again that have died.

    Parameters
    ----------
    places
        Of the workers, by their numbers.
    allowed
        How many deaths of one worker within ten minutes are mended.
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
        """Return the death of a worker that was started, if that is what has become of it."""

    def supervise(self) -> list[Death]:
        """Collect the workers that have died and start those again whose pause is over.

        Returns
        -------
        list of Death
            The deaths since the last call.

        Raises
        ------
        RunError
            When a worker died more often than is mended, or cannot be started.
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
        """Take note of a death; the place is free when the pause of the worker is over."""
        place = self._places[slot]
        death = Death(slot, place.killed_for or how, words)
        place.worker = None
        place.restart_at = self._mending.restart_at(death)
        return death

    def _close(self) -> None:
        """Leave all places empty, for good."""
        for place in self._places:
            place.worker, place.restart_at = None, float("inf")


def worker_command(
    connection: Path, slot: int, environments: int, outbox: Path | None
) -> list[str]:
    """Return the command of a worker. It names the file that holds the keys, and never a key."""
    # -P: a folder named flowsim where the run was started, as one that holds a clone has, is not taken for the package
    command = [sys.executable, "-P", "-m", "coupling.worker", "--connect", str(connection)]
    command += ["--slot", str(slot), "--environments", str(environments)]
    return command if outbox is None else [*command, "--outbox", str(outbox)]


def worker_environment(threads: int, devices: Sequence[int] = (), slot: int = 0) -> dict[str, str]:
    """Return the environment variables of a worker that ends with the process that starts it, and sees one device."""
    settle()  # a cache that cannot be used is told of here and once, and what stands for it is shared
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
    """Start the process of a worker, whose stderr and stdout go to the end of a file.

    Parameters
    ----------
    command, environment
        From ``worker_command`` and ``worker_environment``.
    words
        The file, which nobody else may read.
    session
        Whether the process has a session of its own: signals to the group of this one, such as a Ctrl-C at the
        terminal, are not for it.
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
    """Return the length of a file of stderr, 0 before anything was said."""
    return words.stat().st_size if words.exists() else 0


def describe_exit(code: int) -> str:
    """Say how a process ended, as :attr:`subprocess.Popen.returncode` tells it."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_words(stderr: Path, since: int = 0) -> str:
    """Return the last lines of a worker's stderr, marked as a quotation.

    Parameters
    ----------
    stderr
        The file; nothing was said when it is not there.
    since
        Where the words of the present process begin.
    """
    if not stderr.exists():
        return ""
    with stderr.open("rb") as file:
        file.seek(max(since, stderr.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in lines[-_QUOTED_LINES:])

"""Worker processes of this machine: started, watched, restarted within bounds, and never left behind."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coupling.files import private_opener
from coupling.launch.launcher import Death, Mending, describe_exit, last_words, worker_command, worker_environment

if TYPE_CHECKING:
    from coupling.launch.standby import Standby

__all__ = ["LocalLauncher"]


@dataclass
class _Place:
    """One worker's place, through all its incarnations."""

    environments: int
    stderr: Path
    outbox: Path | None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    said_before: int = 0  # length of the stderr file when the process started
    killed_for: str = ""
    restart_at: float = 0.0


class LocalLauncher:
    """Supervisor of worker processes.

    Parameters
    ----------
    connection
        The ``connection.json`` that workers read.
    environments_of_each
        Number of environments of each worker.
    folder
        Where the stderr of each worker is kept.
    threads
        Threads of each worker's numerical libraries.
    restarts
        How many deaths of one worker within ten minutes are mended.
    devices
        Numbers of GPUs that workers see, one each, by turns; all GPUs that this process sees unless given.
    outboxes
        Whether workers have outboxes, in ``folder``.
    standby
        Processes that are ready to be the first workers.
    """

    def __init__(
        self,
        connection: Path,
        environments_of_each: Sequence[int],
        folder: Path,
        *,
        threads: int,
        restarts: int,
        devices: Sequence[int] = (),
        outboxes: bool = True,
        standby: "Standby | None" = None,
    ) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._connection = connection
        self._threads, self._standby = threads, standby
        self._devices = list(devices)
        self._mending = Mending(len(environments_of_each), restarts)
        self._places = [
            _Place(count, folder / f"worker-{slot}.stderr", folder / f"outbox-{slot}" if outboxes else None)
            for slot, count in enumerate(environments_of_each)
        ]
        self.restarts = 0

    def start(self) -> None:
        """Start every worker."""
        for slot in range(len(self._places)):
            self._spawn(slot)

    def _spawn(self, slot: int) -> None:
        place = self._places[slot]
        place.killed_for, place.started = "", time.monotonic()
        command = worker_command(self._connection, slot, place.environments, place.outbox)
        with open(place.stderr, "ab", opener=private_opener) as stderr:
            place.said_before = stderr.tell()
            if self._standby and (ready := self._standby.take(slot, command, place.stderr)):
                place.process = ready
                return
            place.process = subprocess.Popen(
                command,
                env=worker_environment(self._threads, self._devices, slot),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,  # a Ctrl-C at the terminal is for the learner, which ends its workers
            )

    def supervise(self) -> list[Death]:
        """Collect the workers that have died and start those again whose pause is over.

        Returns
        -------
        list of Death
            The deaths since the last call.

        Raises
        ------
        RunError
            When a worker died more often than is mended.
        """
        now, deaths = time.monotonic(), []
        for slot, place in enumerate(self._places):
            if place.process is not None and place.process.poll() is not None:
                deaths.append(self._bury(slot, place))
            elif place.process is None and now >= place.restart_at:
                self.restarts += 1
                self._spawn(slot)
        return deaths

    def _bury(self, slot: int, place: _Place) -> Death:
        assert place.process is not None
        how = place.killed_for or describe_exit(place.process.returncode)
        death = Death(slot, how, last_words(place.stderr, place.said_before))
        place.process = None
        place.restart_at = self._mending.restart_at(death)
        return death

    def running_for(self, slot: int) -> float:
        """Return the seconds since the worker was started, 0 when it is not running."""
        place = self._places[slot]
        return time.monotonic() - place.started if place.process is not None else 0.0

    def kill(self, slot: int, reason: str) -> None:
        """End a worker that hangs; its death is collected by the next :meth:`supervise`."""
        place = self._places[slot]
        if place.process is not None and place.process.poll() is None and not place.killed_for:
            place.killed_for = reason
            place.process.kill()

    def waits_for(self) -> str:
        """Return an empty string: processes of this machine have their place at once."""
        return ""

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, and kill those that do not."""
        processes = [place.process for place in self._places if place.process is not None]
        until = time.monotonic() + patience
        for process in processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for place in self._places:
            place.process = None
            place.restart_at = float("inf")

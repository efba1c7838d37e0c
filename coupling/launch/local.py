"""Worker processes on this machine: started, supervised, restarted within limits, and never left behind."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coupling.launch.launcher import (
    Death,
    MendingLauncher,
    Place,
    describe_exit,
    last_stderr_lines,
    size_of,
    start_worker,
    worker_command,
    worker_environment,
)

if TYPE_CHECKING:
    from coupling.launch.prewarm import PrewarmedWorkers

__all__ = ["LocalLauncher"]


@dataclass(kw_only=True)
class _Place(Place):
    worker: subprocess.Popen[bytes] | None = None
    environments: int
    stderr: Path
    outbox: Path | None
    started: float = 0.0


class LocalLauncher(MendingLauncher[_Place]):
    """Supervisor of worker processes.

    Parameters
    ----------
    connection
        The ``connection.json`` that workers read.
    environments_of_each
        Number of environments of each worker.
    folder
        Folder for the stderr of each worker.
    threads
        Threads of each worker's numerical libraries.
    restarts
        Number of deaths of one worker within ten minutes after which it is still restarted.
    devices
        Numbers of the GPUs that workers see, one each, in turn; by default all GPUs that this process sees.
    outboxes
        Whether workers have outboxes, in ``folder``.
    prewarmed
        Prestarted processes that become the first workers.
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
        prewarmed: "PrewarmedWorkers | None" = None,
    ) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._connection = connection
        self._threads, self._prewarmed = threads, prewarmed
        self._devices = list(devices)
        places = [
            _Place(
                environments=count,
                stderr=folder / f"worker-{slot}.stderr",
                outbox=folder / f"outbox-{slot}" if outboxes else None,
            )
            for slot, count in enumerate(environments_of_each)
        ]
        super().__init__(places, restarts)

    def start(self) -> None:
        """Start every worker."""
        self._begin(range(len(self._places)))

    def _begin(self, slots: Sequence[int]) -> None:
        for slot in slots:
            place = self._places[slot]
            place.killed_for, place.started, place.said_before = (
                "",
                time.monotonic(),
                size_of(place.stderr),
            )
            command = worker_command(self._connection, slot, place.environments, place.outbox)
            place.worker = (
                self._prewarmed.take(slot, command, place.stderr) if self._prewarmed else None
            )
            if place.worker is None:
                environment = worker_environment(self._threads, self._devices, slot)
                place.worker = start_worker(command, environment, place.stderr)

    def _look_at(self, slot: int, place: _Place) -> Death | None:
        assert place.worker is not None
        code = place.worker.poll()
        if code is None:
            return None
        return self._bury(
            slot, describe_exit(code), last_stderr_lines(place.stderr, place.said_before)
        )

    def running_for(self, slot: int) -> float:
        """Return the seconds since the worker was started, 0 if it is not running."""
        place = self._places[slot]
        return time.monotonic() - place.started if place.worker is not None else 0.0

    def kill(self, slot: int, reason: str) -> None:
        """Kill a worker that hangs; the next :meth:`supervise` returns its death."""
        place = self._places[slot]
        if place.worker is not None and place.worker.poll() is None and not place.killed_for:
            place.killed_for = reason
            place.worker.kill()

    def waits_for(self) -> str:
        """Return an empty string: processes on this machine start at once."""
        return ""

    def stop(self, patience: float = 5.0) -> None:
        """Wait for the workers, which have been told to end, and kill those that do not."""
        processes = [place.worker for place in self._places if place.worker is not None]
        until = time.monotonic() + patience
        for process in processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._close()

"""Workers that are started by hand or by a script, wherever they can reach the learner."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from coupling.launch.launcher import Death

__all__ = ["ManualLauncher"]


class Loss(Death):
    """A worker that no longer answers."""

    def __str__(self) -> str:
        return f"worker {self.slot} is gone ({self.reason}): restart it if it does not reconnect by itself"


class ManualLauncher:
    """Launcher for workers started by hand: it says how to start them and reports those that are given up.

    Parameters
    ----------
    connection
        The ``connection.json`` that workers read.
    environments_of_each
        Number of environments of each worker.
    external
        Whether the workers are external programs, in C or Fortran for example.
    """

    def __init__(
        self, connection: Path, environments_of_each: Sequence[int], *, external: bool = False
    ) -> None:
        self._external = external
        self._connection, self._environments = connection, list(environments_of_each)
        self._deaths: list[Death] = []
        self.restarts = 0

    def start(self) -> None:
        """Start nothing."""

    def supervise(self) -> list[Death]:
        """Return the workers that were given up since the last call."""
        deaths, self._deaths = self._deaths, []
        return deaths

    def running_for(self, slot: int) -> float:
        """Return 0: the time is unknown."""
        return 0.0

    def kill(self, slot: int, reason: str) -> None:
        """Give a worker up, since this process cannot kill it."""
        self._deaths.append(Loss(slot, reason, None))

    def waits_for(self) -> str:
        """Return the command that starts a worker, or the arguments that an external program needs."""
        counts = self._environments
        alike = len(set(counts)) == 1
        waiting = f"waiting for {len(counts)} worker{'s' if len(counts) > 1 else ''}"
        numbers = "" if alike else f" with N from 0 to {len(counts) - 1}"
        if not self._external:
            line = shlex.join(["flowsim", "worker", "--connect", str(self._connection)])
            line += " --outbox outbox-1" if alike else " --slot N --outbox outbox-N"
            own = " with an outbox of its own" if alike and len(counts) > 1 else ""
            return f"{waiting}, each started by `{line}`{numbers}{own}"
        hosts = (
            "1 environment"
            if max(counts) == 1
            else f"{'/'.join(map(str, sorted(set(counts))))} environments"
        )
        return (
            f"{waiting}, each a program of your own with {hosts} and the client of coupling/c (C, C++, Fortran): "
            f'flowsim_open(&client, "{self._connection}", {"-1" if alike else "N"}, ...){numbers}'
        )

    def stop(self, patience: float = 5.0) -> None:
        """Do nothing: the workers have been told to end, and do so by themselves."""

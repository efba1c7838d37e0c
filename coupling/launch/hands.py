"""No launcher at all: the workers are started by hand, or by a script, wherever they can reach the learner."""

from collections.abc import Sequence
from pathlib import Path

from coupling.launch.launcher import Death

__all__ = ["ByHand"]


class Loss(Death):
    """A worker that is not heard of any more."""

    def __str__(self) -> str:
        return f"worker {self.slot} is lost ({self.reason}): start it again if it does not come back by itself"


class ByHand:
    """Tells how workers are started, and reports those that are given up.

    Parameters
    ----------
    connection
        The ``connection.json`` that workers read.
    environments_of_each
        Number of environments of each worker.
    """

    def __init__(self, connection: Path, environments_of_each: Sequence[int]) -> None:
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
        """Return 0: nobody here knows."""
        return 0.0

    def kill(self, slot: int, reason: str) -> None:
        """Give a worker up: it is not this machine's to kill."""
        self._deaths.append(Loss(slot, reason, None))

    def waits_for(self) -> str:
        """Return the line that starts a worker."""
        alike = len(set(self._environments)) == 1
        return (
            f"waiting for {len(self._environments)} worker{'s' if len(self._environments) > 1 else ''}, each started "
            f"by `flowsim worker --connect {self._connection}{'' if alike else ' --slot N'}`"
            + ("" if alike else f" with N from 0 to {len(self._environments) - 1}")
        )

    def stop(self, patience: float = 5.0) -> None:
        """Leave the workers alone: they have been told to end, and do so by themselves."""

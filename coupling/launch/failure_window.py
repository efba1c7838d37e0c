"""Counters of recent failures, and their limits."""

import re
from collections import deque

__all__ = ["SAME", "Alike", "FailureWindow", "kind_of"]

_WINDOW = 600.0  # seconds
_NUMBER = re.compile(r"-?(\d[\d.]*(e[+-]?\d+)?|\binf\b|\bnan\b)")
SAME = 3
"""Number of successive failures of the same kind after which another attempt is useless."""


def kind_of(reason: str) -> str:
    """Return a reason with its numbers masked, so that failures of one kind compare equal."""
    return _NUMBER.sub("#", reason)


class Alike:
    """Counter of successive failures that differ only in the numbers in their reasons."""

    def __init__(self) -> None:
        self.count = 0
        self._last = ""

    def note(self, reason: str, *, fresh: bool = False) -> bool:
        """Count a failure, from 1 if it differs from the last or is ``fresh``; return whether ``SAME`` is reached."""
        kind = kind_of(reason)
        self.count = 1 if fresh or kind != self._last else self.count + 1
        self._last = kind
        return self.count >= SAME


class FailureWindow:
    """Counter of the events in the last ten minutes.

    Parameters
    ----------
    allowed
        Largest number of events that is not too many.
    """

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self._times: deque[float] = deque()

    def note(self, events: int, now: float) -> None:
        """Count events that happened at ``now``, in seconds of a monotonic clock."""
        self._times.extend([now] * min(events, self.allowed + 1))  # more changes nothing
        while self._times and now - self._times[0] > _WINDOW:
            self._times.popleft()

    def forget(self) -> None:
        """Reset the count."""
        self._times.clear()

    @property
    def count(self) -> int:
        """Number of events in the window."""
        return len(self._times)

    @property
    def exceeded(self) -> bool:
        """Whether there are more events than allowed."""
        return self.count > self.allowed

    def __str__(self) -> str:
        times = f"{self.count} times within {_WINDOW / 60:.0f} minutes"
        return f"{times}, which is more than workers.restarts = {self.allowed}"

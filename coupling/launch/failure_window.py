"""How often something happened lately, and whether that is too often."""

import re
from collections import deque

__all__ = ["SAME", "Alike", "FailureWindow", "kind_of"]

_WINDOW = 600.0  # seconds
_NUMBER = re.compile(r"-?(\d[\d.]*(e[+-]?\d+)?|\binf\b|\bnan\b)")
SAME = 3
"""Failures in the same way, with nothing better between them, after which another try is no use."""


def kind_of(reason: str) -> str:
    """Return a reason without the numbers in it: failures of one kind have the same."""
    return _NUMBER.sub("#", reason)


class Alike:
    """Counts failures in a row that are the same but for the numbers in them."""

    def __init__(self) -> None:
        self.count = 0
        self._last = ""

    def note(self, reason: str, *, fresh: bool = False) -> bool:
        """Count a failure, again when it differs from the last one or is ``fresh``; tell whether it is too often."""
        kind = kind_of(reason)
        self.count = 1 if fresh or kind != self._last else self.count + 1
        self._last = kind
        return self.count >= SAME


class FailureWindow:
    """Counts events of the last ten minutes.

    Parameters
    ----------
    allowed
        How many are not too many.
    """

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self._times: deque[float] = deque()

    def note(self, events: int, now: float) -> None:
        """Count events that happened now, seconds of a monotonic clock."""
        self._times.extend([now] * min(events, self.allowed + 1))  # more are too many all the same
        while self._times and now - self._times[0] > _WINDOW:
            self._times.popleft()

    def forget(self) -> None:
        """Count again."""
        self._times.clear()

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._times)

    @property
    def exceeded(self) -> bool:
        """Whether they are too many."""
        return self.count > self.allowed

    def __str__(self) -> str:
        times = f"{self.count} times within {_WINDOW / 60:.0f} minutes"
        return f"{times}, which is more than workers.restarts = {self.allowed}"

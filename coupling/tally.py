"""How often something happened lately, and whether that is too often."""

from collections import deque

__all__ = ["Tally"]

_WINDOW = 600.0  # seconds


class Tally:
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

"""Limit on the STATUS requests that a learner answers, so that no peer slows the learning by asking."""

from collections import Counter
from collections.abc import Callable

__all__ = ["StatusLimiter"]

OF_A_PEER, OF_ALL = 100, 400
"""STATUS requests per second; a peer that sends more is ignored for the rest of the second."""


class StatusLimiter:
    """Counter of the STATUS requests of each peer within the current second.

    Parameters
    ----------
    clock
        Function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._since = clock, clock()
        self._asked: Counter[bytes] = Counter()

    def ignores(self, peer: bytes) -> bool:
        """Return whether a peer has sent so many requests that its messages are ignored."""
        return self._asked[peer] >= OF_A_PEER and not self._is_over()

    def admits(self, peer: bytes) -> bool:
        """Count a request of a peer, and return whether it is to be answered."""
        if self._is_over():
            self._asked.clear()
            self._since = self._clock()
        self._asked[peer] += 1
        return self._asked.total() <= OF_ALL

    def _is_over(self) -> bool:
        return self._clock() - self._since >= 1.0

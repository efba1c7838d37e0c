"""The scale of rewards (appendix B)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.normalization.states import EPSILON

__all__ = ["RewardScale"]

F32 = npt.NDArray[np.float32]


class RewardScale:
    """Divides rewards by ``sqrt(mean r^2)`` over the memory, but by no less than a tenth of the largest scale so far.

    Without that floor the scale of a task whose rewards are the price of its actions falls with the actions: the
    smaller they are, the more the price counts, until nothing is explored any more.

    Attributes
    ----------
    value
        The scale; 1 until there is a first reward.
    largest
        The largest scale so far; 0 until there is a first reward.
    squares, count
        Sum of the squares of all rewards so far, and their number (``accumulate``).
    """

    FLOOR = 0.1

    def __init__(self) -> None:
        self.value = 1.0
        self.largest = 0.0
        self.squares = 0.0
        self.count = 0

    def accumulate(self, rewards: F32) -> None:
        """Take the scale from all ``rewards`` given so far: for a memory that is emptied again and again."""
        self.squares += float(np.square(rewards, dtype=np.float64).sum())
        self.count += len(rewards)
        self._take(math.sqrt(self.squares / self.count))

    def measure(self, rewards: F32) -> None:
        """Take the scale from ``rewards``, shape (n,)."""
        self._take(math.sqrt(np.mean(np.square(rewards, dtype=np.float64))))

    def _take(self, scale: float) -> None:
        if not scale > 0.0:  # a memory without any reward says nothing about their size
            return
        scale += EPSILON
        self.largest = max(self.largest, scale)
        self.value = max(scale, self.FLOOR * self.largest)

"""Reward scaling (appendix B)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.normalization.states import EPSILON

__all__ = ["RewardScale"]

F32 = npt.NDArray[np.float32]


class RewardScale:
    """Scales rewards by ``sqrt(mean r^2)`` over the memory, but by no less than 1/10 of the largest scale so far.

    Without this lower bound, in a task whose rewards are the cost of its actions, the scale decreases with the actions:
    the smaller they are, the more their cost counts, until exploration stops.

    Attributes
    ----------
    value
        The scale; 1 until there is a nonzero reward.
    largest
        The largest scale so far; 0 until there is a nonzero reward.
    squares, count
        Sum of squares of all rewards so far, and their number (``accumulate``).
    """

    FLOOR = 0.1

    def __init__(self) -> None:
        self.value = 1.0
        self.largest = 0.0
        self.squares = 0.0
        self.count = 0

    def accumulate(self, rewards: F32) -> None:
        """Update the scale from these and all earlier ``rewards``, for a memory that is emptied repeatedly."""
        self.squares += float(np.square(rewards, dtype=np.float64).sum())
        self.count += len(rewards)
        self._take(math.sqrt(self.squares / self.count))

    def measure(self, rewards: F32) -> None:
        """Compute the scale from ``rewards``, shape (n,)."""
        self._take(math.sqrt(np.mean(np.square(rewards, dtype=np.float64))))

    def _take(self, scale: float) -> None:
        if not scale > 0.0:  # the size of rewards is unknown if all are zero
            return
        scale += EPSILON
        self.largest = max(self.largest, scale)
        self.value = max(scale, self.FLOOR * self.largest)

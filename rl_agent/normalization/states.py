"""The scale of states, and the numbers that can be learned from (appendix B)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["EPSILON", "FARTHEST", "LARGEST_NUMBER", "StateScale"]

F32 = npt.NDArray[np.float32]

LARGEST_NUMBER = 1e18
"""Of an observation or a reward: the square of it, and sums of such squares, are within single precision (3e38)."""

FARTHEST = 1e8
"""Standard deviations from the mean beyond which a state cannot be learned from.

With inputs and errors of this size a gradient is 1e16, and the second moment of Adam 1e32, in single precision.
"""

EPSILON = 1e-7
"""Keeps constant states and all-zero rewards finite (appendix B)."""


class StateScale:
    """Standardises states with statistics frozen when the memory first holds N_start steps.

    Until then states pass unchanged. A component that never varied in the memory is only shifted: dividing
    by its vanishing deviation would turn its first later change into an overflow.

    Parameters
    ----------
    size
        Components of a state.
    """

    def __init__(self, size: int) -> None:
        self.mean: F32 = np.zeros(size, np.float32)
        self.per_std: F32 = np.ones(size, np.float32)
        self.frozen = False

    def freeze(self, observations: F32) -> None:
        """Take mean and standard deviation over ``observations``, shape (n, size), for good; once only."""
        if self.frozen:
            return
        mean = observations.mean(axis=0, dtype=np.float64)
        std = observations.std(axis=0, dtype=np.float64)
        std = np.where(std < EPSILON * (1.0 + np.abs(mean)), 1.0, std + EPSILON)
        self.mean = mean.astype(np.float32)
        self.per_std = (1.0 / std).astype(np.float32)
        self.frozen = True

    def freeze_to(self, largest: float) -> None:
        """Divide by the largest number, for good."""
        self.per_std[:] = 1.0 / largest
        self.frozen = True

    def __call__(self, observations: F32) -> F32:
        """Standardised states, same shape."""
        return (observations - self.mean) * self.per_std

    def are_near(self, observations: F32) -> npt.NDArray[np.bool_]:
        """Tell which states, shape (n, size), are near enough to be learned from; before the freeze all are."""
        if not self.frozen:
            return np.ones(len(observations), np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):
            near: npt.NDArray[np.bool_] = np.abs(self(observations)) <= FARTHEST
        return np.asarray(near.all(axis=1))

"""Standardisation of states (appendix B), and limits of the numbers used for learning."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["EPSILON", "FARTHEST", "LARGEST_NUMBER", "StateScale"]

F32 = npt.NDArray[np.float32]

LARGEST_NUMBER = 1e18
"""Largest observation or reward: its square, and sums of such squares, fit in single precision (3e38)."""

FARTHEST = 1e8
"""Number of standard deviations from the mean beyond which a state is not used for learning.

With inputs and errors of this size a gradient is 1e16 and Adam's second moment 1e32, which fit in single precision.
"""

EPSILON = 1e-7
"""Added to scales to avoid division by zero for constant states and all-zero rewards (appendix B)."""


class StateScale:
    """Standardises states with statistics that are frozen when the memory first holds N_start steps.

    Until then states are unchanged. A component that was constant in the memory is only shifted: dividing by its
    vanishing standard deviation would make any later change overflow.

    Parameters
    ----------
    size
        Number of components of a state.
    """

    def __init__(self, size: int) -> None:
        self.mean: F32 = np.zeros(size, np.float32)
        self.per_std: F32 = np.ones(size, np.float32)
        self.frozen = False

    def freeze(self, observations: F32) -> None:
        """Freeze mean and standard deviation of ``observations``, shape (n, size); later calls have no effect."""
        if self.frozen:
            return
        mean = observations.mean(axis=0, dtype=np.float64)
        std = observations.std(axis=0, dtype=np.float64)
        std = np.where(std < EPSILON * (1.0 + np.abs(mean)), 1.0, std + EPSILON)
        self.mean = mean.astype(np.float32)
        self.per_std = (1.0 / std).astype(np.float32)
        self.frozen = True

    def freeze_to(self, largest: float) -> None:
        """Freeze the scale to a division by ``largest``."""
        self.per_std[:] = 1.0 / largest
        self.frozen = True

    def __call__(self, observations: F32) -> F32:
        """Return standardised states, same shape."""
        return (observations - self.mean) * self.per_std

    def are_near(self, observations: F32) -> npt.NDArray[np.bool_]:
        """Return which states, shape (n, size), are within ``FARTHEST`` of the mean; before the freeze all are."""
        if not self.frozen:
            return np.ones(len(observations), np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):
            near: npt.NDArray[np.bool_] = np.abs(self(observations)) <= FARTHEST
        return np.asarray(near.all(axis=1))

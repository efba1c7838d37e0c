"""Passes over a fixed set of steps, for PPO and A3C."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.samplers.sampler import Sampler
from rl_agent.replay.storage import EpisodeStorage

__all__ = ["EpochSampler"]

I64 = npt.NDArray[np.int64]


class EpochSampler(Sampler):
    """Samples every step of a fixed set once per epoch, in a new random order each time, for PPO and A3C.

    Steps left over after the last full batch are skipped in that epoch.
    """

    def __init__(self) -> None:
        self.indices: I64 = np.zeros(0, np.int64)
        self.cursor = 0
        self.epochs_left = 0

    def begin(self, indices: I64, epochs: int) -> None:
        """Start ``epochs`` passes over the steps at ``indices``."""
        self.indices, self.cursor, self.epochs_left = indices.copy(), 0, epochs

    def left(self, batch: int) -> int:
        """Return the number of batches left."""
        return self.epochs_left * (len(self.indices) // batch) - self.cursor // batch

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of the next ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If all epochs are done.
        """
        if self.left(batch) <= 0:
            raise ValueError("every step has been used in every epoch: collect new steps first")
        if self.cursor == 0:
            rng.shuffle(self.indices)
        sampled = self.indices[self.cursor : self.cursor + batch].copy()
        self.cursor += batch
        if self.cursor + batch > len(self.indices):
            self.cursor = 0
            self.epochs_left -= 1
        return sampled

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        # existing checkpoints have these names
        return {"slots": self.indices, "progress": np.array([self.cursor, self.epochs_left])}

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``."""
        self.indices = arrays["slots"].astype(np.int64)
        self.cursor, self.epochs_left = (int(number) for number in arrays["progress"])

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
    """Takes every step of a fixed set once per epoch, in a new random order each time, for PPO and A3C.

    Steps that do not fill a last batch sit out the epoch.
    """

    def __init__(self) -> None:
        self.indices: I64 = np.zeros(0, np.int64)
        self.cursor = 0
        self.epochs_left = 0

    def begin(self, indices: I64, epochs: int) -> None:
        """Start ``epochs`` passes over the steps at ``indices``."""
        self.indices, self.cursor, self.epochs_left = indices.copy(), 0, epochs

    def left(self, batch: int) -> int:
        """Batches still to come."""
        return self.epochs_left * (len(self.indices) // batch) - self.cursor // batch

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Ring indices of the next ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If all passes are done.
        """
        if self.left(batch) <= 0:
            raise ValueError("every step has been taken in every epoch: collect new ones first")
        if self.cursor == 0:
            rng.shuffle(self.indices)
        sampled = self.indices[self.cursor : self.cursor + batch].copy()
        self.cursor += batch
        if self.cursor + batch > len(self.indices):
            self.cursor = 0
            self.epochs_left -= 1
        return sampled

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        # their name in every checkpoint so far
        return {"slots": self.indices, "progress": np.array([self.cursor, self.epochs_left])}

    def restore(self, storage: EpisodeStorage, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``."""
        self.indices = arrays["slots"].astype(np.int64)
        self.cursor, self.epochs_left = (int(number) for number in arrays["progress"])

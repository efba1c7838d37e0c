"""Passes over a fixed set of steps, for PPO and A3C."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import EpisodeMemory
from rl_agent.replay.samplers.sampler import Sampler

__all__ = ["EpochSampler"]

I64 = npt.NDArray[np.int64]


class EpochSampler(Sampler):
    """Takes every step of a fixed set once per epoch, in a new random order each time, for PPO and A3C.

    Steps that do not fill a last batch sit out the epoch.
    """

    def __init__(self) -> None:
        self.places: I64 = np.zeros(0, np.int64)
        self.cursor = 0
        self.epochs_left = 0

    def begin(self, places: I64, epochs: int) -> None:
        """Start ``epochs`` passes over the steps at ``places``."""
        self.places, self.cursor, self.epochs_left = places.copy(), 0, epochs

    def left(self, batch: int) -> int:
        """Batches still to come."""
        return self.epochs_left * (len(self.places) // batch) - self.cursor // batch

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> I64:
        """Places of the next ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If all passes are done.
        """
        if self.left(batch) <= 0:
            raise ValueError("every step has been taken in every epoch: collect new ones first")
        if self.cursor == 0:
            rng.shuffle(self.places)
        drawn = self.places[self.cursor : self.cursor + batch].copy()
        self.cursor += batch
        if self.cursor + batch > len(self.places):
            self.cursor = 0
            self.epochs_left -= 1
        return drawn

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays that ``restore`` needs."""
        # their name in every checkpoint so far
        return {"slots": self.places, "progress": np.array([self.cursor, self.epochs_left])}

    def restore(self, memory: EpisodeMemory, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take over the result of ``save``."""
        self.places = arrays["slots"].astype(np.int64)
        self.cursor, self.epochs_left = (int(number) for number in arrays["progress"])

"""Who is drawn from the memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import EpisodeMemory

__all__ = ["UniformSampler"]


class UniformSampler:
    """Every stored step is equally likely; draws are independent (with replacement)."""

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Places of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if memory.steps == 0:
            raise ValueError("cannot draw from an empty memory: it holds 0 steps")
        return (memory.tail + rng.integers(0, memory.steps, batch)) % memory.capacity

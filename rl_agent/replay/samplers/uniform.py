"""Uniform sampling, of steps or of episodes and then their steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.replay.memory import EpisodeMemory
from rl_agent.replay.samplers.sampler import Sampler

__all__ = ["UniformSampler"]

I64 = npt.NDArray[np.int64]


class UniformSampler(Sampler):
    """Every stored step is equally likely; draws are independent (with replacement).

    Parameters
    ----------
    episode_share
        Share of a batch for which every stored episode is equally likely, and then every step of it.
    """

    def __init__(self, episode_share: float = 0.0) -> None:
        self.episode_share = episode_share

    def draw(self, memory: EpisodeMemory, batch: int, rng: np.random.Generator) -> I64:
        """Places of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if memory.size == 0:
            raise ValueError("cannot draw from an empty memory: it holds 0 steps")
        by_episode = round(self.episode_share * batch)
        behind = rng.integers(0, memory.size, batch - by_episode)
        if by_episode == 0:
            return (memory.tail + behind) % memory.capacity
        rows = rng.integers(memory.first_serial, memory.next_serial, by_episode) % len(memory.start)
        of_episodes = memory.start[rows] + rng.integers(0, memory.length[rows])
        return np.concatenate([memory.tail + behind, of_episodes]) % memory.capacity

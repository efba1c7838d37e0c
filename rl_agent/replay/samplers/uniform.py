"""Uniform sampling of steps, or of episodes and then their steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.replay.samplers.sampler import Sampler
from rl_agent.replay.storage import EpisodeStorage

__all__ = ["UniformSampler"]

I64 = npt.NDArray[np.int64]


class UniformSampler(Sampler):
    """Samples all stored steps with equal probability, independently (with replacement).

    Parameters
    ----------
    episode_share
        Fraction of a batch for which first an episode and then one of its steps is sampled, each uniformly.
    """

    def __init__(self, episode_share: float = 0.0) -> None:
        self.episode_share = episode_share

    def sample(self, storage: EpisodeStorage, batch: int, rng: np.random.Generator) -> I64:
        """Return the ring indices of ``batch`` steps, shape (batch,).

        Raises
        ------
        ValueError
            If the memory is empty.
        """
        if storage.size == 0:
            raise ValueError("cannot sample from an empty memory: it holds 0 steps")
        by_episode = round(self.episode_share * batch)
        behind = rng.integers(0, storage.size, batch - by_episode)
        if by_episode == 0:
            return (storage.tail + behind) % storage.capacity
        rows = rng.integers(storage.first_id, storage.next_id, by_episode) % len(storage.start)
        of_episodes = storage.start[rows] + rng.integers(0, storage.length[rows])
        return np.concatenate([storage.tail + behind, of_episodes]) % storage.capacity

"""Sampling of actions and exploration noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig
from rl_agent.networks.distributions import sampling

__all__ = ["Exploration", "sample_action"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

THETA = 0.15
"""Mean reversion of the Ornstein-Uhlenbeck noise per step (ReF-ER paper, appendix A)."""


def sample_action(mean: F32, std: F32, rng: np.random.Generator, *, clipped: bool = False) -> F32:
    """Sample actions from the statistics of a policy.

    Parameters
    ----------
    mean, std
        As in ``Acting``: those of a Gaussian, or probabilities and an empty array.
    rng
        Random generator.
    clipped
        Whether the Gaussian is clipped to the range of the actions.

    Returns
    -------
    F32
        Raw actions, shape (n, A); indices of discrete actions, shape (n, 1).
    """
    if std.shape[-1] == 0:
        return sampling.sample_choice(mean, rng)
    return sampling.sample_clipped(mean, std, rng) if clipped else sampling.sample(mean, std, rng)


class Exploration:
    """Samples the actions of many agents.

    Parameters
    ----------
    config
        Settings; ``noise``, ``policy``, ``sigma``, ``squash`` and ``random_start`` are used.
    agents, action_size
        Number of agents, and of action components.

    Attributes
    ----------
    noise
        State of the Ornstein-Uhlenbeck process of each agent after its last issued action, shape (agents, A).
    """

    def __init__(self, config: AgentConfig, agents: int, action_size: int) -> None:
        self.config = config
        self.noise: F32 = np.zeros((agents, action_size), np.float32)

    def begin(self, agents: I64) -> None:
        """Reset the noise of agents that start an episode."""
        self.noise[agents] = 0.0

    def sample(
        self, agents: I64, mean: F32, std: F32, rng: np.random.Generator, *, has_learned: bool
    ) -> tuple[F32, F32]:
        """Sample actions of ``agents``, (n, A), with arguments as in ``sample_action``; also return the next noise."""
        noise = self.noise[agents]
        if self.config.random_start and not has_learned:
            return self._anywhere(mean, std, rng), noise
        if not self.config.has_correlated_noise:
            return sample_action(mean, std, rng, clipped=self.config.is_clipped), noise
        kick = rng.standard_normal(mean.shape).astype(np.float32)
        noise += np.float32(self.config.sigma) * kick - np.float32(THETA) * noise
        return mean + noise, noise

    def _anywhere(self, mean: F32, std: F32, rng: np.random.Generator) -> F32:
        """Sample uniformly over the task's action space."""
        if std.shape[-1] == 0:
            return sampling.sample_choice(np.full_like(mean, 1.0 / mean.shape[1]), rng)
        uniform = rng.uniform(-1.0, 1.0, mean.shape)
        # an action of exactly 1 would be infinite before the tanh
        return (np.arctanh(0.999 * uniform) if self.config.squash == "tanh" else uniform).astype(
            np.float32
        )

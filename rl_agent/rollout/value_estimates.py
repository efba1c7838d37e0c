"""Estimates of V for open and stored episodes: where they are cut, and for all stored steps as the network changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm
from rl_agent.config import AgentConfig, OnPolicyConfig
from rl_agent.multi_agent import cooperation
from rl_agent.normalization.rewards import RewardScale
from rl_agent.normalization.states import StateScale
from rl_agent.replay import EpisodeMemory
from rl_agent.rollout.open_episodes import OpenEpisodes

__all__ = ["ValueEstimator"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class ValueEstimator:
    """Computes V(s_T) of open episodes, and the values and value targets of stored ones.

    Parameters
    ----------
    config
        Settings of the learner.
    algorithm
        The algorithm, which provides V.
    state_scale, reward_scale
        Scale of the inputs of V, and of the rewards in its targets.
    memory
        Memory whose stored values are updated.
    """

    def __init__(
        self,
        config: AgentConfig,
        algorithm: Algorithm,
        state_scale: StateScale,
        reward_scale: RewardScale,
        memory: EpisodeMemory,
    ) -> None:
        self._config, self._algorithm = config, algorithm
        self._state_scale, self._reward_scale, self._memory = state_scale, reward_scale, memory

    def of_open(self, episodes: OpenEpisodes, agents: I64) -> F32:
        """Return V of the current observations of agents, shape (n,)."""
        if len(agents) == 0 or not self._algorithm.uses_value_targets:
            return np.zeros(len(agents), np.float32)
        observations = self._state_scale(episodes.current(agents))
        value = self._algorithm.act(observations, episodes.state[agents]).value
        # for waiting agents an action was already sampled, and the recurrent state already includes the observation
        known = episodes.value[agents, episodes.length[agents]]
        return np.where(episodes.is_waiting[agents], known, value)

    def sweep(self, gamma: float, c_max: float) -> None:
        """Update the reward scale, refresh V(s_T), and recompute every V_tbc and far-policy flag."""
        storage, values = self._memory.storage, self._memory.values
        self._reward_scale.measure(storage.reward[storage.experiences()])
        if self._algorithm.uses_value_targets:
            self.refresh_final_values()
            values.sweep(gamma, self._reward_scale.value)
        values.classify(c_max)

    def prepare_horizon(self, config: OnPolicyConfig, gamma: float) -> I64:
        """Compute V, lambda returns and advantages of all stored steps; return their ring indices."""
        storage, scale = self._memory.storage, self._reward_scale
        indices = storage.indices()
        scale.accumulate(storage.reward[indices])
        self._state_scale.freeze(storage.observation[indices])
        self._refresh_values(indices)
        self._memory.values.estimate_advantages(
            gamma, config.return_lambda, scale.value, standardise=config.standardises
        )
        return indices

    def refresh_final_values(self) -> None:
        """Recompute V(s_T) of the truncated episodes."""
        storage, values, scale = self._memory.storage, self._memory.values, self._state_scale
        rows = storage.truncated_rows()
        if len(rows) > 0:
            steps = self._algorithm.window_steps
            windows = storage.final_windows(rows, steps, scale.mean, scale.per_std)
            final = self._algorithm.values(*windows)
            values.final_value[rows] = np.where(storage.terminated[rows], np.float32(0.0), final)
        if self._config.is_cooperative:
            rows = storage.all_rows()
            own = np.where(storage.terminated[rows], np.float32(0.0), values.final_value[rows])
            values.final_value[rows] = cooperation.mean_of_each(own, storage.agents_per_env)

    def _refresh_values(self, indices: I64) -> None:
        """Recompute V of the stored steps at ``indices``, and the final values."""
        storage, scale = self._memory.storage, self._state_scale
        steps = self._algorithm.network.history + 1
        self._memory.values.value[indices] = self._algorithm.values(
            storage.windows(indices, steps, scale.mean, scale.per_std),
            np.minimum(storage.steps_before(indices) + 1, steps),
        )
        self.refresh_final_values()

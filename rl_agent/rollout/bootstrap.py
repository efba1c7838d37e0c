"""Values where episodes are cut: V of what is seen there, now and as the network changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm
from rl_agent.multi_agent import cooperation
from rl_agent.normalization.states import StateScale
from rl_agent.replay import EpisodeMemory
from rl_agent.rollout.open_episodes import OpenEpisodes

__all__ = ["Bootstrap"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Bootstrap:
    """V(s_T) of open episodes, and V of stored ones.

    Parameters
    ----------
    algorithm
        Has V.
    state_scale
        Standardises the states.
    memory
        Its final values and values are written.
    is_cooperative
        Whether the agents of a multi-agent environment share the mean of their values.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state_scale: StateScale,
        memory: EpisodeMemory,
        *,
        is_cooperative: bool,
    ) -> None:
        self._algorithm, self._scale, self._memory = algorithm, state_scale, memory
        self._is_cooperative = is_cooperative

    def of_open(self, episodes: OpenEpisodes, agents: I64) -> F32:
        """V of the current observations of agents, shape (n,)."""
        if len(agents) == 0 or not self._algorithm.uses_value_targets:
            return np.zeros(len(agents), np.float32)
        value = self._algorithm.act(
            self._scale(episodes.current(agents)), episodes.state[agents]
        ).value
        # an action was already sampled there, and the recurrent state has already seen the observation
        known = episodes.value[agents, episodes.length[agents]]
        return np.where(episodes.is_waiting[agents], known, value)

    def refresh_final_values(self) -> None:
        """Compute V(s_T) of the truncated episodes again."""
        memory, scale = self._memory, self._scale
        rows = memory.truncated_rows()
        if len(rows) > 0:
            steps = self._algorithm.network.history + 1
            values = self._algorithm.values(
                *memory.final_windows(rows, steps, scale.mean, scale.per_std)
            )
            memory.final_value[rows] = np.where(memory.terminated[rows], np.float32(0.0), values)
        if self._is_cooperative:
            rows = memory.all_rows()
            own = np.where(memory.terminated[rows], np.float32(0.0), memory.final_value[rows])
            memory.final_value[rows] = cooperation.mean_of_each(own, memory.world)

    def refresh_values(self, indices: I64) -> None:
        """Compute V of the stored steps at ``indices``, and the final values, again."""
        memory, scale, steps = self._memory, self._scale, self._algorithm.network.history + 1
        memory.value[indices] = self._algorithm.values(
            memory.windows(indices, steps, scale.mean, scale.per_std),
            np.minimum(memory.position[indices] + 1, steps),
        )
        self.refresh_final_values()

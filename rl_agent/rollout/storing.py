"""Storing of open episodes in the memory: whole, in fragments, or cut at a horizon."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rl_agent.multi_agent import cooperation
from rl_agent.replay import Episode, EpisodeMemory
from rl_agent.rollout.open_episodes import OpenEpisodes
from rl_agent.rollout.statistics import EpisodeRecord
from rl_agent.rollout.value_estimates import ValueEstimator

__all__ = ["EpisodeStore"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class EpisodeStore:
    """Moves open episodes to the memory; those of a multi-agent environment together.

    Parameters
    ----------
    open_episodes, memory, values
        Source, destination, and estimator of V where an episode is cut.
    is_cooperative
        Whether the agents of a multi-agent environment share the mean of their rewards and values.

    Notes
    -----
    ``gamma`` and ``reward_scale`` are those of the initial value targets; ``agents`` are numbers of members.
    """

    def __init__(
        self,
        open_episodes: OpenEpisodes,
        memory: EpisodeMemory,
        values: ValueEstimator,
        *,
        is_cooperative: bool,
    ) -> None:
        self._open, self._memory, self._values = open_episodes, memory, values
        self._agents_per_env, self._is_cooperative = memory.storage.agents_per_env, is_cooperative

    def close(
        self,
        agents: I64,
        terminated: npt.NDArray[np.bool_],
        step: int,
        gamma: float,
        reward_scale: float,
    ) -> list[EpisodeRecord]:
        """Store what is left of ended episodes of at least one step, and return their records.

        Parameters
        ----------
        agents, terminated
            Members, and whether their episodes ended in a terminal state, shape (n,).
        step
            Environment steps so far.
        gamma, reward_scale
            Discount factor and reward scale of the initial value targets.
        """
        values, records = self._values.of_open(self._open, agents), []
        for part in self._environments(agents):
            earlier = [self._open.earlier(int(agent)) for agent in agents[part]]
            episodes = [
                self._open.close(int(agent), float(value), bool(is_terminal))
                for agent, value, is_terminal in zip(
                    agents[part], values[part], terminated[part], strict=True
                )
            ]
            returns = [episode.reward.sum(dtype=np.float64) for episode in episodes]
            if len(episodes[0].reward) > 0:  # else the last step was stored as part of a fragment
                self._add(episodes, gamma, reward_scale)
            records.append(
                EpisodeRecord(
                    agent=int(agents[part][0]) // self._agents_per_env,
                    step=step,
                    episode_return=float(
                        np.mean(np.add([before for before, _ in earlier], returns))
                    ),
                    length=earlier[0][1] + len(episodes[0].reward),
                    terminated=all(episode.terminated for episode in episodes),
                )
            )
        return records

    def store_fragments(self, agents: I64, length: int, gamma: float, reward_scale: float) -> None:
        """Store open episodes of at least ``length`` steps as fragments; they continue, and are counted at the end."""
        agents = agents[self._open.length[agents] >= length]
        values = self._values.of_open(self._open, agents)
        for part in self._environments(agents):
            pairs = zip(agents[part], values[part], strict=True)
            episodes = [self._open.split(int(agent), float(value)) for agent, value in pairs]
            self._add(episodes, gamma, reward_scale)

    def cut_all(self, gamma: float, reward_scale: float) -> None:
        """Store the steps of all open episodes, whose final values are computed later."""
        for agent in np.flatnonzero(self._open.length > 0):
            self._memory.add(self._open.split(int(agent)), gamma, reward_scale)

    def _environments(self, agents: I64) -> Iterator[slice]:
        """Yield slices of the members of each environment, which are adjacent."""
        for first in range(0, len(agents), self._agents_per_env):
            yield slice(first, first + self._agents_per_env)

    def _add(self, episodes: list[Episode], gamma: float, reward_scale: float) -> None:
        if self._is_cooperative:
            episodes = cooperation.cooperate(episodes)
        self._memory.add(episodes, gamma, reward_scale)

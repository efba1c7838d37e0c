"""The replay memory: stored episodes, and the stored network outputs for their steps.

``storage`` holds no values and ``values`` holds no experience. Episodes are added and removed only through this module,
so that both always refer to the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.storage import Episode, EpisodeStorage
from rl_agent.replay.values import StoredValues

__all__ = ["EpisodeMemory", "make_memory"]


class EpisodeMemory:
    """Replay memory of whole episodes, removed first in, first out.

    Parameters
    ----------
    capacity, observation_size, action_size, choices, agents_per_env, dtype, state_size, history
        As in :class:`~rl_agent.replay.storage.EpisodeStorage`.
    trace_decay
        As in :class:`~rl_agent.replay.values.StoredValues`.

    Attributes
    ----------
    storage
        The episodes.
    values
        The stored network outputs for their steps.
    """

    # many arguments: those of the storage, and the one of the values
    def __init__(
        self,
        capacity: int,
        observation_size: int,
        action_size: int,
        choices: int = 0,
        agents_per_env: int = 1,
        trace_decay: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        state_size: int = 0,
        history: int = 0,
    ) -> None:
        sizes = observation_size, action_size, choices
        self.storage = EpisodeStorage(capacity, *sizes, agents_per_env, dtype, state_size, history)
        self.values = StoredValues(self.storage, trace_decay)

    def add(self, episodes: Episode | Sequence[Episode], gamma: float, reward_scale: float) -> None:
        """Store an episode, or those of all agents of an environment, after removing old ones to make room.

        Parameters
        ----------
        episodes
            One for each agent, all of the same length.
        gamma, reward_scale
            Discount factor and reward scale of the initial value targets.

        Raises
        ------
        ValueError
            If they are longer than the whole memory, have no steps, or are not those of all agents of an environment.
        """
        storage = self.storage
        together = [episodes] if isinstance(episodes, Episode) else episodes
        lengths = {len(episode.reward) for episode in together}
        if len(together) != storage.agents_per_env or len(lengths) != 1:
            raise ValueError(
                f"an environment of {storage.agents_per_env} agents has as many episodes of one length, "
                f"not {len(together)}"
            )
        steps = lengths.pop() * storage.agents_per_env
        if not 0 < steps <= storage.capacity:
            raise ValueError(
                f"an episode of {steps} steps does not fit into a memory of {storage.capacity}"
            )
        while storage.size + steps > storage.capacity:
            self.remove_oldest()
        if storage.episodes == len(storage.start):
            self._double_table()
        rows = np.array([storage.add(episode) for episode in together])
        self.values.add(rows, together, gamma, reward_scale)

    def remove_oldest(self) -> None:
        """Remove the oldest episode of all agents of its environment."""
        self.values.forget(self.storage.remove_oldest())

    def remove_before(self, episode_id: int) -> None:
        """Remove all episodes that were stored before the one with this id."""
        while self.storage.first_id < episode_id:
            self.remove_oldest()

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int]]:
        """Return the arrays and counters from which ``restore`` continues bit for bit."""
        (experience, counters), (values, n_far) = self.storage.state(), self.values.state()
        return experience | values, counters | n_far

    def restore(self, arrays: dict[str, npt.NDArray[Any]], counters: dict[str, int]) -> None:
        """Restore the result of ``state`` of a memory of the same capacity."""
        while len(self.storage.start) < counters["rows"]:
            self._double_table()
        self.storage.restore(arrays, counters)
        self.values.restore(arrays)

    def _double_table(self) -> None:
        self.values.double_table()
        self.storage.double_table()


def make_memory(
    config: AgentConfig, sizes: Sizes, capacity: int, state_size: int = 0, history: int = 0
) -> EpisodeMemory:
    """Build the memory for the settings.

    Parameters
    ----------
    config, sizes
        Settings of the learner, and sizes of the task; images are stored as ``uint8``.
    capacity
        Capacity in environment steps.
    state_size
        Number of components of the network's recurrent state, which is stored only if the settings say so.
    history
        Number of steps before the last one of the windows on which the network is trained.
    """
    dtype = np.uint8 if config.network == "conv" else np.float32
    return EpisodeMemory(
        capacity,
        sizes.observation,
        sizes.action,
        sizes.choices,
        sizes.agents_per_env,
        config.trace_decay,
        dtype,
        state_size if config.stores_states else 0,
        history,
    )

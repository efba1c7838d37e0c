"""Storage of whole episodes in a ring of steps, removed first in, first out; what networks say of them is elsewhere.

Only completed episodes enter (as in the original implementation): the value target of an open episode would need a
bootstrap that changes with every step; fragments of long ones (``fragment_length``) count as episodes here. The steps
of an episode lie next to each other (modulo the end of the ring), every quantity in its own contiguous array.

An environment with N agents enters as N episodes of the same length, one behind the other, and leaves as such; so each
agent has its own backward recursion, and the N steps of one moment are found from any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.windows import gather_following, gather_windows

__all__ = ["Episode", "EpisodeStorage", "in_larger_table"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

EXPERIENCE = ("observation", "action", "behaviour_mean", "behaviour_std", "reward")
"""What an episode brings of each of its steps."""

FILE_NAMES = {"episode_id": "serial", "first_id": "first_serial", "next_id": "next_serial"}
"""What checkpoints call these."""


@dataclass(frozen=True)
class Episode:
    """One completed episode of L >= 1 steps, as it enters the memory.

    Attributes
    ----------
    observation
        s_0 ... s_{L-1}, shape (L, S), unscaled.
    action
        Raw (unclipped) actions of the policy, shape (L, A).
    behaviour_mean, behaviour_std
        Statistics of the policy mu that the actions were sampled from, shape (L, A) for a Gaussian. For discrete
        actions the mean holds the probabilities, shape (L, K), and the standard deviation nothing, shape (L, 0).
    reward
        r_1 ... r_L, shape (L,), unscaled.
    value
        V(s_t) when the action was sampled, shape (L,).
    final_observation
        s_L, shape (S,).
    final_value
        V(s_L), 0 if ``terminated``; in a cooperative environment the mean of these over its agents.
    terminated
        Whether s_L is a terminal state (else the episode was cut short).
    present
        Steps that the agent took part in; fewer than L where it ended before the others of its environment. What
        stands in the steps after these is not an experience.
    """

    observation: F32
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    reward: F32
    value: F32
    final_observation: F32
    final_value: float
    terminated: bool
    present: int | None = None


class EpisodeStorage:
    """A ring of at most ``capacity`` steps that holds whole episodes.

    Parameters
    ----------
    capacity
        Most steps stored (N), each of all agents of an environment.
    observation_size, action_size
        Components of a state and of an action.
    choices
        Number of discrete actions; 0 for continuous ones.
    agents_per_env
        Agents that act together in one environment (N). Each has its own N-th of the ring.
    dtype
        Of the observations: ``uint8`` for pictures, of which a million of 84 x 84 then take 7 GB.

    Attributes
    ----------
    observation, action, behaviour_mean, behaviour_std, reward, position, episode_id
        Ring arrays. ``position`` is the step's number in its episode, ``episode_id`` the running number of the latter.
    start, length, present, terminated, final_observation
        Episode table, row ``episode_id % len(start)``.
    first_id, next_id
        Id of the oldest episode stored, and of the next one to come.
    tail
        Ring index of the oldest step.
    size
        Number of ring entries in use.
    steps
        Number of experiences: the entries in use whose agents took part in their step. In environments that agents
        leave early there are fewer of them than entries.
    added
        Number of entries ever filled.
    """

    STEP_FIELDS = (*EXPERIENCE, "position", "episode_id")
    TABLE_FIELDS = ("start", "length", "present", "terminated", "final_observation")
    COUNTERS = ("first_id", "next_id", "tail", "size", "steps", "added")

    def __init__(
        self,
        capacity: int,
        observation_size: int,
        action_size: int,
        choices: int = 0,
        agents_per_env: int = 1,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self.agents_per_env = agents_per_env
        self.capacity = capacity = capacity * agents_per_env
        self.observation: npt.NDArray[Any] = np.zeros((capacity, observation_size), dtype)
        self.action = np.zeros((capacity, action_size), np.float32)
        self.behaviour_mean = np.zeros((capacity, choices or action_size), np.float32)
        self.behaviour_std = np.zeros((capacity, 0 if choices else action_size), np.float32)
        self.reward = np.zeros(capacity, np.float32)
        self.position = np.zeros(capacity, np.int64)
        self.episode_id = np.zeros(capacity, np.int64)
        rows = 64 * agents_per_env
        self.start = np.zeros(rows, np.int64)
        self.length = np.zeros(rows, np.int64)
        self.present = np.zeros(rows, np.int64)
        self.terminated = np.zeros(rows, np.bool_)
        self.final_observation: npt.NDArray[Any] = np.zeros((rows, observation_size), dtype)
        self.first_id = self.next_id = self.tail = self.size = self.steps = self.added = 0

    @property
    def episodes(self) -> int:
        """Number of episodes stored."""
        return self.next_id - self.first_id

    @property
    def env_steps(self) -> int:
        """Number of steps stored, each of all agents of an environment."""
        return self.size // self.agents_per_env

    @property
    def oldest_step_id(self) -> int:
        """Number of steps that have been removed, which is the id of the oldest one that is stored."""
        return self.added - self.size

    def add(self, episode: Episode) -> int:
        """Store an episode that there is room for; return its row in the table."""
        steps = len(episode.reward)
        row = self.next_id % len(self.start)
        self.start[row] = (self.tail + self.size) % self.capacity
        self.length[row] = steps
        self.present[row] = steps if episode.present is None else episode.present
        self.terminated[row] = episode.terminated
        self.final_observation[row] = episode.final_observation
        indices = self.episode_indices(row)
        for name in EXPERIENCE:
            getattr(self, name)[indices] = getattr(episode, name)
        self.position[indices] = np.arange(steps)
        self.episode_id[indices] = self.next_id
        self.next_id += 1
        self.size += steps
        self.steps += int(self.present[row])
        self.added += steps
        return row

    def remove_oldest(self) -> I64:
        """Remove the oldest episode, of all agents of its environment; return the ring indices that are free now."""
        rows = np.arange(self.first_id, self.first_id + self.agents_per_env) % len(self.start)
        steps = int(self.length[rows].sum())
        indices = (self.tail + np.arange(steps)) % self.capacity
        self.first_id += self.agents_per_env
        self.tail = (self.tail + steps) % self.capacity
        self.size -= steps
        self.steps -= int(self.present[rows].sum())
        return indices

    def double_table(self) -> None:
        """Double the rows of the episode table; every row moves to its episode id modulo the new number."""
        ids = np.arange(self.first_id, self.next_id)
        for name in self.TABLE_FIELDS:
            setattr(self, name, in_larger_table(getattr(self, name), ids))

    def indices(self, step_ids: I64 | None = None) -> I64:
        """Ring indices of the steps with these ids, or of all that are stored, from the oldest to the newest."""
        behind = np.arange(self.size) if step_ids is None else step_ids - self.oldest_step_id
        return (self.tail + behind) % self.capacity

    def step_ids(self, indices: I64) -> I64:
        """Return how many steps had ever been stored before each of those at ``indices``."""
        return self.oldest_step_id + (indices - self.tail) % self.capacity

    def episode_indices(self, row: int) -> I64:
        """Ring indices of the steps of the episode in a row of the table, in order."""
        return (self.start[row] + np.arange(self.length[row])) % self.capacity

    def experiences(self) -> I64:
        """Ring indices of all stored steps in which the agents took part."""
        indices = self.indices()
        return indices if self.agents_per_env == 1 else indices[self.is_present(indices)]

    def of_all_agents(self, indices: I64) -> I64:
        """Ring indices of all agents' steps at the same moments, (n,) to (n N,), each environment's side by side."""
        if self.agents_per_env == 1:
            return indices
        agent = self.episode_id[indices] % self.agents_per_env
        ahead = np.arange(self.agents_per_env) - agent[:, None]
        lengths = self.length[self.rows(indices)]
        return ((indices[:, None] + ahead * lengths[:, None]) % self.capacity).ravel()

    def is_present(self, indices: I64) -> npt.NDArray[np.bool_]:
        """Whether the agents of steps took part in them, shape (n,)."""
        return self.position[indices] < self.present[self.rows(indices)]

    def rows(self, indices: I64) -> I64:
        """Rows of the episode table that the steps at ``indices`` belong to."""
        return self.episode_id[indices] % len(self.start)

    def all_rows(self) -> I64:
        """Rows of all episodes, from the oldest to the newest, shape (episodes,)."""
        return np.arange(self.first_id, self.next_id) % len(self.start)

    def truncated_rows(self) -> I64:
        """Rows of the truncated episodes, whose final value is an estimate, and of others in their environments."""
        rows = self.all_rows()
        is_terminal = self.terminated[rows].reshape(-1, self.agents_per_env).all(axis=1)
        return rows[np.repeat(~is_terminal, self.agents_per_env)]

    def windows(self, indices: I64, steps: int, mean: F32, per_std: F32) -> F32:
        """Standardised observations of the ``steps`` steps that end at each of ``indices``.

        Returns
        -------
        F32
            Shape (steps, B, S), aligned at the end; zero where the episode had not yet begun.
        """
        out = np.empty((steps, len(indices), self.observation.shape[1]), np.float32)
        gather_windows(self.observation, self.position, indices, mean, per_std, out)
        return out

    def following(
        self, indices: I64, steps: int, mean: F32, per_std: F32, ahead: I64 | None = None
    ) -> F32:
        """Standardised observations of ``steps`` steps that end ``ahead`` (1) after ``indices``, as of ``windows``."""
        ahead = np.ones(len(indices), np.int64) if ahead is None else ahead
        out = np.empty((steps, len(indices), self.observation.shape[1]), np.float32)
        table = self.rows(indices), self.length, self.final_observation
        gather_following(
            self.observation, self.position, indices, *table, mean, per_std, ahead, out
        )
        return out

    def final_windows(self, rows: I64, steps: int, mean: F32, per_std: F32) -> tuple[F32, I64]:
        """Standardised windows that end at the final observations of the episodes in ``rows``.

        Returns
        -------
        windows
            Shape (steps, n, S), aligned at the end.
        lengths
            Observations in each window, shape (n,).
        """
        final = (self.final_observation[rows] - mean) * per_std
        if steps == 1:
            return final[None], np.ones(len(rows), np.int64)
        last = (self.start[rows] + self.length[rows] - 1) % self.capacity
        windows = np.concatenate([self.windows(last, steps - 1, mean, per_std), final[None]])
        return windows, np.minimum(self.length[rows], steps - 1) + 1

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int]]:
        """Arrays and counters that ``restore`` needs, by their names in a checkpoint."""
        indices, rows = self.indices(), self.all_rows()
        arrays = {_in_files(name): getattr(self, name)[indices] for name in self.STEP_FIELDS}
        arrays |= {name: getattr(self, name)[rows] for name in self.TABLE_FIELDS}
        counters = {_in_files(name): getattr(self, name) for name in self.COUNTERS}
        return arrays, counters | {"rows": len(self.start)}

    def restore(self, arrays: dict[str, npt.NDArray[Any]], counters: dict[str, int]) -> None:
        """Take over the result of ``state`` of a storage of the same capacity, whose table is no larger than this."""
        # checkpoints from before ``steps`` counted experiences have the number of entries there
        counters = {"size": counters["steps"]} | counters
        for name in self.COUNTERS:
            if _in_files(name) in counters:
                setattr(self, name, counters[_in_files(name)])
        indices, rows = self.indices(), self.all_rows()
        for name in self.STEP_FIELDS:
            getattr(self, name)[indices] = arrays[_in_files(name)]
        for name in self.TABLE_FIELDS:
            # checkpoints from before there were several agents in an environment have no ``present``
            getattr(self, name)[rows] = arrays[name] if name in arrays else arrays["length"]
        self.steps = int(self.present[rows].sum())


def in_larger_table(array: npt.NDArray[Any], ids: I64) -> npt.NDArray[Any]:
    """Return a table of twice as many rows, with the rows of the episodes ``ids`` where they belong in it."""
    old = len(array)
    larger = np.zeros((2 * old, *array.shape[1:]), array.dtype)
    larger[ids % (2 * old)] = array[ids % old]
    return larger


def _in_files(name: str) -> str:
    return FILE_NAMES.get(name, name)

"""Storage of whole episodes in a ring of steps, with FIFO eviction; network outputs are stored in ``values.py``.

Only completed episodes are stored (as in the original implementation), because the value target of an open episode
would need a bootstrap that changes with every step. Fragments of long episodes (``fragment_length``) count as episodes
here, and are stored with the observations that precede them, so that windows continue across a cut. The steps of an
episode are adjacent (modulo the end of the ring), each quantity in its own contiguous array.

An environment with N agents is stored as N consecutive episodes of the same length, which are also removed together.
Thus each agent has its own backward recursion, and the N simultaneous steps can be found from any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.windows import StoredObservations, gather_windows

__all__ = ["Episode", "EpisodeStorage", "in_larger_table"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

EXPERIENCE = (
    "observation",
    "action",
    "behaviour_mean",
    "behaviour_std",
    "reward",
    "recurrent_state",
)
"""Fields of an episode with one entry per step."""

FILE_NAMES = {"episode_id": "serial", "first_id": "first_serial", "next_id": "next_serial"}
"""Names of these fields in checkpoints."""


@dataclass(frozen=True)
class Episode:
    """One completed episode of L >= 1 steps.

    Attributes
    ----------
    observation
        s_0 ... s_{L-1}, shape (L, S), unscaled.
    action
        Raw (unclipped) actions of the policy, shape (L, A).
    behaviour_mean, behaviour_std
        Statistics of the policy mu from which the actions were sampled, shape (L, A) for a Gaussian. For discrete
        actions the mean holds the probabilities, shape (L, K), and the standard deviation is empty, shape (L, 0).
    reward
        r_1 ... r_L, shape (L,), unscaled.
    value
        V(s_t) at the time the action was sampled, shape (L,).
    final_observation
        s_L, shape (S,).
    final_value
        V(s_L), 0 if ``terminated``; in a cooperative environment its mean over the agents.
    terminated
        Whether s_L is a terminal state (otherwise the episode was truncated).
    present
        Number of steps in which the agent took part; less than L if it ended before the others of its environment. The
        later steps are padding. ``None``: L.
    recurrent_state
        State of the network before each observation, shape (L, H), if the memory stores it.
    preceding_observation, preceding_state
        The last observations of the same episode before s_0, oldest first, shape (P, S), and the states of the network
        before them, shape (P, H). ``None``: the episode begins with s_0.
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
    recurrent_state: F32 | None = None
    preceding_observation: F32 | None = None
    preceding_state: F32 | None = None


class EpisodeStorage:
    """A ring of at most ``capacity`` steps that holds whole episodes.

    Parameters
    ----------
    capacity
        Capacity in environment steps (N), each of all agents of an environment.
    observation_size, action_size
        Number of components of a state and of an action.
    choices
        Number of discrete actions; 0 for continuous actions.
    agents_per_env
        Number of agents in one environment (N). Each uses 1/N of the ring.
    dtype
        Type of the observations: ``uint8`` for images; a million of 84 x 84 pixels then take 7 GB.
    state_size
        Number of components of the recurrent states (H); 0 if they are not stored.
    history
        Number of observations before a part of an episode that are stored with it: those of the longest window that
        ends at its first step.

    Attributes
    ----------
    observation, action, behaviour_mean, behaviour_std, reward, recurrent_state, position, episode_id
        Ring arrays. ``position`` is the index of a step in its episode, ``episode_id`` the id of that episode.
    start, length, present, terminated, final_observation
        Episode table, row ``episode_id % len(start)``.
    preceding, preceding_observation, preceding_state
        Episode table: number of observations of the same episode that precede the stored part, these, shape
        (rows, history, S), and the recurrent states before them; both aligned at the end.
    first_id, next_id
        Id of the oldest stored episode, and of the next one to be stored.
    tail
        Ring index of the oldest step.
    size
        Number of ring entries in use.
    steps
        Number of experiences, that is, entries in use without the padding of agents that ended before their
        environment.
    added
        Number of entries stored so far, including removed ones.
    """

    STEP_FIELDS = (*EXPERIENCE, "position", "episode_id")
    TABLE_FIELDS = (
        "start",
        "length",
        "present",
        "terminated",
        "final_observation",
        "preceding",
        "preceding_observation",
        "preceding_state",
    )
    COUNTERS = ("first_id", "next_id", "tail", "size", "steps", "added")

    def __init__(
        self,
        capacity: int,
        observation_size: int,
        action_size: int,
        choices: int = 0,
        agents_per_env: int = 1,
        dtype: npt.DTypeLike = np.float32,
        state_size: int = 0,
        history: int = 0,
    ) -> None:
        self.agents_per_env = agents_per_env
        self.capacity = capacity = capacity * agents_per_env
        self.observation: npt.NDArray[Any] = np.zeros((capacity, observation_size), dtype)
        self.action = np.zeros((capacity, action_size), np.float32)
        self.behaviour_mean = np.zeros((capacity, choices or action_size), np.float32)
        self.behaviour_std = np.zeros((capacity, 0 if choices else action_size), np.float32)
        self.reward = np.zeros(capacity, np.float32)
        self.recurrent_state = np.zeros((capacity, state_size), np.float32)
        self.position = np.zeros(capacity, np.int64)
        self.episode_id = np.zeros(capacity, np.int64)
        rows = 64 * agents_per_env
        self.start = np.zeros(rows, np.int64)
        self.length = np.zeros(rows, np.int64)
        self.present = np.zeros(rows, np.int64)
        self.terminated = np.zeros(rows, np.bool_)
        self.final_observation: npt.NDArray[Any] = np.zeros((rows, observation_size), dtype)
        self.preceding = np.zeros(rows, np.int64)
        self.preceding_observation: npt.NDArray[Any] = np.zeros(
            (rows, history, observation_size), dtype
        )
        self.preceding_state = np.zeros((rows, history, state_size), np.float32)
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
    def env_steps_added(self) -> int:
        """Number of steps stored so far, including removed ones, each of all agents of an environment."""
        return self.added // self.agents_per_env

    @property
    def oldest_step_id(self) -> int:
        """Id of the oldest stored step, which equals the number of removed steps."""
        return self.added - self.size

    def add(self, episode: Episode) -> int:
        """Store an episode, for which there must be room; return its row in the table."""
        steps = len(episode.reward)
        row = self.next_id % len(self.start)
        self.start[row] = (self.tail + self.size) % self.capacity
        self.length[row] = steps
        self.present[row] = steps if episode.present is None else episode.present
        self.terminated[row] = episode.terminated
        self.final_observation[row] = episode.final_observation
        self._add_preceding(row, episode)
        indices = self.episode_indices(row)
        for name in EXPERIENCE:
            if (given := getattr(episode, name)) is not None:
                getattr(self, name)[indices] = given
        self.position[indices] = np.arange(steps)
        self.episode_id[indices] = self.next_id
        self.next_id += 1
        self.size += steps
        self.steps += int(self.present[row])
        self.added += steps
        return row

    def _add_preceding(self, row: int, episode: Episode) -> None:
        """Store the observations that precede a part of an episode, and the recurrent states before them."""
        before = 0 if episode.preceding_observation is None else len(episode.preceding_observation)
        self.preceding[row] = before
        if before > 0:
            self.preceding_observation[row, -before:] = episode.preceding_observation
            self.preceding_state[row, -before:] = episode.preceding_state

    def remove_oldest(self) -> I64:
        """Remove the oldest episode of all agents of its environment; return the ring indices that became free."""
        rows = np.arange(self.first_id, self.first_id + self.agents_per_env) % len(self.start)
        steps = int(self.length[rows].sum())
        indices = (self.tail + np.arange(steps)) % self.capacity
        self.first_id += self.agents_per_env
        self.tail = (self.tail + steps) % self.capacity
        self.size -= steps
        self.steps -= int(self.present[rows].sum())
        return indices

    def double_table(self) -> None:
        """Double the number of rows of the episode table; rows move to their episode id modulo the new number."""
        ids = np.arange(self.first_id, self.next_id)
        for name in self.TABLE_FIELDS:
            setattr(self, name, in_larger_table(getattr(self, name), ids))

    def indices(self, step_ids: I64 | None = None) -> I64:
        """Return the ring indices of the steps with these ids, or of all steps from the oldest to the newest."""
        behind = np.arange(self.size) if step_ids is None else step_ids - self.oldest_step_id
        return (self.tail + behind) % self.capacity

    def step_ids(self, indices: I64) -> I64:
        """Return the ids of the steps at ``indices``: the number of steps stored before each."""
        return self.oldest_step_id + (indices - self.tail) % self.capacity

    def episode_indices(self, row: int) -> I64:
        """Return the ring indices of the steps of the episode in a row of the table, in order."""
        return (self.start[row] + np.arange(self.length[row])) % self.capacity

    def experiences(self) -> I64:
        """Return the ring indices of all stored steps in which the agents took part."""
        indices = self.indices()
        return indices if self.agents_per_env == 1 else indices[self.is_present(indices)]

    def of_all_agents(self, indices: I64) -> I64:
        """Return the ring indices of the simultaneous steps of all agents, adjacent per environment: (n,) to (n N,)."""
        if self.agents_per_env == 1:
            return indices
        agent = self.episode_id[indices] % self.agents_per_env
        ahead = np.arange(self.agents_per_env) - agent[:, None]
        lengths = self.length[self.rows(indices)]
        return ((indices[:, None] + ahead * lengths[:, None]) % self.capacity).ravel()

    def is_present(self, indices: I64) -> npt.NDArray[np.bool_]:
        """Return whether the agents took part in the steps at ``indices``, shape (n,)."""
        return self.position[indices] < self.present[self.rows(indices)]

    def rows(self, indices: I64) -> I64:
        """Return the rows of the episode table of the steps at ``indices``."""
        return self.episode_id[indices] % len(self.start)

    def steps_before(self, indices: I64) -> I64:
        """Return how many earlier observations are known of each step, also from before its part of the episode."""
        return self.position[indices] + self.preceding[self.rows(indices)]

    def all_rows(self) -> I64:
        """Return the rows of all episodes, from the oldest to the newest, shape (episodes,)."""
        return np.arange(self.first_id, self.next_id) % len(self.start)

    def truncated_rows(self) -> I64:
        """Return the rows of the truncated episodes, whose final value is estimated, with those of their environments.

        An environment is left out only if the episodes of all its agents terminated.
        """
        rows = self.all_rows()
        is_terminal = self.terminated[rows].reshape(-1, self.agents_per_env).all(axis=1)
        return rows[np.repeat(~is_terminal, self.agents_per_env)]

    def windows(self, indices: I64, steps: int, mean: F32, per_std: F32) -> F32:
        """Return standardised observations of the ``steps`` steps that end at each of ``indices``.

        Returns
        -------
        F32
            Shape (steps, B, S), aligned at the end; zero before the beginning of an episode.
        """
        return self.following(indices, steps, mean, per_std, np.zeros(len(indices), np.int64))

    def following(
        self, indices: I64, steps: int, mean: F32, per_std: F32, ahead: I64 | None = None
    ) -> F32:
        """Return windows like ``windows`` that end ``ahead`` steps (default 1) after ``indices``."""
        ahead = np.ones(len(indices), np.int64) if ahead is None else ahead
        out = np.empty((steps, len(indices), self.observation.shape[1]), np.float32)
        stored = StoredObservations(
            self.observation,
            self.position,
            self.episode_id,
            self.length,
            self.final_observation,
            self.preceding,
            self.preceding_observation,
        )
        gather_windows(stored, indices, ahead, mean, per_std, out)
        return out

    def states_before(self, indices: I64, steps: int) -> F32 | None:
        """Return the recurrent states before windows of ``steps`` steps that end at ``indices``, if they are stored.

        Returns
        -------
        F32 or None
            Shape (n, H), zero for the windows with fewer steps, those at the beginning of an episode.
        """
        if self.recurrent_state.shape[1] == 0:
            return None
        back, position = steps - 1, self.position[indices]
        known = self.steps_before(indices)
        states = self.recurrent_state[(indices - back) % self.capacity]
        states[known < back] = 0.0
        before = np.flatnonzero(
            (position < back) & (known >= back)
        )  # these begin in an earlier part
        rows = self.rows(indices[before])
        states[before] = self.preceding_state[rows, position[before] - back]
        return states

    def final_windows(
        self, rows: I64, steps: int, mean: F32, per_std: F32
    ) -> tuple[F32, I64, F32 | None]:
        """Return standardised windows that end at the final observations of the episodes in ``rows``.

        Returns
        -------
        windows
            Shape (steps, n, S), aligned at the end.
        lengths
            Number of observations in each window, shape (n,).
        states
            As from ``states_before``; ``steps`` must be at least 2 if they are stored.
        """
        final = (self.final_observation[rows] - mean) * per_std
        if steps == 1:
            return final[None], np.ones(len(rows), np.int64), None
        last = (self.start[rows] + self.length[rows] - 1) % self.capacity
        windows = np.concatenate([self.windows(last, steps - 1, mean, per_std), final[None]])
        lengths = np.minimum(self.length[rows] + self.preceding[rows], steps - 1) + 1
        return windows, lengths, self.states_before(last, steps - 1)

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int]]:
        """Return the arrays and counters for ``restore``, by their names in a checkpoint."""
        indices, rows = self.indices(), self.all_rows()
        arrays = {_in_files(name): getattr(self, name)[indices] for name in self.STEP_FIELDS}
        arrays |= {name: getattr(self, name)[rows] for name in self.TABLE_FIELDS}
        counters = {_in_files(name): getattr(self, name) for name in self.COUNTERS}
        return arrays, counters | {"rows": len(self.start)}

    def restore(self, arrays: dict[str, npt.NDArray[Any]], counters: dict[str, int]) -> None:
        """Restore the result of ``state`` of a storage with the same capacity and a table that is not larger."""
        # in older checkpoints ``steps`` is the number of entries, not of experiences
        counters = {"size": counters["steps"]} | counters
        for name in self.COUNTERS:
            if _in_files(name) in counters:
                setattr(self, name, counters[_in_files(name)])
        indices, rows = self.indices(), self.all_rows()
        for name in self.STEP_FIELDS:
            if _in_files(name) in arrays:  # older checkpoints have no ``recurrent_state``
                getattr(self, name)[indices] = arrays[_in_files(name)]
        # checkpoints older than multi-agent environments have no ``present``
        arrays = {"present": arrays["length"]} | arrays
        for name in self.TABLE_FIELDS:
            if name in arrays:  # older checkpoints have no observations that precede a part
                getattr(self, name)[rows] = arrays[name]
        self.steps = int(self.present[rows].sum())


def in_larger_table(array: npt.NDArray[Any], ids: I64) -> npt.NDArray[Any]:
    """Return a table with twice as many rows, with the rows of the episodes ``ids`` moved to their new positions."""
    old = len(array)
    larger = np.zeros((2 * old, *array.shape[1:]), array.dtype)
    larger[ids % (2 * old)] = array[ids % old]
    return larger


def _in_files(name: str) -> str:
    return FILE_NAMES.get(name, name)

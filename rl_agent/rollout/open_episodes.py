"""Open episodes: one per agent, filled step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay.storage import EXPERIENCE, Episode
from rl_agent.rollout.statistics import EpisodeRecord

__all__ = ["Decision", "OpenEpisodes"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Decision:
    """Actions sampled for the current observations of n agents, with everything needed to issue them later.

    Attributes
    ----------
    agents
        Agent numbers, shape (n,).
    action
        Raw actions, shape (n, A).
    mean, std
        The policy from which they were sampled, shape (n, A), or probabilities (n, K) and an empty array (n, 0).
    value
        Values of the observations, shape (n,).
    state
        Recurrent state after the observations, shape (n, H).
    noise
        State of the Ornstein-Uhlenbeck process, shape (n, A).
    random
        State of the random generator after sampling.
    """

    agents: I64
    action: F32
    mean: F32
    std: F32
    value: F32
    state: F32
    noise: F32
    random: dict[str, Any]


PER_STEP = (*EXPERIENCE, "value")

PER_AGENT = (
    "length",
    "is_open",
    "is_waiting",
    "state",
    "earlier_return",
    "earlier_steps",
    "gone_after",
    "preceding",
    "preceding_observation",
    "preceding_state",
)


class OpenEpisodes:
    """Arrays for one open episode per agent, which grow with the longest episode.

    Parameters
    ----------
    agents
        Number of agents.
    observation_size, action_size, state_size
        Number of components of an observation, an action and a recurrent state.
    choices
        Number of discrete actions; 0 for continuous actions.
    dtype
        Type of the observations.
    stored_state_size
        ``state_size`` if the memory stores recurrent states, otherwise 0.
    history
        Number of observations to keep from before a part that is split off (``EpisodeStorage``).

    Attributes
    ----------
    length
        Number of completed steps (with outcome) of each agent's episode, shape (agents,). The current observation
        of an agent is ``observation[agent, length[agent]]``.
    is_open
        Whether an agent has an open episode, shape (agents,).
    is_waiting
        Whether an action was issued whose outcome is not yet known, shape (agents,).
    state
        Recurrent state after the last observation for which an action was issued, shape (agents, state_size).
    earlier_return, earlier_steps
        Return and number of steps of the parts of the episode that were split off, shape (agents,).
    gone_after
        Number of steps after which an agent reached a terminal state while others in its environment continued, -1 if
        it has not, shape (agents,). Later steps are padding.
    preceding, preceding_observation, preceding_state
        Number of observations kept from the parts that were split off, shape (agents,), these observations, and the
        recurrent states before them, shape (agents, history, ...), aligned at the end.
    """

    def __init__(
        self,
        agents: int,
        observation_size: int,
        action_size: int,
        state_size: int,
        choices: int = 0,
        dtype: npt.DTypeLike = np.float32,
        stored_state_size: int = 0,
        history: int = 0,
    ) -> None:
        self.agents = agents
        room = 64
        self.observation: npt.NDArray[Any] = np.zeros((agents, room, observation_size), dtype)
        self.action = np.zeros((agents, room, action_size), np.float32)
        self.behaviour_mean = np.zeros((agents, room, choices or action_size), np.float32)
        self.behaviour_std = np.zeros((agents, room, 0 if choices else action_size), np.float32)
        self.reward = np.zeros((agents, room), np.float32)
        self.value = np.zeros((agents, room), np.float32)
        self.recurrent_state = np.zeros((agents, room, stored_state_size), np.float32)
        self.length = np.zeros(agents, np.int64)
        self.is_open = np.zeros(agents, np.bool_)
        self.is_waiting = np.zeros(agents, np.bool_)
        self.state = np.zeros((agents, state_size), np.float32)
        self.earlier_return = np.zeros(agents)
        self.earlier_steps = np.zeros(agents, np.int64)
        self.gone_after = np.full(agents, -1)
        self.preceding = np.zeros(agents, np.int64)
        self.preceding_observation: npt.NDArray[Any] = np.zeros(
            (agents, history, observation_size), dtype
        )
        self.preceding_state = np.zeros((agents, history, stored_state_size), np.float32)

    def begin(self, agents: I64, observations: F32) -> None:
        """Start episodes with their first observations, shape (n, S)."""
        self.length[agents] = 0
        self.is_open[agents] = True
        self.is_waiting[agents] = False
        self.state[agents] = 0.0
        self.earlier_return[agents] = 0.0
        self.earlier_steps[agents] = 0
        self.gone_after[agents] = -1
        self.preceding[agents] = 0
        self.observation[agents, 0] = observations

    def current(self, agents: I64) -> F32:
        """Return the current observations of agents, shape (n, S)."""
        return self.observation[agents, self.length[agents]]

    def issue(self, decision: Decision) -> None:
        """Record actions sampled for the current observations."""
        agents = decision.agents
        at = (agents, self.length[agents])
        self.action[at] = decision.action
        self.behaviour_mean[at] = decision.mean
        self.behaviour_std[at] = decision.std
        self.value[at] = decision.value
        if self.recurrent_state.shape[2] > 0:
            self.recurrent_state[at] = self.state[agents]
        self.state[agents] = decision.state
        self.is_waiting[agents] = True

    def receive(
        self,
        agents: I64,
        rewards: F32,
        observations: F32,
        has_left: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Record outcomes of the issued actions.

        Parameters
        ----------
        agents, rewards, observations
            Agent numbers (n,), rewards (n,), and resulting observations (n, S). Rewards of agents that had left before
            are ignored.
        has_left
            Which agents have reached a terminal state while others in their environment continue, shape (n,).
        """
        rewards = np.where(self.gone_after[agents] >= 0, np.float32(0.0), rewards)
        self.reward[agents, self.length[agents]] = rewards
        self.length[agents] += 1
        self.is_waiting[agents] = False
        if self.length.max() >= self.observation.shape[1]:
            self._grow()
        self.observation[agents, self.length[agents]] = observations
        if has_left is not None:
            leaving = agents[has_left & (self.gone_after[agents] < 0)]
            self.gone_after[leaving] = self.length[leaving]

    def withdraw(self, agents: I64) -> tuple[int, I64]:
        """Drop episodes without any steps; return the number of actions in progress, and agents with episodes left."""
        agents = agents[self.is_open[agents]]
        waiting = int(np.count_nonzero(self.is_waiting[agents]))
        for agent in agents[self.length[agents] + self.earlier_steps[agents] == 0]:
            self.drop(int(agent))
        return waiting, agents[self.is_open[agents]]

    def close(self, agent: int, final_value: float, terminated: bool) -> Episode:
        """End an agent's episode at its current observation, and return the steps that were not split off."""
        episode = self._so_far(agent, final_value, terminated)
        self.drop(agent)
        return episode

    def split(self, agent: int, final_value: float = 0.0) -> Episode:
        """Return the steps so far as a truncated episode; the agent's episode continues from there."""
        episode = self._so_far(agent, final_value, False)
        steps = int(self.length[agent])
        self.earlier_return[agent] += float(episode.reward.sum(dtype=np.float64))
        self.earlier_steps[agent] += steps
        self._keep_preceding(agent, steps)
        for name in PER_STEP:  # an action may already be in progress
            array = getattr(self, name)
            array[agent, 0] = array[agent, steps]
        self.length[agent] = 0
        if self.gone_after[agent] >= 0:
            self.gone_after[agent] = max(0, self.gone_after[agent] - steps)
        return episode

    def _keep_preceding(self, agent: int, steps: int) -> None:
        """Keep the newest observations of a part that is split off, and the recurrent states before them."""
        history = self.preceding_observation.shape[1]
        for kept, part in (
            (self.preceding_observation, self.observation),
            (self.preceding_state, self.recurrent_state),
        ):
            kept[agent] = np.concatenate([kept[agent], part[agent, :steps]])[steps:]
        self.preceding[agent] = min(history, self.preceding[agent] + steps)

    def earlier(self, agent: int) -> tuple[float, int]:
        """Return the return and the length of the parts of an agent's episode that were split off."""
        return float(self.earlier_return[agent]), int(self.earlier_steps[agent])

    def records(self, agents_per_env: int, step: int) -> list[EpisodeRecord]:
        """Return records of the open episodes of at least one step, including parts that were split off.

        Parameters
        ----------
        agents_per_env
            Number of agents in one environment; they share one record, whose return is the mean over them.
        step
            Environment steps of the learner.
        """
        is_step = np.arange(self.reward.shape[1]) < self.length[:, None]
        returns = self.earlier_return + self.reward.sum(axis=1, dtype=np.float64, where=is_step)
        returns = returns.reshape(-1, agents_per_env).mean(axis=1)
        lengths = (self.earlier_steps + self.length)[::agents_per_env]
        under_way = np.flatnonzero(self.is_open[::agents_per_env] & (lengths > 0))
        return [
            EpisodeRecord(int(agent), step, float(returns[agent]), int(lengths[agent]), False)
            for agent in under_way
        ]

    def _so_far(self, agent: int, final_value: float, terminated: bool) -> Episode:
        steps = int(self.length[agent])
        arrays = {name: getattr(self, name)[agent, :steps].copy() for name in PER_STEP}
        is_gone = self.gone_after[agent] >= 0
        present = min(steps, int(self.gone_after[agent])) if is_gone else steps
        for name in ("action", "behaviour_mean", "reward", "value"):
            arrays[name][present:] = 0.0
        # their logarithms are computed and then weighted with zero, so they must be finite
        is_discrete = arrays["behaviour_std"].shape[1] == 0
        arrays["behaviour_mean" if is_discrete else "behaviour_std"][present:] = 1.0
        terminated = terminated or is_gone
        oldest = self.preceding_observation.shape[1] - int(self.preceding[agent])
        return Episode(
            **arrays,
            final_observation=self.observation[agent, steps].copy(),
            final_value=0.0 if terminated else final_value,
            terminated=terminated,
            present=present,
            preceding_observation=self.preceding_observation[agent, oldest:].copy(),
            preceding_state=self.preceding_state[agent, oldest:].copy(),
        )

    def drop(self, agent: int) -> None:
        """End an agent's episode without keeping it."""
        self.length[agent] = 0
        self.is_open[agent] = False
        self.is_waiting[agent] = False

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for ``restore``."""
        used = int(self.length.max()) + 1
        return {name: getattr(self, name)[:, :used] for name in PER_STEP} | {
            name: getattr(self, name) for name in PER_AGENT
        }

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the result of ``save``."""
        used = arrays["reward"].shape[1]
        while self.observation.shape[1] < used:
            self._grow()
        for name in PER_STEP:
            if name in arrays:  # older checkpoints have no ``recurrent_state``
                getattr(self, name)[:, :used] = arrays[name]
        for name in PER_AGENT:
            if name in arrays:  # older checkpoints have no ``gone_after`` or ``preceding``
                getattr(self, name)[:] = arrays[name]

    def _grow(self) -> None:
        for name in PER_STEP:
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)], axis=1))

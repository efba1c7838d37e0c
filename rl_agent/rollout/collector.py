"""Interface between a learner and the environments: input checks, actions, outcomes and ended episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm
from rl_agent.config import AgentConfig
from rl_agent.normalization.actions import with_previous_action
from rl_agent.normalization.spaces import Sizes
from rl_agent.normalization.states import LARGEST_NUMBER, StateScale
from rl_agent.replay import EpisodeMemory
from rl_agent.rollout.behaviour import Behaviour
from rl_agent.rollout.exploration import Exploration
from rl_agent.rollout.inputs import Inputs, of_each, refuse
from rl_agent.rollout.open_episodes import Decision, OpenEpisodes
from rl_agent.rollout.storing import EpisodeStore
from rl_agent.rollout.value_estimates import ValueEstimator

__all__ = ["Collector", "Outcome"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Outcome(NamedTuple):
    """Members whose actions had an outcome, and whether their episodes ended.

    Attributes
    ----------
    members
        Numbers of the members, those of a multi-agent environment consecutive, shape (n,).
    terminated, has_ended
        Whether the episode ended in a terminal state, and whether it ended at all, shape (n,).
    """

    members: I64
    terminated: Flags
    has_ended: Flags


class Collector:
    """Samples actions of agents in open episodes, and records the outcomes.

    Parameters
    ----------
    config, sizes
        Settings of the learner, and sizes of the task.
    agents
        Number of agents served, numbered from 0.
    algorithm, state_scale
        The newest policy, and the scale of its inputs.
    memory, values
        Memory for ended episodes, and estimator of V where an episode is cut.
    rng
        Random generator of the exploration.

    Attributes
    ----------
    open_episodes, exploration, behaviour
        The episodes that have not ended, the exploration noise, and the behaviour policy.
    store
        Moves episodes to the memory.
    """

    def __init__(
        self,
        config: AgentConfig,
        sizes: Sizes,
        agents: int,
        algorithm: Algorithm,
        state_scale: StateScale,
        memory: EpisodeMemory,
        values: ValueEstimator,
        rng: np.random.Generator,
    ) -> None:
        self._agents_per_env, self._scale = sizes.agents_per_env, state_scale
        self._sizes, self._squash = sizes, config.squash
        members = agents * sizes.agents_per_env
        self._inputs = Inputs(agents, sizes, pictures=config.network == "conv")
        self.open_episodes = OpenEpisodes(
            members,
            sizes.observation,
            sizes.action,
            algorithm.network.state_shape[0],
            sizes.choices,
            memory.storage.observation.dtype,
            memory.storage.recurrent_state.shape[1],
            memory.storage.preceding_observation.shape[1],
        )
        self.exploration = Exploration(config, members, sizes.action)
        parts = self.open_episodes, self.exploration
        self.behaviour = Behaviour(algorithm, state_scale, *parts, rng)
        cooperative = {"is_cooperative": config.is_cooperative}
        self.store = EpisodeStore(self.open_episodes, memory, values, **cooperative)

    def checked(self, agents: npt.ArrayLike, observations: npt.ArrayLike) -> tuple[I64, F32]:
        """Check and return environments, (n,), and their observations, (n, S) or (n, N, S)."""
        numbers = self._inputs.agents(agents)
        return numbers, self._inputs.observations(numbers, observations)

    def begin(self, agents: I64, observations: F32) -> None:
        """Start episodes of checked agents with checked observations."""
        members = self._inputs.members(agents)
        self.open_episodes.begin(members, self._read(self._rows(observations)))
        self.exploration.begin(members)

    def decide(self, agents: npt.ArrayLike, *, has_learned: bool) -> Decision:
        """Sample actions for the current observations of agents; raises as ``Behaviour.decide``."""
        members = self._inputs.members(self._inputs.agents(agents))
        return self.behaviour.decide(members, has_learned=has_learned)

    def issue(self, decision: Decision) -> int:
        """Record sampled actions as issued; return the number of their environments."""
        self.behaviour.issue(decision)
        return len(decision.agents) // self._agents_per_env

    def receive(
        self,
        agents: npt.ArrayLike,
        rewards: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike,
        observations: npt.ArrayLike,
        agent_ended: npt.ArrayLike | None,
    ) -> Outcome:
        """Check and record the outcomes of issued actions; arguments and errors as in ``Learner.observe``."""
        agents, observations = self.checked(agents, observations)
        rewards = self._inputs.rewards(agents, rewards)
        terminated = self._inputs.flags(agents, terminated, "terminated")
        ended = terminated | self._inputs.flags(agents, truncated, "truncated")
        members, episodes = self._inputs.members(agents), self.open_episodes
        idle = members[~episodes.is_waiting[members]] // self._agents_per_env
        refuse(idle, "does not wait for an outcome: act first")
        if self._agents_per_env > 1:
            gone = self._inputs.ended(agents, agent_ended).ravel()
            terminated, ended = (np.repeat(x, self._agents_per_env) for x in (terminated, ended))
            terminated = terminated | gone
        taken, seen = episodes.action[members, episodes.length[members]], self._rows(observations)
        episodes.receive(members, rewards.ravel(), self._read(seen, taken), terminated & ~ended)
        return Outcome(members, terminated, ended)

    def withdraw(self, agents: npt.ArrayLike) -> tuple[int, I64]:
        """Drop actions without an outcome; return the number of their environments, and members with steps to store."""
        withdrawn, members = self.open_episodes.withdraw(
            self._inputs.members(self._inputs.agents(agents))
        )
        return withdrawn // self._agents_per_env, members

    def are_learnable(self, observations: npt.ArrayLike) -> Flags:
        """Return which observations, (n, S) or (n, N, S), can be learned from; see ``Learner.learnable``."""
        array = np.asarray(observations, np.float32)
        near = self._scale.are_near(self._read(self._rows(array)))
        fine = of_each(np.abs(array) <= LARGEST_NUMBER) & self._inputs.are_readable(array)
        return np.asarray(fine & near.reshape(len(array), self._agents_per_env).all(axis=1))

    def _rows(self, observations: F32) -> F32:
        """Return the observations of all members, those of an environment consecutive, shape (n N, S)."""
        return observations.reshape(-1, self._sizes.seen)

    def _read(self, seen: F32, raw: F32 | None = None) -> F32:
        """Return the network inputs for observations after raw actions, or at the beginning of episodes."""
        return with_previous_action(seen, raw, self._sizes, self._squash)

    @property
    def open_steps(self) -> int:
        """Number of steps in open episodes, over all agents."""
        return int(self.open_episodes.length.sum())

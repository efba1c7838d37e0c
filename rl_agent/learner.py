"""The master loop of the paper (algorithm 1): act, observe, sample, update.

A learner serves any number of agents, each in its own environment. The code that owns the environments calls ``begin``,
``act`` and ``observe``, and ``update`` as often as ``updates_due()`` returns. The algorithm's schedule decides what is
due (``rl_agent/schedule.py``), and the learner carries it out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.config import OnPolicyConfig
from rl_agent.replay import EpochSampler, SampledBatch, Source
from rl_agent.rollout.open_episodes import Decision
from rl_agent.rollout.statistics import EpisodeRecord
from rl_agent.saving.learner_state import LearnerState

__all__ = ["Learner"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Learner(LearnerState):
    """A learning agent that serves many environments at once; its components are in ``LearnerState``.

    Parameters
    ----------
    config
        Settings of the learner.
    observation_space, action_space
        Spaces of one agent: a flat ``Box``, and a flat ``Box`` with finite bounds or ``Discrete``.
    agents
        Number of environments served (E), numbered from 0.
    seed
        Seed of the initial weights, the exploration and the sampling from the memory.
    agents_per_env
        Number of agents in one environment (N). If there are several, they are the second axis of the arrays of n
        environments: observations (n, N, S), actions (n, N, A), rewards (n, N). Settings and counters are in
        environment steps.

    Attributes
    ----------
    notes
        JSON-serialisable data of the caller, stored in the checkpoint.

    Raises
    ------
    ValueError
        If a space is not supported, there are no agents, the algorithm does not support several agents per environment,
        or the device is not available (``DeviceError``).
    """

    def begin(self, agents: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """Start a new episode of each agent, shape (n,), with observations of shape (n, S) or (n, N, S).

        An open episode is closed as truncated.

        Raises
        ------
        ValueError
            If an agent number or an observation is not valid.
        """
        agents, observations = self.collector.checked(agents, observations)
        self.abandon(agents)
        self.collector.begin(agents, observations)

    def act(self, agents: npt.ArrayLike) -> F32:
        """Sample and issue an action from the newest policy for the current observation of each agent.

        Returns
        -------
        F32
            Actions in the task's units, shape (n, A) or (n, N, A), not clipped to the bounds; discrete actions are
            numbers, A = 1.

        Raises
        ------
        ValueError
            If an agent has no open episode, or the outcome of its last action is missing.
        FloatingPointError
            If learning has diverged.
        """
        return self.issue(self.decide(agents))

    def decide(self, agents: npt.ArrayLike) -> Decision:
        """Sample actions as :meth:`act` does, without issuing them yet, so that a service can log them first."""
        return self.collector.decide(agents, has_learned=self.counters.is_learning)

    def issue(self, decision: Decision) -> F32:
        """Issue sampled actions, including ones logged before the learner was killed; returns as :meth:`act`."""
        count = self.collector.issue(decision)
        self.counters.issued += count
        shape = (count, *self.sizes.agents_axis, self.sizes.action)
        return self.action_map(decision.action).reshape(shape)

    def observe(
        self,
        agents: npt.ArrayLike,
        rewards: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike,
        observations: npt.ArrayLike,
        agent_ended: npt.ArrayLike | None = None,
    ) -> None:
        """Record the outcome of each agent's last action.

        Parameters
        ----------
        agents
            Distinct agent numbers, shape (n,).
        rewards
            Unscaled rewards, shape (n,) or (n, N).
        terminated, truncated
            Whether the episode ended in a terminal state, or was truncated, shape (n,); applies to all agents of an
            environment.
        observations
            Resulting observations (the final ones of ended episodes), shape (n, S) or (n, N, S).
        agent_ended
            Which agents of a multi-agent environment have reached a terminal state by now, shape (n, N); ``None``:
            all of them if ``terminated``, otherwise none.

        Raises
        ------
        ValueError
            If an agent has no action in progress, or a number is not finite.
        """
        outcome = self.collector.receive(
            agents, rewards, terminated, truncated, observations, agent_ended
        )
        members, has_ended = outcome.members, outcome.has_ended
        self.counters.received += len(members) // self.agents_per_env
        records = []
        if has_ended.any():
            records = self._close(members[has_ended], outcome.terminated[has_ended])
        for record in records:
            change = self.performance.add(record.episode_return, self.config.performance_window)
            if change is not None and self.gradient_steps > 0:
                self.sampler.reward(self._source(), change, self.rng)
        self._store_parts(members[~has_ended])

    def abandon(self, agents: npt.ArrayLike) -> None:
        """Close the open episodes of lost agents as truncated; actions without an outcome are dropped."""
        withdrawn, members = self.collector.withdraw(agents)
        self.counters.issued -= withdrawn
        self._close(members, np.zeros(len(members), np.bool_))

    def learnable(self, observations: npt.ArrayLike) -> Flags:
        """Return which observations (shaped as in ``begin``) can be learned from.

        They are within the limits of ``normalization/states.py``, and images consist of whole numbers from 0 to 255.
        """
        return self.collector.are_learnable(observations)

    def updates_due(self) -> int:
        """Return the number of gradient steps that are due now."""
        return self.schedule.updates_due(self.counters, self._batches_left)

    def may_act(self) -> bool:
        """Return whether agents may act, that is, not too many gradient steps are due."""
        return self.schedule.may_act(self.counters, self._batches_left)

    def update(self) -> None:
        """Take one gradient step: sample, learn, refresh the memory, update beta, sweep if due.

        Raises
        ------
        ValueError
            If learning has not started, or the memory is empty.
        """
        if not self.counters.is_learning:
            raise ValueError(
                f"learning starts after learning_starts = {self.config.learning_starts} steps, not after "
                f"{self.memory.storage.env_steps_added}"
            )
        step, memory, source = self.counters.received, self.memory, self._source()
        sampled = self.sampler.sample(memory.storage, self.config.sample_size, self.rng)
        indices, batch = self.algorithm.gather(source, sampled)
        weights = self.sampler.weights(indices, self.config.importance_correction(step))
        rate, rules = self.refer.learning_rate(step), self.refer.rules(step)
        e = self.algorithm.update(batch, rate, rules, weights)
        if self.algorithm.uses_value_targets:
            units = source.gamma, source.reward_scale
            memory.values.refresh(indices, e.value, e.rho, e.kl, e.far, *units, e.advantage)
        else:
            memory.values.store(indices, e.value, e.rho, e.kl, e.far)
        if e.td_error is not None:
            priority = e.td_error if e.priority is None else e.priority
            self.sampler.learn(SampledBatch(source, indices, e.td_error, e.value, priority))
        self.refer.update_beta(memory.values.n_far, memory.storage.steps, step)
        self.counters.gradient_steps += 1
        self.handed_out = None
        if self.average and self.average.is_due(self.gradient_steps):
            self.average.add(self.algorithm.acting_weights, self.gradient_steps)
        self._statistics.add_update(e)
        if self.schedule.sweeps(self.counters):
            self.sweep_memory()
        if self.schedule.ends_iteration(self.counters, self._batches_left):
            memory.remove_before(self.counters.iteration_end)

    def sweep_memory(self) -> None:
        """Update the reward scale, refresh V(s_T), and recompute every V_tbc and far-policy flag."""
        self.values.sweep(self.gamma, self.refer.c_max(self.counters.received))

    @property
    def _batches_left(self) -> int:
        """Number of batches left in the epochs of the current iteration."""
        sampler = self.sampler
        return sampler.left(self.config.sample_size) if isinstance(sampler, EpochSampler) else 0

    def _source(self) -> Source:
        scale = self.state_scale
        return Source(self.memory, scale.mean, scale.per_std, self.gamma, self.reward_scale.value)

    def _close(self, members: I64, terminated: Flags) -> list[EpisodeRecord]:
        """Store and count ended episodes."""
        units = self.counters.received, self.gamma, self.reward_scale.value
        records = self.collector.store.close(members, terminated, *units)
        self.counters.episodes += len(records)
        self._statistics.add_episodes(records)
        self._begin_learning_if_due()
        return records

    def _store_parts(self, members: I64) -> None:
        """Store what is due of continuing episodes: fragments, at most as long as the memory, or a horizon."""
        store, storage = self.collector.store, self.memory.storage
        longest = storage.capacity // self.agents_per_env
        length = min(longest, self.schedule.fragment_length or longest)
        store.store_fragments(members, length, self.gamma, self.reward_scale.value)
        self._begin_learning_if_due()
        collected = storage.steps + self.collector.open_steps
        if self.schedule.begins_iteration(self.counters, self._batches_left, collected):
            self._begin_iteration()

    def _begin_learning_if_due(self) -> None:
        """Freeze the state scale and start counting gradient steps, if enough steps are stored."""
        storage = self.memory.storage
        if self.schedule.begins_learning(self.counters, storage.env_steps_added):
            self.state_scale.freeze(storage.observation[storage.experiences()])
            self.counters.begin_learning()
            self.sweep_memory()

    def _begin_iteration(self) -> None:
        """Cut the open episodes, and compute values, returns and advantages for the iteration."""
        assert isinstance(self.config, OnPolicyConfig)
        assert isinstance(self.sampler, EpochSampler)
        self.collector.store.cut_all(self.gamma, self.reward_scale.value)
        indices = self.values.prepare_horizon(self.config, self.gamma)
        if not self.counters.is_learning:
            self.counters.begin_learning()
        self.counters.iteration_end = self.memory.storage.next_id
        self.sampler.begin(indices, self.config.passes)

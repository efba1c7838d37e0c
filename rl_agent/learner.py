"""The master loop of the paper (algorithm 1): act, observe, sample, update.

A learner serves any number of agents, each in an environment of its own, and is driven from outside: whoever owns the
environments calls ``begin``, ``act`` and ``observe``, and ``update`` whenever ``updates_due()`` says so. The schedule
of the algorithm decides what is due (``rl_agent/schedule.py``), and the learner carries it out with its parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401  (loads the BLAS that numba calls, so that the thread limit reaches it)
from threadpoolctl import threadpool_limits

from rl_agent.algorithms.making import make_algorithm
from rl_agent.config import AgentConfig, OnPolicyConfig
from rl_agent.multi_agent import joint
from rl_agent.networks.optim.averaging import make_average
from rl_agent.normalization.actions import action_map_of
from rl_agent.normalization.rewards import RewardScale
from rl_agent.normalization.spaces import sizes_of
from rl_agent.normalization.states import LARGEST_NUMBER, StateScale
from rl_agent.policy import Policy
from rl_agent.replay import Drawn, EpisodeMemory, EpochSampler, RememberForget, Source, make_sampler
from rl_agent.replay.samplers.performance import Performance
from rl_agent.rollout import inputs
from rl_agent.rollout.behaviour import Behaviour
from rl_agent.rollout.bootstrap import Bootstrap
from rl_agent.rollout.exploration import Exploration
from rl_agent.rollout.open_episodes import Decision, OpenEpisodes
from rl_agent.rollout.statistics import EpisodeRecord, Statistics, of_memory
from rl_agent.rollout.storing import EpisodeStore
from rl_agent.runtime import lazy_torch
from rl_agent.runtime.device import check_device
from rl_agent.saving import learner_state
from rl_agent.saving.checkpoint import made_from, read_checkpoint, write_checkpoint
from rl_agent.schedule import Counters

__all__ = ["Learner"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Learner:
    """A learning agent that serves many environments at once.

    Parameters
    ----------
    config
        Its settings.
    observation_space, action_space
        A flat box, and a flat box with finite bounds or ``Discrete``; joint ones of a multi-agent environment.
    agents
        Number of agents served, numbered from 0.
    seed
        Seed of the first weights, of the exploration and of what is sampled from the memory.
    world
        Agents that act together in one environment (N), which looks like one agent from outside
        (``rl_agent/multi_agent/joint.py``). Settings and counters are in its steps.

    Attributes
    ----------
    handed_out
        Weights of an earlier policy that are handed out instead of the newest ones or their average, if any.
    notes
        What whoever drives the learner wants to find in its checkpoint again, fit for JSON.

    Raises
    ------
    ValueError
        If a space cannot be served, there are no agents, the algorithm cannot serve several in one environment, or the
        device is not there (``DeviceError``).
    """

    def __init__(
        self,
        config: AgentConfig,
        observation_space: gymnasium.spaces.Box,
        action_space: joint.ActionSpace,
        *,
        agents: int,
        seed: int,
        world: int = 1,
    ) -> None:
        seen, acted = joint.own_spaces(observation_space, action_space, world)
        self.config, self.agents, self.world = config, agents, world
        self.sizes = sizes = sizes_of(seen, acted, world)
        if agents < 1:
            raise ValueError(f"agents = {agents} must be at least 1")
        inputs.check_world(config, world)
        check_device(config.device)
        threadpool_limits(config.threads)
        lazy_torch.use_threads(config.threads)
        self.action_map = action_map_of(acted, config.squash)
        seeds = np.random.SeedSequence(seed).spawn(4)
        first, explore, self._rng, scores = (np.random.default_rng(s) for s in seeds)
        self.algorithm = algorithm = make_algorithm(config, sizes, first)
        self.average = make_average(config, algorithm.acting_weights)
        self.handed_out: F32 | None = None
        self.sampler = make_sampler(config, sizes, scores)
        self.performance = Performance()
        self.refer, self.reward_scale = RememberForget(config), RewardScale()
        self.state_scale = StateScale(sizes.observation)
        if config.network == "conv":
            self.state_scale.freeze_to(inputs.largest_pixel(config, seen))
        dtype = np.uint8 if config.network == "conv" else np.float32
        self.memory = EpisodeMemory(
            algorithm.schedule.capacity(config, agents),
            sizes.observation,
            sizes.action,
            sizes.choices,
            world,
            config.trace_decay,
            dtype,
        )
        self.open_episodes = OpenEpisodes(
            agents * world,
            sizes.observation,
            sizes.action,
            algorithm.network.state_shape[0],
            sizes.choices,
            dtype,
        )
        self.exploration = Exploration(config, agents * world, sizes.action)
        self._inputs = inputs.Inputs(agents, world, sizes.observation)
        parts = self.open_episodes, self.exploration
        self._behaviour = Behaviour(algorithm, self.state_scale, *parts, explore)
        cooperative = {"is_cooperative": config.is_cooperative}
        self.bootstrap = Bootstrap(algorithm, self.state_scale, self.memory, **cooperative)
        self._store = EpisodeStore(self.open_episodes, self.memory, self.bootstrap, **cooperative)
        self._schedule = algorithm.schedule(config, agents)
        self._statistics, self.counters = Statistics(), Counters()
        self.notes: dict[str, Any] = {}

    @property
    def generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Random generators: of the exploration, and of what is sampled from the memory."""
        return self._behaviour.rng, self._rng

    @property
    def environment_steps(self) -> int:
        """Environment steps t: actions whose outcome has arrived, over all agents."""
        return self.counters.received

    @property
    def gradient_steps(self) -> int:
        """Gradient steps k."""
        return self.counters.gradient_steps

    @property
    def episodes(self) -> int:
        """Completed episodes."""
        return self.counters.episodes

    @property
    def gamma(self) -> float:
        """Present discount factor: the only one that anything learns with."""
        return self.config.discount(self.counters.received)

    def begin(self, agents: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """Start a new episode of each agent, (n,), seeing (n, S); one that is still open is closed as truncated.

        Raises
        ------
        ValueError
            If an agent number or an observation is not valid.
        """
        agents = self._inputs.agents(agents)
        observations = self._inputs.observations(agents, observations)
        self.abandon(agents)
        members = self._inputs.members(agents)
        self.open_episodes.begin(members, self._inputs.unpack(observations)[0])
        self.exploration.begin(members)

    def act(self, agents: npt.ArrayLike) -> F32:
        """Sample and issue an action for the current observation of each agent from the newest policy.

        Returns
        -------
        F32
            Actions in the task's units, shape (n, A), not clipped to the bounds; discrete ones as numbers, (n, 1).

        Raises
        ------
        ValueError
            If an agent has no open episode, or already waits for the outcome of an action.
        FloatingPointError
            If learning has diverged.
        """
        return self.issue(self.decide(agents))

    def decide(self, agents: npt.ArrayLike) -> Decision:
        """Sample actions as :meth:`act` does, without issuing them yet: a service may log them first."""
        members = self._inputs.members(self._inputs.agents(agents))
        return self._behaviour.decide(members, has_learned=self.counters.is_learning)

    def issue(self, decision: Decision) -> F32:
        """Issue sampled actions, also those that were logged before the learner died; result as of :meth:`act`."""
        self._behaviour.issue(decision)
        count = len(decision.agents) // self.world
        self.counters.issued += count
        return self.action_map(decision.action).reshape(count, -1)

    def observe(
        self,
        agents: npt.ArrayLike,
        rewards: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike,
        observations: npt.ArrayLike,
    ) -> None:
        """Take the outcome of each agent's last action.

        Parameters
        ----------
        agents
            Distinct agent numbers, shape (n,).
        rewards
            Unscaled rewards, shape (n,); those of the members of a multi-agent environment are in its observation.
        terminated, truncated
            Whether the episode ended in a terminal state, or was cut short, shape (n,); for all members at once. Which
            of them had reached a terminal state before is in the joint observation.
        observations
            Resulting observations (the final ones of ended episodes), shape (n, S).

        Raises
        ------
        ValueError
            If an agent waits for no outcome, or a number is not finite.
        """
        agents = self._inputs.agents(agents)
        observations = self._inputs.observations(agents, observations)
        rewards, terminated = np.asarray(rewards, np.float32), np.asarray(terminated, np.bool_)
        ended = terminated | np.asarray(truncated, np.bool_)
        inputs.refuse(agents[~np.isfinite(rewards)], "sent a reward that is not finite")
        members, episodes = self._inputs.members(agents), self.open_episodes
        idle = members[~episodes.is_waiting[members]] // self.world
        inputs.refuse(idle, "waits for no outcome: act first")
        if self.world > 1:
            observations, rewards, gone = self._inputs.unpack(observations)
            terminated, ended = (np.repeat(x, self.world) for x in (terminated, ended))
            terminated = terminated | gone
        episodes.receive(members, rewards, observations, terminated & ~ended)
        self.counters.received += len(agents)
        if ended.any():
            for record in self._close(members[ended], terminated[ended]):
                self._adapt_sampler(record.episode_return)
        self._store_parts(members[~ended])

    def abandon(self, agents: npt.ArrayLike) -> None:
        """Close the open episodes of lost agents as truncated; an action without outcome is dropped."""
        members = self._inputs.members(self._inputs.agents(agents))
        withdrawn, members = self.open_episodes.withdraw(members)
        self.counters.issued -= withdrawn // self.world
        self._close(members, np.zeros(len(members), np.bool_))

    def learnable(self, observations: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Tell which observations, shape (n, S), are within the limits of ``rl_agent/normalization/states.py``."""
        array = np.asarray(observations, np.float32)
        near = self.state_scale.are_near(self._inputs.unpack(array)[0])
        fine = (np.abs(array) <= LARGEST_NUMBER).all(axis=1)
        return np.asarray(fine & near.reshape(len(array), self.world).all(axis=1))

    def updates_due(self) -> int:
        """Gradient steps owed now."""
        return self._schedule.updates_due(self.counters, self._batches_left)

    def may_act(self) -> bool:
        """Whether agents may be answered, or too many gradient steps are owed for that."""
        return self._schedule.may_act(self.counters, self._batches_left)

    def update(self) -> None:
        """Take one gradient step with its bookkeeping: sample, learn, refresh, move beta, sweep when due.

        Raises
        ------
        ValueError
            If learning has not started, or the memory is empty.
        """
        if not self.counters.is_learning:
            raise ValueError(
                f"learning starts after learning_starts = {self.config.learning_starts} steps, not after "
                f"{self.memory.world_steps}"
            )
        step, algorithm, memory, source = (
            self.counters.received, self.algorithm, self.memory, self._source()
        )  # fmt: skip
        sampled = self.sampler.draw(memory, self.config.draws, self._rng)
        places, batch = algorithm.gather(source, sampled)
        weights = self.sampler.weights(places, self.config.importance_correction(step))
        e = algorithm.update(batch, self.refer.learning_rate(step), self.refer.rules(step), weights)
        if algorithm.uses_value_targets:
            memory.refresh(places, e.value, e.rho, e.kl, e.far, *source[3:], e.advantage)
        else:
            memory.store(places, e.value, e.rho, e.kl, e.far)
        if e.td_error is not None:
            priority = e.td_error if e.priority is None else e.priority
            self.sampler.learn(Drawn(source, places, e.td_error, e.value, priority))
        self.refer.update_beta(memory.n_far, memory.steps, step)
        self.counters.gradient_steps += 1
        self.handed_out = None
        if self.average and self.average.is_due(self.gradient_steps):
            self.average.add(algorithm.acting_weights, self.gradient_steps)
        self._statistics.add_update(e)
        if self._schedule.sweeps(self.counters):
            self.sweep_memory()
        if self._schedule.ends_iteration(self.counters, self._batches_left):
            memory.forget_before(self.counters.learned_serial)

    def sweep_memory(self) -> None:
        """Measure the reward scale, refresh V(s_T), recompute every V_tbc and flag."""
        self.reward_scale.measure(self.memory.reward[self.memory.experiences()])
        if self.algorithm.uses_value_targets:
            self.bootstrap.refresh_final_values()
            self.memory.sweep(self.gamma, self.reward_scale.value)
        self.memory.classify(self.refer.c_max(self.counters.received))

    @property
    def _batches_left(self) -> int:
        """Batches still to come of the epochs of an iteration."""
        sampler = self.sampler
        return sampler.left(self.config.draws) if isinstance(sampler, EpochSampler) else 0

    def _source(self) -> Source:
        scale = self.state_scale
        return Source(self.memory, scale.mean, scale.per_std, self.gamma, self.reward_scale.value)

    def _adapt_sampler(self, episode_return: float) -> None:
        """Tell the sampler by how much episodes got better, once learning has started."""
        change = self.performance.add(episode_return, self.config.performance_window)
        if change is not None and self.gradient_steps > 0:
            self.sampler.reward(self._source(), change, self._rng)

    def _close(self, members: I64, terminated: npt.NDArray[np.bool_]) -> list[EpisodeRecord]:
        """Store ended episodes, and tell of them."""
        records = self._store.close(
            members, terminated, self.counters.received, self.gamma, self.reward_scale.value
        )
        self.counters.episodes += len(records)
        for record in records:
            self._statistics.add_episode(record)
        self._begin_learning_if_due()
        return records

    def _store_parts(self, members: I64) -> None:
        """Store what is due of the episodes that go on: those as long as the memory, fragments, or a horizon."""
        units, episodes = (self.gamma, self.reward_scale.value), self.open_episodes
        endless = self._store.as_long_as_memory(members)
        if len(endless) > 0:
            observations, state = episodes.current(endless), episodes.state[endless]
            self._close(endless, np.zeros(len(endless), np.bool_))
            episodes.begin(endless, observations)
            episodes.state[endless] = state
        if self._schedule.fragment_length is not None:
            self._store.store_fragments(members, self._schedule.fragment_length, *units)
            self._begin_learning_if_due()
        collected = self.memory.steps + int(episodes.length.sum())
        if self._schedule.begins_iteration(self.counters, self._batches_left, collected):
            self._begin_iteration()

    def _begin_learning_if_due(self) -> None:
        """Freeze the scale of the states, and count gradient steps from now on."""
        if self._schedule.begins_learning(self.counters, self.memory.world_steps):
            self.state_scale.freeze(self.memory.observation[self.memory.experiences()])
            self.counters.warm_up = self.counters.issued
            self.sweep_memory()

    def _begin_iteration(self) -> None:
        """Cut the open episodes, and compute what is learned from: values, returns and advantages."""
        config, memory, scale = self.config, self.memory, self.reward_scale
        assert isinstance(config, OnPolicyConfig)
        assert isinstance(self.sampler, EpochSampler)
        self._store.cut_all(self.gamma, scale.value)
        places = memory.places()
        scale.accumulate(memory.reward[places])
        if not self.counters.is_learning:
            self.state_scale.freeze(memory.observation[places])
            self.counters.warm_up = self.counters.issued
        self.bootstrap.refresh_values(places)
        memory.estimate_advantages(
            self.gamma, config.return_lambda, scale.value, standardise=config.standardises
        )
        self.counters.learned_serial = memory.next_serial
        self.sampler.begin(places, config.passes)

    def statistics(self) -> dict[str, float]:
        """Statistics since the last call (section 6 of the algorithm notes); see ``rl_agent.rollout.statistics``."""
        step, share = self.counters.received, self.sampler.effective_share(self.memory)
        return self._statistics.take() | {
            "environment_steps": float(step),
            "gradient_steps": float(self.counters.gradient_steps),
            "episodes_total": float(self.counters.episodes),
            "memory_steps": float(self.memory.world_steps),
            "memory_episodes": float(self.memory.episodes // self.world),
            "beta": self.refer.beta,
            "c_max": self.refer.c_max(step),
            "learning_rate": self.refer.learning_rate(step),
            **of_memory(self.memory),
            "policy_std": self._behaviour.policy_std,
            "reward_scale": self.reward_scale.value,
            **({} if share is None else {"effective_share": share}),
            **self.algorithm.statistics(),
        }

    def finished_episodes(self) -> list[EpisodeRecord]:
        """Episodes completed since the last call, in order."""
        return self._statistics.take_episodes()

    def episodes_under_way(self) -> list[EpisodeRecord]:
        """Episodes of at least one step that have not ended, as they are now."""
        return self.open_episodes.records(self.world, self.counters.received)

    def policy(self) -> Policy:
        """Take a snapshot of the current policy, or its average where one is kept: independent of further learning.

        Where :meth:`hand_out` was told of an earlier one, it is that one until the next gradient step.
        """
        weights = self.average.weights if self.average else self.algorithm.acting_weights
        if self.handed_out is not None:
            weights = self.handed_out
        return Policy(
            self.config,
            self.sizes,
            weights.copy(),
            self.state_scale.mean.copy(),
            self.state_scale.per_std.copy(),
            self.action_map,
        )

    def hand_out(self, weights: F32 | None) -> None:
        """Give the weights of an earlier policy of this learner as its own, until the next gradient step; None: not."""
        self.handed_out = None if weights is None else weights.copy()

    def save(self, path: Path) -> None:
        """Write everything needed to go on to the bit into one file.

        Raises
        ------
        OSError
            If it cannot be written; an older file at ``path`` is then untouched.
        """
        write_checkpoint(path, *learner_state.contents(self))

    @classmethod
    def load(cls, path: Path, device: str | None = None) -> Learner:
        """Read a learner that goes on exactly where ``save`` left it.

        Parameters
        ----------
        path
            The checkpoint.
        device
            Go on there instead of where it was; round-off then differs.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        CheckpointError
            If it is damaged or not a checkpoint.
        DeviceError
            If this machine does not have the device.
        """
        arrays, meta = read_checkpoint(path)
        with made_from(path):
            if device is not None:
                meta["config"]["device"] = device
            config = AgentConfig.model_validate(meta["config"])
            numbers = {"agents": meta["agents"], "world": meta.get("world", 1)}
            learner = cls(config, *learner_state.spaces(arrays, meta), **numbers, seed=0)
            learner_state.restore(learner, arrays, meta)
            return learner

"""The master loop of the paper (algorithm 1): collect, draw, learn, anneal, keep the ratio.

A learner serves any number of agents, each in an environment of its own, and is driven from outside: whoever owns the
environments calls ``begin``, ``act`` and ``observe``, and ``update`` whenever ``updates_due()`` says so. When that is,
the schedule of the algorithm says (``rl_agent/schedule.py``): in the paper's ratio to the environment steps, or in
iterations. It is one class in one file, for its steps hand the same few parts to each other: memory, running episodes,
scales and counters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401  (loads the BLAS that numba calls, so that the thread limit reaches it)
from threadpoolctl import threadpool_limits

from rl_agent.algorithms import make_algorithm
from rl_agent.config import AgentConfig
from rl_agent.multi_agent import cooperation, joint
from rl_agent.networks.optim.averaging import make_average
from rl_agent.normalization.actions import action_map_of
from rl_agent.normalization.rewards import RewardScale
from rl_agent.normalization.spaces import sizes_of
from rl_agent.normalization.states import LARGEST_NUMBER, StateScale
from rl_agent.policy import Policy
from rl_agent.replay import Drawn, Episode, EpisodeMemory, RememberForget, Source, make_sampler
from rl_agent.replay.samplers.performance import Performance
from rl_agent.rollout.exploration import Exploration
from rl_agent.rollout.open_episodes import Decision, RunningEpisodes
from rl_agent.rollout.statistics import EpisodeRecord, Statistics
from rl_agent.runtime import lazy_torch
from rl_agent.runtime.device import check_device
from rl_agent.saving import learner_state
from rl_agent.saving.checkpoint import made_from, read_checkpoint, write_checkpoint

__all__ = ["Learner"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass
class Counters:
    """What has happened so far."""

    issued: int = 0
    """Actions issued and not taken back."""
    received: int = 0
    """Actions whose outcome arrived: environment steps t."""
    episodes: int = 0
    """Episodes completed."""
    gradient_steps: int = 0
    """Gradient steps k."""
    warm_up: int = -1
    """Actions issued when learning started; -1 before."""
    learned_serial: int = 0
    """Number of the first episode that the latest iteration does not learn from; 0 where there are no iterations."""


class Learner:
    """A learning agent that serves many environments at once.

    Parameters
    ----------
    config
        Its settings.
    observation_space, action_space
        A flat box, and a flat box with finite bounds or ``Discrete``; joint ones of a world.
    agents
        Number of agents served, numbered from 0.
    seed
        Seed of the first weights, of the exploration and of the draws from the memory.
    world
        Agents that act together in one environment (N). From outside such a world looks like one agent, with joint
        spaces, observations and actions (``rl_agent/multi_agent/joint.py``); settings and counters are in its steps.
        Inside, its members are numbered one after the other.

    Attributes
    ----------
    handed_out
        Weights of an earlier policy that are handed out instead of the newest ones or their average, if any.
    notes
        What whoever drives the learner wants to find in its checkpoint again, fit for JSON.

    Raises
    ------
    ValueError
        If a space cannot be served, there are no agents, the algorithm cannot serve several in a world, or the device
        is not there (``DeviceError``).
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
        observation_space, action_space = joint.own_spaces(observation_space, action_space, world)
        sizes = sizes_of(observation_space, action_space, world)
        if agents < 1:
            raise ValueError(f"agents = {agents} must be at least 1")
        _check_worlds(config, world)
        check_device(config.device)
        threadpool_limits(config.threads)
        lazy_torch.use_threads(config.threads)
        self.config = config
        self.agents, self.world = agents, world
        self.sizes = sizes
        self.action_map = action_map_of(action_space, config.squash)
        first, second, third, fourth = (
            np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)
        )
        self.algorithm = make_algorithm(config, sizes, first)
        self.average = make_average(config, self.algorithm.acting_weights)
        self._explore, self._draw = second, third
        self.exploration = Exploration(config, agents * world, sizes.action)
        self.sampler = make_sampler(config, sizes, fourth)
        self.performance = Performance()
        capacity = self.algorithm.schedule.capacity(config, agents)
        decay, dtype = config.trace_decay, np.uint8 if config.network == "conv" else np.float32
        self.memory = EpisodeMemory(
            capacity, sizes.observation, sizes.action, sizes.choices, world, decay, dtype
        )
        self.refer = RememberForget(config)
        self.state_scale = StateScale(sizes.observation)
        if config.network == "conv":
            self.state_scale.freeze_to(_brightest(config, observation_space))
        self.reward_scale = RewardScale()
        self.running = RunningEpisodes(
            agents * world,
            sizes.observation,
            sizes.action,
            self.algorithm.network.state_shape[0],
            sizes.choices,
            dtype,
        )
        self.counters = Counters()
        self._schedule = self.algorithm.schedule(self)
        self._statistics = Statistics()
        self._policy_std = math.nan
        self.handed_out: F32 | None = None
        self.notes: dict[str, Any] = {}

    @property
    def generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Random generators: of the exploration, and of the draws from the memory."""
        return self._explore, self._draw

    @property
    def environment_steps(self) -> int:
        """Environment steps t: actions whose outcome has arrived, over all agents."""
        return self.counters.received

    @property
    def gamma(self) -> float:
        """Present discount factor."""
        return self.config.discount(self.counters.received)

    @property
    def gradient_steps(self) -> int:
        """Gradient steps k."""
        return self.counters.gradient_steps

    @property
    def episodes(self) -> int:
        """Completed episodes."""
        return self.counters.episodes

    # --- serving -----------------------------------------------------------------------------------------

    def begin(self, agents: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """Start a new episode of each agent; one that is still open is first closed as truncated.

        Parameters
        ----------
        agents
            Distinct agent numbers, shape (n,).
        observations
            First observations, shape (n, S).

        Raises
        ------
        ValueError
            If an agent number or an observation is not valid.
        """
        agents = self._checked_agents(agents)
        observations = self._checked_observations(agents, observations)
        self.abandon(agents)
        members = self._members(agents)
        self.running.begin(members, self._taken_apart(observations)[0])
        self.exploration.begin(members)

    def act(self, agents: npt.ArrayLike) -> F32:
        """Draw an action for the current observation of each agent from the newest policy.

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
        """Draw actions as :meth:`act` does, without issuing them yet: first whoever serves may write them down.

        Raises
        ------
        ValueError, FloatingPointError
            As :meth:`act`.
        """
        agents = self._members(self._checked_agents(agents))
        self._refuse(agents[~self.running.is_open[agents]], "has no open episode to act in")
        self._refuse(
            agents[self.running.is_waiting[agents]], "already waits for the outcome of an action"
        )
        observations = self.state_scale(self.running.current(agents))
        value, mean, std, state = self.algorithm.act(observations, self.running.state[agents])
        if not np.isfinite(mean).all() or not np.isfinite(std).all():
            raise FloatingPointError(
                "the policy is not finite any more: learning has diverged, try a smaller learning_rate"
            )
        raw = self.exploration.draw(
            agents, mean, std, self._explore, has_learned=self.counters.warm_up >= 0
        )
        # of all states alike in some algorithms
        std = np.broadcast_to(std, (len(agents), std.shape[-1]))
        random = dict(self._explore.bit_generator.state)
        return Decision(
            agents, raw, mean, std, value, state, self.exploration.noise[agents], random
        )

    def issue(self, decision: Decision) -> F32:
        """Issue drawn actions; one that was written down before the learner died is issued again by this.

        Returns
        -------
        F32
            Actions in the task's units, as of :meth:`act`.
        """
        self.exploration.noise[decision.agents] = decision.noise
        self._explore.bit_generator.state = decision.random
        self._policy_std = float(decision.std.mean()) if decision.std.size else math.nan
        self.running.issue(decision)
        self.counters.issued += len(decision.agents) // self.world
        return self.action_map(decision.action).reshape(len(decision.agents) // self.world, -1)

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
            Unscaled rewards, shape (n,); those of a world's members stand in its joint observation.
        terminated, truncated
            Whether the episode ended in a terminal state, or was cut short, shape (n,). A world ends for all of its
            members at once; which of them had reached a terminal state before says its joint observation.
        observations
            Resulting observations (the final ones of ended episodes), shape (n, S).

        Raises
        ------
        ValueError
            If an agent waits for no outcome, or a number is not finite.
        """
        agents = self._checked_agents(agents)
        observations = self._checked_observations(agents, observations)
        rewards, terminated = np.asarray(rewards, np.float32), np.asarray(terminated, np.bool_)
        ended = terminated | np.asarray(truncated, np.bool_)
        self._refuse(agents[~np.isfinite(rewards)], "sent a reward that is not finite")
        members = self._members(agents)
        self._refuse(
            members[~self.running.is_waiting[members]] // self.world,
            "waits for no outcome: act first",
        )
        if self.world > 1:
            observations, rewards, gone = self._taken_apart(observations)
            terminated, ended = (
                np.repeat(terminated, self.world) | gone,
                np.repeat(ended, self.world),
            )
            rewards = np.where(self.running.gone_after[members] >= 0, np.float32(0.0), rewards)
        self.running.receive(members, rewards, observations)
        self.counters.received += len(agents)
        going = members[terminated & ~ended & (self.running.gone_after[members] < 0)]
        self.running.gone_after[going] = self.running.length[going]
        if ended.any():
            for episode_return in self._close(members[ended], terminated[ended]):
                self._adapt_sampler(episode_return)
        self._store_endless(members[~ended])
        self._schedule.received(members[~ended])

    def abandon(self, agents: npt.ArrayLike) -> None:
        """Close the open episodes of lost agents as truncated; an action without outcome is dropped."""
        agents = self._members(self._checked_agents(agents))
        agents = agents[self.running.is_open[agents]]
        waiting = agents[self.running.is_waiting[agents]]
        self.counters.issued -= len(waiting) // self.world
        for agent in agents[self.running.length[agents] == 0]:
            self.running.drop(int(agent))
        agents = agents[self.running.is_open[agents]]
        self._close(agents, np.zeros(len(agents), np.bool_))

    def learnable(self, observations: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Tell which observations, shape (n, S), can be learned from: whoever serves asks before it hands them over.

        Others are beyond ``LARGEST_NUMBER`` or, once the scales of the states are known, beyond ``FARTHEST``
        (``rl_agent/normalization/states.py``).
        """
        array = np.asarray(observations, np.float32)
        fine = (np.abs(array) <= LARGEST_NUMBER).all(axis=1)
        near = self.state_scale.are_near(self._taken_apart(array)[0])
        return np.asarray(fine & near.reshape(len(array), self.world).all(axis=1))

    # --- learning ----------------------------------------------------------------------------------------

    def updates_due(self) -> int:
        """Gradient steps owed now."""
        return 0 if self.counters.warm_up < 0 else self._schedule.updates_due()

    def may_act(self) -> bool:
        """Whether agents may be answered, or too many gradient steps are owed for that."""
        return self._schedule.may_act()

    def update(self) -> None:
        """Take one gradient step with its bookkeeping: draw, learn, refresh, move beta, sweep when due.

        Raises
        ------
        ValueError
            If learning has not started, or the memory is empty.
        """
        if self.counters.warm_up < 0:
            raise ValueError(
                f"learning starts after learning_starts = {self.config.learning_starts} steps, not after "
                f"{self.memory.world_steps}"
            )
        step, gamma, scale = self.counters.received, self.gamma, self.reward_scale.value
        algorithm, memory, source = self.algorithm, self.memory, self._source()
        places, batch = algorithm.gather(
            source, self.sampler.draw(memory, self.config.draws, self._draw)
        )
        weights = self.sampler.weights(places, self.config.importance_correction(step))
        e = algorithm.update(batch, self.refer.learning_rate(step), self.refer.rules(step), weights)
        if algorithm.uses_value_targets:
            memory.refresh(places, e.value, e.rho, e.kl, e.far, gamma, scale, e.advantage)
        else:
            memory.store(places, e.value, e.rho, e.kl, e.far)
        if e.td_error is not None:
            priority = e.td_error if e.priority is None else e.priority
            self.sampler.learn(Drawn(source, places, e.td_error, e.value, priority))
        self.refer.update_beta(memory.n_far, memory.steps, step)
        self.counters.gradient_steps += 1
        self.handed_out = None
        if self.average and self.average.is_due(self.gradient_steps):
            self.average.add(self.algorithm.acting_weights, self.gradient_steps)
        self._statistics.add_update(e)
        self._schedule.updated()

    def _source(self) -> Source:
        scale = self.state_scale
        return Source(self.memory, scale.mean, scale.per_std, self.gamma, self.reward_scale.value)

    def _adapt_sampler(self, episode_return: float) -> None:
        """Tell the sampler by how much episodes got better, once learning has started."""
        change = self.performance.add(episode_return, self.config.performance_window)
        if change is not None and self.counters.gradient_steps > 0:
            self.sampler.reward(self._source(), change, self._draw)

    def sweep_memory(self) -> None:
        """Measure the reward scale, refresh V(s_T), recompute every V_tbc and flag."""
        self.reward_scale.measure(self.memory.reward[self.experiences()])
        if self.algorithm.uses_value_targets:
            self.refresh_final_values()
            self.memory.sweep(self.gamma, self.reward_scale.value)
        self.memory.classify(self.refer.c_max(self.counters.received))

    def refresh_final_values(self) -> None:
        """Compute V(s_T) of the truncated episodes again."""
        rows = self.memory.truncated_rows()
        if len(rows) > 0:
            scale, steps = self.state_scale, self.algorithm.network.history + 1
            values = self.algorithm.values(
                *self.memory.final_windows(rows, steps, scale.mean, scale.per_std)
            )
            self.memory.final_value[rows] = np.where(
                self.memory.terminated[rows], np.float32(0.0), values
            )
        if self.config.is_cooperative:
            rows = self.memory.all_rows()
            own = np.where(
                self.memory.terminated[rows], np.float32(0.0), self.memory.final_value[rows]
            )
            self.memory.final_value[rows] = cooperation.mean_of_each(own, self.world)

    def experiences(self) -> I64:
        """Places of all stored steps in which the agents took part."""
        places = self.memory.places()
        return places if self.world == 1 else places[self.memory.is_present(places)]

    def _close(self, agents: I64, terminated: npt.NDArray[np.bool_]) -> list[float]:
        """Move ended episodes (of at least one step) of agents to the memory; tell their returns."""
        values, found = self._final_values(agents), []
        for first in range(0, len(agents), self.world):
            place = slice(first, first + self.world)
            earlier = [self.running.earlier(int(agent)) for agent in agents[place]]
            episodes = [
                self.running.close(int(agent), float(value), bool(is_terminal))
                for agent, value, is_terminal in zip(
                    agents[place], values[place], terminated[place], strict=True
                )
            ]
            returns = [episode.reward.sum(dtype=np.float64) for episode in episodes]
            self._remember(episodes)
            self.counters.episodes += 1
            record = EpisodeRecord(
                agent=int(agents[first]) // self.world,
                step=self.counters.received,
                episode_return=float(np.mean(np.add([before for before, _ in earlier], returns))),
                length=earlier[0][1] + len(episodes[0].reward),
                terminated=all(episode.terminated for episode in episodes),
            )
            self._statistics.add_episode(record)
            found.append(record.episode_return)
        self._schedule.stored()
        return found

    def _remember(self, episodes: list[Episode]) -> None:
        """Store what all agents of a world did together."""
        if self.config.is_cooperative:
            episodes = cooperation.cooperate(episodes)
        self.memory.add(episodes, self.gamma, self.reward_scale.value)

    def store_pieces(self, agents: I64, piece: int) -> None:
        """Move what has run for a piece to the memory; the episode goes on, and is counted when it ends."""
        agents = agents[self.running.length[agents] >= piece]
        values = self._final_values(agents)
        for first in range(0, len(agents), self.world):
            place = slice(first, first + self.world)
            self._remember(
                [
                    self.running.split(int(agent), float(value))
                    for agent, value in zip(agents[place], values[place], strict=True)
                ]
            )
        self._schedule.stored()

    def _store_endless(self, agents: I64) -> None:
        """Move running episodes as long as the memory there; they go on as new ones, with their recurrent state."""
        steps = self.running.length[agents] + self.running.earlier_steps[agents]
        agents = agents[
            (steps >= self.memory.capacity // self.world) & (self.running.length[agents] > 0)
        ]
        if len(agents) > 0:
            observations, state = self.running.current(agents), self.running.state[agents]
            self._close(agents, np.zeros(len(agents), np.bool_))
            self.running.begin(agents, observations)
            self.running.state[agents] = state

    def _final_values(self, agents: I64) -> F32:
        """V of the current observations of agents, shape (n,)."""
        if len(agents) == 0 or not self.algorithm.uses_value_targets:
            return np.zeros(len(agents), np.float32)
        running = self.running
        value = self.algorithm.act(
            self.state_scale(running.current(agents)), running.state[agents]
        ).value
        # an action was already drawn there, and the recurrent state has already seen the observation
        known = running.value[agents, running.length[agents]]
        return np.where(running.is_waiting[agents], known, value)

    # --- reporting ---------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Statistics since the last call (section 6 of the algorithm notes); see ``rl_agent.rollout.statistics``."""
        places = self.experiences()
        stored = max(1, len(places))
        step = self.counters.received
        share = self.sampler.effective_share(self.memory)
        return self._statistics.take() | {
            "environment_steps": float(step),
            "gradient_steps": float(self.counters.gradient_steps),
            "episodes_total": float(self.counters.episodes),
            "memory_steps": float(self.memory.world_steps),
            "memory_episodes": float(self.memory.episodes // self.world),
            "beta": self.refer.beta,
            "c_max": self.refer.c_max(step),
            "learning_rate": self.refer.learning_rate(step),
            "far_fraction": self.memory.n_far / stored,
            "kl": float(self.memory.kl[places].sum(dtype=np.float64)) / stored,
            "rho": float(self.memory.rho[places].sum(dtype=np.float64)) / stored,
            "policy_std": self._policy_std,
            "reward_scale": self.reward_scale.value,
            **({} if share is None else {"effective_share": share}),
            **self.algorithm.statistics(),
        }

    def finished_episodes(self) -> list[EpisodeRecord]:
        """Episodes completed since the last call, in order."""
        return self._statistics.take_episodes()

    def episodes_under_way(self) -> list[EpisodeRecord]:
        """Episodes of at least one step that have not ended, as they are now."""
        return self.running.records(self.world, self.counters.received)

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

    # --- checkpoints -------------------------------------------------------------------------------------

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

    # --- checks ------------------------------------------------------------------------------------------

    def _checked_agents(self, agents: npt.ArrayLike) -> I64:
        numbers = np.atleast_1d(np.asarray(agents, np.int64))
        self._refuse(
            numbers[(numbers < 0) | (numbers >= self.agents)],
            f"does not exist: there are {self.agents}",
        )
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError(f"agents {numbers.tolist()} must be distinct")
        return numbers

    def _members(self, agents: I64) -> I64:
        """Return the numbers of all members of worlds, shape (n,) to (n N,)."""
        return (
            agents
            if self.world == 1
            else np.add.outer(agents * self.world, np.arange(self.world)).ravel()
        )

    def _taken_apart(self, observations: F32) -> tuple[F32, F32, npt.NDArray[np.bool_]]:
        """Return what the members observed, their rewards, and whether they have ended."""
        if self.world == 1:
            nothing = np.zeros(len(observations), np.float32)
            return observations, nothing, nothing > 0
        return joint.unpack(observations, self.world)

    def _checked_observations(self, agents: I64, observations: npt.ArrayLike) -> F32:
        array = np.asarray(observations, np.float32)
        size = len(self.state_scale.mean)
        expected = (len(agents), size if self.world == 1 else self.world * (size + joint.EXTRAS))
        if array.shape != expected:
            raise ValueError(f"observations have shape {array.shape}, expected {expected}")
        self._refuse(
            agents[~np.isfinite(array).all(axis=1)], "sent an observation that is not finite"
        )
        return array

    @staticmethod
    def _refuse(agents: I64, reason: str) -> None:
        if len(agents) > 0:
            raise ValueError(f"agent {int(agents[0])} {reason}")


def _brightest(config: AgentConfig, space: gymnasium.spaces.Box) -> float:
    """Return the largest number in a picture.

    Raises
    ------
    ValueError
        If the observations are not the pictures of the settings.
    """
    if config.image_shape is None or math.prod(config.image_shape) != space.shape[0]:
        raise ValueError(
            f"image_shape = {config.image_shape} does not fit observations of {space.shape[0]} numbers"
        )
    if space.low.min() < 0.0 or space.high.max() > 255.0:
        raise ValueError(
            f"network = conv reads pictures of whole numbers from 0 to 255, not {space}"
        )
    return float(space.high.max())


def _check_worlds(config: AgentConfig, world: int) -> None:
    """Refuse settings that do not serve worlds.

    Raises
    ------
    ValueError
        With a sentence about it.
    """
    if world == 1:
        return
    if not config.serves_worlds:
        raise ValueError(
            f"algorithm = {config.algorithm} learns from one agent in an environment, and here are {world}; use vracer"
        )
    if config.sampler != "uniform":
        raise ValueError(
            f"sampler = {config.sampler} draws single agents, and a world has {world}; use uniform"
        )

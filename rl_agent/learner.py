"""The master loop of the paper (algorithm 1): collect, draw, learn, anneal, keep the ratio.

A learner serves any number of agents and is driven from outside: whoever owns the environments calls
``begin``, ``act`` and ``observe``, and ``update`` whenever ``updates_due()`` says so. The ratio of
environment steps to gradient steps, t = F k after warm-up, is held exactly: a credit is counted when an
action is issued (and taken back should its outcome never arrive).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401  (loads the BLAS that numba calls, so that the thread limit reaches it)
import torch
from threadpoolctl import threadpool_limits

from rl_agent import distributions
from rl_agent.algorithms.vracer import VRacer
from rl_agent.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from rl_agent.config import AgentConfig
from rl_agent.device import DeviceError, check_device
from rl_agent.policy import Policy
from rl_agent.replay import Batch, EpisodeMemory, RememberForget, UniformSampler
from rl_agent.running import RunningEpisodes
from rl_agent.scaling import ActionMap, RewardScale, StateScale, check_spaces
from rl_agent.statistics import EpisodeRecord, Statistics

__all__ = ["Learner"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

SWEEP_INTERVAL = 1000
"""Gradient steps between full sweeps of the memory and new reward scales (sections 2 and B)."""


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


class Learner:
    """A learning agent that serves many environments at once.

    Parameters
    ----------
    config
        Its settings.
    observation_space, action_space
        Flat boxes; the bounds of the actions are finite.
    agents
        Number of agents served, numbered from 0.
    seed
        Seed of the first weights, of the exploration and of the draws from the memory.

    Raises
    ------
    ValueError
        If a space cannot be served, there are no agents, or the device is not there (``DeviceError``).
    """

    def __init__(
        self,
        config: AgentConfig,
        observation_space: gymnasium.spaces.Box,
        action_space: gymnasium.spaces.Box,
        *,
        agents: int,
        seed: int,
    ) -> None:
        check_spaces(observation_space, action_space)
        if agents < 1:
            raise ValueError(f"agents = {agents} must be at least 1")
        check_device(config.device)
        threadpool_limits(config.threads)
        torch.set_num_threads(config.threads)
        sizes = (observation_space.shape[0], action_space.shape[0])
        self.config = config
        self.agents = agents
        self.action_map = ActionMap(action_space.low, action_space.high, config.squash)
        first, second, third = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
        self.algorithm = VRacer(config, *sizes, first)
        self._explore, self._draw = second, third
        self.memory = EpisodeMemory(config.memory, *sizes)
        self.sampler = UniformSampler()
        self.refer = RememberForget(config)
        self.state_scale = StateScale(sizes[0])
        self.reward_scale = RewardScale()
        self.running = RunningEpisodes(agents, *sizes, self.algorithm.network.state_shape[0])
        self.counters = Counters()
        self._gradient_steps_per_step = 1 / Fraction(config.steps_per_update).limit_denominator(10**6)
        self._statistics = Statistics()

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
        self.running.begin(agents, observations)

    def act(self, agents: npt.ArrayLike) -> F32:
        """Draw an action for the current observation of each agent from the newest policy.

        Returns
        -------
        F32
            Actions in the task's units, shape (n, A), not clipped to the bounds.

        Raises
        ------
        ValueError
            If an agent has no open episode, or already waits for the outcome of an action.
        FloatingPointError
            If learning has diverged.
        """
        agents = self._checked_agents(agents)
        self._refuse(agents[~self.running.is_open[agents]], "has no open episode to act in")
        self._refuse(agents[self.running.is_waiting[agents]], "already waits for the outcome of an action")
        observations = self.state_scale(self.running.current(agents))
        value, mean, state = self.algorithm.act(observations, self.running.state[agents])
        std = self.algorithm.std
        raw = distributions.draw(mean, std, self._explore)
        if not np.isfinite(raw).all():
            raise FloatingPointError(
                "the policy is not finite any more: learning has diverged, try a smaller learning_rate"
            )
        self.running.issue(agents, raw, mean, std, value, state)
        self.counters.issued += len(agents)
        return self.action_map(raw)

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
            Unscaled rewards, shape (n,).
        terminated, truncated
            Whether the episode ended in a terminal state, or was cut short, shape (n,).
        observations
            Resulting observations (the final ones of ended episodes), shape (n, S).

        Raises
        ------
        ValueError
            If an agent waits for no outcome, or a number is not finite.
        """
        agents = self._checked_agents(agents)
        observations = self._checked_observations(agents, observations)
        rewards = np.asarray(rewards, np.float32)
        self._refuse(agents[~self.running.is_waiting[agents]], "waits for no outcome: act first")
        self._refuse(agents[~np.isfinite(rewards)], "sent a reward that is not finite")
        self.running.receive(agents, rewards, observations)
        self.counters.received += len(agents)
        terminated = np.asarray(terminated, np.bool_)
        ended = terminated | np.asarray(truncated, np.bool_)
        if ended.any():
            self._close(agents[ended], terminated[ended])
        self._store_endless(agents[~ended])

    def abandon(self, agents: npt.ArrayLike) -> None:
        """Close the open episodes of lost agents as truncated; an action without outcome is dropped."""
        agents = self._checked_agents(agents)
        agents = agents[self.running.is_open[agents]]
        waiting = agents[self.running.is_waiting[agents]]
        self.counters.issued -= len(waiting)
        for agent in agents[self.running.length[agents] == 0]:
            self.running.drop(int(agent))
        self._close(agents[self.running.is_open[agents]], np.zeros(len(agents), np.bool_))

    # --- learning ----------------------------------------------------------------------------------------

    def updates_due(self) -> int:
        """Gradient steps owed now for the actions issued since learning started."""
        if self.counters.warm_up < 0:
            return 0
        earned = (self.counters.issued - self.counters.warm_up) * self._gradient_steps_per_step
        return max(0, earned.numerator // earned.denominator - self.counters.gradient_steps)

    def may_act(self) -> bool:
        """Whether agents may be answered: not while gradient steps for more than a step of each are owed."""
        return self.updates_due() <= self.agents * self._gradient_steps_per_step

    def update(self) -> None:
        """Take one gradient step with its bookkeeping: draw, learn, refresh, move beta, sweep when due.

        Raises
        ------
        ValueError
            If learning has not started, or the memory is empty.
        """
        if self.counters.warm_up < 0:
            raise ValueError(f"learning starts with start = {self.config.start} steps, not {self.memory.steps}")
        step, gamma, scale = self.counters.received, self.config.gamma, self.reward_scale.value
        c_max = self.refer.c_max(step)
        slots, batch = self._draw_batch()
        e = self.algorithm.update(
            batch,
            self.refer.learning_rate(step),
            c_max=c_max,
            beta=self.refer.beta,
            rule_1=self.refer.rule_1,
            rho_clip=self.refer.rho_clip,
        )
        self.memory.refresh(slots, e.value, e.rho, e.kl, e.far, gamma, scale)
        self.refer.update_beta(self.memory.n_far, self.memory.steps, step)
        self.counters.gradient_steps += 1
        self._statistics.add_update(e)
        if self.counters.gradient_steps % SWEEP_INTERVAL == 0:
            self._sweep_memory()

    def _draw_batch(self) -> tuple[I64, Batch]:
        """Draw steps and gather what a gradient needs of them."""
        scale = self.state_scale
        return self.memory.gather(
            self.sampler.draw(self.memory, self.config.batch, self._draw),
            self.algorithm.network.history,
            scale.mean,
            scale.per_std,
            self.config.gamma,
            self.reward_scale.value,
        )

    def _sweep_memory(self) -> None:
        """Measure the reward scale, refresh V(s_T), recompute every V_tbc and flag."""
        self.reward_scale.measure(self.memory.reward[self.memory.slots()])
        rows = self.memory.truncated_rows()
        if len(rows) > 0:
            scale = self.state_scale
            steps = self.algorithm.network.history + 1
            self.memory.final_value[rows] = self.algorithm.values(
                *self.memory.final_windows(rows, steps, scale.mean, scale.per_std)
            )
        self.memory.sweep(self.config.gamma, self.reward_scale.value)
        self.memory.classify(self.refer.c_max(self.counters.received))

    def _close(self, agents: I64, terminated: npt.NDArray[np.bool_]) -> None:
        """Move ended episodes (of at least one step) of agents to the memory."""
        for agent, is_terminal, value in zip(agents, terminated, self._final_values(agents), strict=False):
            episode = self.running.close(int(agent), float(value), bool(is_terminal))
            self.memory.add(episode, self.config.gamma, self.reward_scale.value)
            self.counters.episodes += 1
            record = EpisodeRecord(
                agent=int(agent),
                step=self.counters.received,
                episode_return=float(episode.reward.sum(dtype=np.float64)),
                length=len(episode.reward),
                terminated=episode.terminated,
            )
            self._statistics.add_episode(record)
        if self.counters.warm_up < 0 and self.memory.steps >= self.config.start:
            self._start_learning()

    def _store_endless(self, agents: I64) -> None:
        """Move running episodes as long as the memory there; they go on as new ones, with their recurrent state."""
        agents = agents[self.running.length[agents] >= self.config.memory]
        if len(agents) > 0:
            observations, state = self.running.current(agents), self.running.state[agents]
            self._close(agents, np.zeros(len(agents), np.bool_))
            self.running.begin(agents, observations)
            self.running.state[agents] = state

    def _final_values(self, agents: I64) -> F32:
        """V of the current observations of agents, shape (n,)."""
        if len(agents) == 0:
            return np.zeros(0, np.float32)
        running = self.running
        value, _, _ = self.algorithm.act(self.state_scale(running.current(agents)), running.state[agents])
        # an action was already drawn there, and the recurrent state has already seen the observation
        known = running.value[agents, running.length[agents]]
        return np.where(running.is_waiting[agents], known, value)

    def _start_learning(self) -> None:
        """Freeze the scale of the states; count gradient steps from here on."""
        slots = self.memory.slots()
        self.state_scale.freeze(self.memory.observation[slots])
        self.counters.warm_up = self.counters.issued
        self._sweep_memory()

    # --- reporting ---------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Statistics since the last call (section 6 of the algorithm notes); see ``rl_agent.statistics``."""
        slots = self.memory.slots()
        stored = max(1, len(slots))
        step = self.counters.received
        return self._statistics.take() | {
            "environment_steps": float(step),
            "gradient_steps": float(self.counters.gradient_steps),
            "episodes_total": float(self.counters.episodes),
            "memory_steps": float(self.memory.steps),
            "memory_episodes": float(self.memory.episodes),
            "beta": self.refer.beta,
            "c_max": self.refer.c_max(step),
            "learning_rate": self.refer.learning_rate(step),
            "far_fraction": self.memory.n_far / stored,
            "kl": float(self.memory.kl[slots].sum(dtype=np.float64)) / stored,
            "rho": float(self.memory.rho[slots].sum(dtype=np.float64)) / stored,
            "policy_std": float(self.algorithm.std.mean()),
            "reward_scale": self.reward_scale.value,
        }

    def finished_episodes(self) -> list[EpisodeRecord]:
        """Episodes completed since the last call, in order."""
        return self._statistics.take_episodes()

    def policy(self) -> Policy:
        """Take a snapshot of the current policy, independent of further learning."""
        self.algorithm.torch_step.pull()
        return Policy(
            self.config,
            self.algorithm.weights.copy(),
            self.state_scale.mean.copy(),
            self.state_scale.per_std.copy(),
            self.action_map,
        )

    # --- checkpoints -------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write everything needed to go on to the bit into one file.

        Raises
        ------
        OSError
            If it cannot be written; an older file at ``path`` is then untouched.
        """
        self.algorithm.torch_step.pull()
        memory, counters = self.memory.state()
        arrays: dict[str, npt.NDArray[Any]] = {f"memory/{name}": array for name, array in memory.items()}
        arrays |= {f"running/{name}": array for name, array in self.running.save().items()}
        arrays |= {
            "weights": self.algorithm.weights,
            "adam/first": self.algorithm.adam.first,
            "adam/second": self.algorithm.adam.second,
            "state/mean": self.state_scale.mean,
            "state/per_std": self.state_scale.per_std,
            "action/low": self.action_map.low,
            "action/high": self.action_map.high,
        }
        meta = {
            "config": self.config.model_dump(mode="json"),
            "agents": self.agents,
            "counters": vars(self.counters),
            "memory": counters,
            "adam_steps": self.algorithm.adam.steps,
            "beta": self.refer.beta,
            "reward_scale": self.reward_scale.value,
            "frozen": self.state_scale.frozen,
            "random": [rng.bit_generator.state for rng in (self._explore, self._draw)],
        }
        write_checkpoint(path, arrays, meta)

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
        try:
            if device is not None:
                meta["config"]["device"] = device
            return cls._restored(arrays, meta)
        except DeviceError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(f"checkpoint {path} does not fit together: {error!r}") from error

    @classmethod
    def _restored(cls, arrays: dict[str, npt.NDArray[Any]], meta: dict[str, Any]) -> Learner:
        size = len(arrays["state/mean"])
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        action_space = gymnasium.spaces.Box(arrays["action/low"], arrays["action/high"], dtype=np.float32)
        config = AgentConfig.model_validate(meta["config"])
        learner = cls(config, observation_space, action_space, agents=meta["agents"], seed=0)
        learner.algorithm.weights[:] = arrays["weights"]
        learner.algorithm.adam.first[:] = arrays["adam/first"]
        learner.algorithm.adam.second[:] = arrays["adam/second"]
        learner.algorithm.adam.steps = meta["adam_steps"]
        learner.algorithm.torch_step.push()
        learner.state_scale.mean[:] = arrays["state/mean"]
        learner.state_scale.per_std[:] = arrays["state/per_std"]
        learner.state_scale.frozen = meta["frozen"]
        learner.reward_scale.value = meta["reward_scale"]
        learner.refer.beta = meta["beta"]
        learner.counters = Counters(**meta["counters"])
        part = lambda of: {n.removeprefix(of): a for n, a in arrays.items() if n.startswith(of)}  # noqa: E731
        learner.memory.restore(part("memory/"), meta["memory"])
        learner.running.restore(part("running/"))
        for rng, state in zip((learner._explore, learner._draw), meta["random"], strict=True):
            rng.bit_generator.state = state
        return learner

    # --- checks ------------------------------------------------------------------------------------------

    def _checked_agents(self, agents: npt.ArrayLike) -> I64:
        numbers = np.atleast_1d(np.asarray(agents, np.int64))
        self._refuse(numbers[(numbers < 0) | (numbers >= self.agents)], f"does not exist: there are {self.agents}")
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError(f"agents {numbers.tolist()} must be distinct")
        return numbers

    def _checked_observations(self, agents: I64, observations: npt.ArrayLike) -> F32:
        array = np.asarray(observations, np.float32)
        expected = (len(agents), len(self.state_scale.mean))
        if array.shape != expected:
            raise ValueError(f"observations have shape {array.shape}, expected {expected}")
        self._refuse(agents[~np.isfinite(array).all(axis=1)], "sent an observation that is not finite")
        return array

    @staticmethod
    def _refuse(agents: I64, reason: str) -> None:
        if len(agents) > 0:
            raise ValueError(f"agent {int(agents[0])} {reason}")

"""When the master loop learns: the paper's ratio of steps to gradient steps, or iterations over a horizon of steps.

A schedule is asked by its learner after every outcome, after every episode that was stored and after every gradient
step. The algorithm names its schedule, so that the loop itself does not ask which algorithm it serves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig, OnPolicyConfig, Remembering
from rl_agent.replay.samplers.epochs import EpochSampler

if TYPE_CHECKING:
    from rl_agent.learner import Learner

__all__ = ["Iterations", "Ratio", "Schedule"]

I64 = npt.NDArray[np.int64]

SWEEP_INTERVAL = 1000
"""Gradient steps between full sweeps of the memory and new reward scales (sections 2 and B)."""


class Schedule(ABC):
    """What a learner does when; it keeps no state but what the learner's counters hold."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    @staticmethod
    @abstractmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Count the steps that the memory has to hold."""

    @abstractmethod
    def updates_due(self) -> int:
        """Gradient steps owed now, once learning has started."""

    @abstractmethod
    def may_act(self) -> bool:
        """Whether agents may be answered."""

    @abstractmethod
    def received(self, running: I64) -> None:
        """Take note of outcomes; ``running`` are the agents whose episodes go on."""

    @abstractmethod
    def stored(self) -> None:
        """Take note of new episodes in the memory."""

    @abstractmethod
    def updated(self) -> None:
        """Take note of a gradient step."""


class Ratio(Schedule):
    """The paper's: t = F k after warm-up, exactly; sweeps of the memory now and then.

    A credit is counted when an action is issued, and taken back should its outcome never arrive.
    """

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self._updates_per_step = 1 / Fraction(
            learner.config.env_steps_per_gradient_step
        ).limit_denominator(10**6)

    @staticmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Take the replay memory of the settings."""
        return config.buffer_size

    def updates_due(self) -> int:
        """Gradient steps owed for the actions issued since learning started."""
        counters = self._learner.counters
        earned = (counters.issued - counters.warm_up) * self._updates_per_step
        return max(0, earned.numerator // earned.denominator - counters.gradient_steps)

    def may_act(self) -> bool:
        """Not while gradient steps for more than a step of each agent are owed."""
        return self._learner.updates_due() <= self._learner.agents * self._updates_per_step

    def received(self, running: I64) -> None:
        """Store pieces of long episodes, where the settings ask for it."""
        config = self._learner.config
        if isinstance(config, Remembering) and config.fragment_length is not None:
            self._learner.store_pieces(running, config.fragment_length)

    def stored(self) -> None:
        """Begin to learn, once there is enough: freeze the scale of the states, and count gradient steps."""
        learner = self._learner
        if (
            learner.counters.warm_up < 0
            and learner.memory.world_steps >= learner.config.learning_starts
        ):
            learner.state_scale.freeze(learner.memory.observation[learner.experiences()])
            learner.counters.warm_up = learner.counters.issued
            learner.sweep_memory()

    def updated(self) -> None:
        """Sweep the memory when it is time."""
        if self._learner.counters.gradient_steps % SWEEP_INTERVAL == 0:
            self._learner.sweep_memory()


class Iterations(Schedule):
    """PPO's and A3C's: a horizon of steps is learned from in some epochs, and forgotten.

    When the horizon is complete all running episodes are cut there, and the batches of all epochs become due at once;
    nobody is answered until they are done.
    """

    @staticmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Hold two horizons: what ends while the steps of one are learned from has its place beside them."""
        assert isinstance(config, OnPolicyConfig)
        return 2 * (config.most_steps + agents)

    @property
    def _config(self) -> OnPolicyConfig:
        assert isinstance(self._learner.config, OnPolicyConfig)
        return self._learner.config

    @property
    def _sampler(self) -> EpochSampler:
        sampler = self._learner.sampler
        assert isinstance(sampler, EpochSampler)
        return sampler

    def updates_due(self) -> int:
        """Batches that are left of the epochs."""
        return self._sampler.left(self._config.draws)

    def may_act(self) -> bool:
        """Not while an iteration is learned from."""
        return self._learner.updates_due() == 0

    def received(self, running: I64) -> None:
        """Begin an iteration when its horizon is complete."""
        learner = self._learner
        steps = learner.memory.steps + int(learner.running.length.sum())
        is_first = learner.counters.warm_up < 0
        horizon = self._config.most_steps if is_first else self._config.horizon
        if learner.updates_due() == 0 and steps >= horizon:
            self._begin()

    def stored(self) -> None:
        """Wait for the horizon."""

    def updated(self) -> None:
        """Forget the steps that were learned from; what came meanwhile belongs to the next iteration."""
        learner = self._learner
        if learner.updates_due() == 0:
            while learner.memory.first_serial < learner.counters.learned_serial:
                learner.memory.remove_oldest()

    def _begin(self) -> None:
        """Cut the running episodes, and make what is learned from: values, targets and advantages."""
        learner = self._learner
        config, memory, scale = self._config, learner.memory, learner.state_scale
        for agent in np.flatnonzero(learner.running.length > 0):
            memory.add(learner.running.split(int(agent)), config.gamma, learner.reward_scale.value)
        places = memory.places()
        learner.reward_scale.accumulate(memory.reward[places])
        if learner.counters.warm_up < 0:
            scale.freeze(memory.observation[places])
            learner.counters.warm_up = learner.counters.issued
        steps = learner.algorithm.network.history + 1
        lengths = np.minimum(memory.position[places] + 1, steps)
        memory.value[places] = learner.algorithm.values(
            memory.windows(places, steps, scale.mean, scale.per_std), lengths
        )
        learner.refresh_final_values()
        memory.estimate_advantages(config.gamma, config.return_lambda, learner.reward_scale.value)
        advantage = memory.v_tbc[places] - memory.value[places]
        if config.standardises:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        memory.advantage[places] = advantage
        learner.counters.learned_serial = memory.next_serial
        self._sampler.begin(places, config.passes)

"""When the learner learns: the paper's ratio of steps to gradient steps, or iterations over a horizon of steps.

A schedule decides and does nothing: given the counters and how many steps are stored, it says what is due. The learner
asks it after every outcome, after every stored episode and after every gradient step, and carries out what it says.
The algorithm names its schedule, so that the learner does not ask which algorithm it serves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from rl_agent.config import AgentConfig, OnPolicyConfig, Remembering

__all__ = ["Counters", "Iterations", "Ratio", "Schedule"]

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
    iteration_end: int = 0
    """Id of the first episode that the latest iteration does not learn from; 0 where there are no iterations."""

    @property
    def is_learning(self) -> bool:
        """Whether learning has started."""
        return self.warm_up >= 0

    def begin_learning(self) -> None:
        """Count gradient steps from now on."""
        self.warm_up = self.issued


class Schedule(ABC):
    """What a learner does when; it has settings and no state.

    Parameters
    ----------
    config
        Settings of the learner.
    agents
        Number of agents served.
    """

    def __init__(self, config: AgentConfig, agents: int) -> None:
        self.config, self.agents = config, agents

    @staticmethod
    @abstractmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Count the steps that the memory has to hold."""

    @property
    def fragment_length(self) -> int | None:
        """Steps after which the first part of an open episode is stored; None: when it ends."""
        return None

    @abstractmethod
    def updates_due(self, counters: Counters, batches_left: int) -> int:
        """Gradient steps owed now; ``batches_left`` are those of the epochs of an iteration."""

    @abstractmethod
    def may_act(self, counters: Counters, batches_left: int) -> bool:
        """Whether agents may be answered, or too many gradient steps are owed for that."""

    def begins_learning(self, counters: Counters, stored: int) -> bool:
        """Whether learning starts now that ``stored`` steps are in the memory."""
        return False

    def sweeps(self, counters: Counters) -> bool:
        """Whether all stored values are recomputed after this gradient step."""
        return False

    def begins_iteration(self, counters: Counters, batches_left: int, collected: int) -> bool:
        """Whether an iteration begins now that ``collected`` steps are stored or in open episodes."""
        return False

    def ends_iteration(self, counters: Counters, batches_left: int) -> bool:
        """Whether this gradient step was the last of an iteration, whose steps are then forgotten."""
        return False


class Ratio(Schedule):
    """The paper's: t = F k after warm-up, exactly; sweeps of the memory now and then.

    A credit is counted when an action is issued, and taken back should its outcome never arrive.
    """

    def __init__(self, config: AgentConfig, agents: int) -> None:
        super().__init__(config, agents)
        steps = Fraction(config.env_steps_per_gradient_step).limit_denominator(10**6)
        self._updates_per_step = 1 / steps

    @staticmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Take the replay memory of the settings."""
        return config.buffer_size

    @property
    def fragment_length(self) -> int | None:
        """That of the settings."""
        return self.config.fragment_length if isinstance(self.config, Remembering) else None

    def updates_due(self, counters: Counters, batches_left: int) -> int:
        """Gradient steps owed for the actions issued since learning started."""
        if not counters.is_learning:
            return 0
        earned = (counters.issued - counters.warm_up) * self._updates_per_step
        return max(0, earned.numerator // earned.denominator - counters.gradient_steps)

    def may_act(self, counters: Counters, batches_left: int) -> bool:
        """Not while gradient steps for more than a step of each agent are owed."""
        return self.updates_due(counters, batches_left) <= self.agents * self._updates_per_step

    def begins_learning(self, counters: Counters, stored: int) -> bool:
        """Once, as soon as ``learning_starts`` steps are stored."""
        return not counters.is_learning and stored >= self.config.learning_starts

    def sweeps(self, counters: Counters) -> bool:
        """Every ``SWEEP_INTERVAL`` gradient steps."""
        return counters.gradient_steps % SWEEP_INTERVAL == 0


class Iterations(Schedule):
    """PPO's and A3C's: a horizon of steps is learned from in some epochs, and forgotten.

    When the horizon is complete all open episodes are cut there, and the batches of all epochs become due at once;
    nobody is answered until they are done.
    """

    @staticmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Hold two horizons: what ends while the steps of one are learned from is stored beside them."""
        assert isinstance(config, OnPolicyConfig)
        return 2 * (config.most_steps + agents)

    def updates_due(self, counters: Counters, batches_left: int) -> int:
        """Batches that are left of the epochs."""
        return batches_left if counters.is_learning else 0

    def may_act(self, counters: Counters, batches_left: int) -> bool:
        """Not while an iteration is learned from."""
        return self.updates_due(counters, batches_left) == 0

    def begins_iteration(self, counters: Counters, batches_left: int, collected: int) -> bool:
        """When the horizon is complete; the first may be a longer one."""
        assert isinstance(self.config, OnPolicyConfig)
        horizon = self.config.horizon if counters.is_learning else self.config.most_steps
        return self.may_act(counters, batches_left) and collected >= horizon

    def ends_iteration(self, counters: Counters, batches_left: int) -> bool:
        """When no batch is left; what came meanwhile belongs to the next iteration."""
        return self.may_act(counters, batches_left)

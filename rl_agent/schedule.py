"""Schedules of the gradient steps: the paper's ratio of steps to gradient steps, or iterations over a horizon.

A schedule has no side effects: given the counters and the number of steps stored so far, it says what is due. The
learner queries it after every outcome, every stored episode and every gradient step, and carries out what is due.
The schedule is an attribute of the algorithm, so that the learner does not depend on the algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from rl_agent.config import AgentConfig, OnPolicyConfig, Remembering

__all__ = ["Counters", "Iterations", "Ratio", "Schedule"]

SWEEP_INTERVAL = 1000
"""Gradient steps between full sweeps of the memory, which also update the reward scale (sections 2 and B)."""


@dataclass
class Counters:
    """Counters of a learner."""

    issued: int = 0
    """Number of actions issued and not withdrawn."""
    received: int = 0
    """Number of actions whose outcome was received: environment steps t."""
    episodes: int = 0
    """Number of completed episodes."""
    gradient_steps: int = 0
    """Number of gradient steps k."""
    warm_up: int = -1
    """Number of actions issued when learning started; -1 before."""
    iteration_end: int = 0
    """Id of the first episode after those used in the latest iteration; 0 without iterations."""

    @property
    def is_learning(self) -> bool:
        """Whether learning has started."""
        return self.warm_up >= 0

    def begin_learning(self) -> None:
        """Start counting gradient steps."""
        self.warm_up = self.issued


class Schedule(ABC):
    """Base class of schedules, which have settings but no state.

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
        """Return the capacity of the memory in environment steps."""

    @property
    def fragment_length(self) -> int | None:
        """Number of steps after which part of an open episode is stored; ``None``: only when it ends."""
        return None

    @abstractmethod
    def updates_due(self, counters: Counters, batches_left: int) -> int:
        """Return the number of gradient steps due; ``batches_left`` is the number of batches left in an iteration."""

    @abstractmethod
    def may_act(self, counters: Counters, batches_left: int) -> bool:
        """Return whether agents may act, that is, not too many gradient steps are due."""

    def begins_learning(self, counters: Counters, stored: int) -> bool:
        """Return whether learning starts when ``stored`` steps have been stored, including evicted ones."""
        return False

    def sweeps(self, counters: Counters) -> bool:
        """Return whether all stored values are recomputed after this gradient step."""
        return False

    def begins_iteration(self, counters: Counters, batches_left: int, collected: int) -> bool:
        """Return whether an iteration begins, with ``collected`` steps stored or in open episodes."""
        return False

    def ends_iteration(self, counters: Counters, batches_left: int) -> bool:
        """Return whether this gradient step was the last of an iteration, whose steps are then removed."""
        return False


class Ratio(Schedule):
    """The paper's schedule: t = F k exactly after warm-up, with periodic sweeps of the memory.

    A step counts when its action is issued, and is withdrawn if its outcome never arrives.
    """

    def __init__(self, config: AgentConfig, agents: int) -> None:
        super().__init__(config, agents)
        steps = Fraction(config.env_steps_per_gradient_step).limit_denominator(10**6)
        self._updates_per_step = 1 / steps

    @staticmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Return ``buffer_size``."""
        return config.buffer_size

    @property
    def fragment_length(self) -> int | None:
        """``fragment_length`` of the settings."""
        return self.config.fragment_length if isinstance(self.config, Remembering) else None

    def updates_due(self, counters: Counters, batches_left: int) -> int:
        """Return the gradient steps due for the actions issued since learning started."""
        if not counters.is_learning:
            return 0
        earned = (counters.issued - counters.warm_up) * self._updates_per_step
        return max(0, earned.numerator // earned.denominator - counters.gradient_steps)

    def may_act(self, counters: Counters, batches_left: int) -> bool:
        """Return false while gradient steps for more than one step per agent are due."""
        return self.updates_due(counters, batches_left) <= self.agents * self._updates_per_step

    def begins_learning(self, counters: Counters, stored: int) -> bool:
        """Return true once, as soon as ``learning_starts`` steps have been stored.

        Evicted steps count: the memory evicts whole episodes, and so may never hold ``learning_starts`` steps.
        """
        return not counters.is_learning and stored >= self.config.learning_starts

    def sweeps(self, counters: Counters) -> bool:
        """Return true every ``SWEEP_INTERVAL`` gradient steps."""
        return counters.gradient_steps % SWEEP_INTERVAL == 0


class Iterations(Schedule):
    """The schedule of PPO and A3C: learn from a horizon of steps for some epochs, then discard it.

    When the horizon is complete, all open episodes are cut, and the batches of all epochs become due at once; agents
    do not act until they are done.
    """

    @staticmethod
    def capacity(config: AgentConfig, agents: int) -> int:
        """Return room for two horizons, because episodes that end during an iteration are stored as well."""
        assert isinstance(config, OnPolicyConfig)
        return 2 * (config.most_steps + agents)

    def updates_due(self, counters: Counters, batches_left: int) -> int:
        """Return the number of batches left in the epochs."""
        return batches_left if counters.is_learning else 0

    def may_act(self, counters: Counters, batches_left: int) -> bool:
        """Return false during an iteration."""
        return self.updates_due(counters, batches_left) == 0

    def begins_iteration(self, counters: Counters, batches_left: int, collected: int) -> bool:
        """Return true when the horizon is complete; the first one may be longer."""
        assert isinstance(self.config, OnPolicyConfig)
        horizon = self.config.horizon if counters.is_learning else self.config.most_steps
        return self.may_act(counters, batches_left) and collected >= horizon

    def ends_iteration(self, counters: Counters, batches_left: int) -> bool:
        """Return true when no batch is left; steps collected meanwhile belong to the next iteration."""
        return self.may_act(counters, batches_left)

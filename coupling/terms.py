"""What the service needs of a learner, and what it agrees on with every worker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rl_agent.running import Decision

__all__ = ["Learning", "Terms"]


class Learning(Protocol):
    """The part of :class:`rl_agent.learner.Learner` that the service needs."""

    @property
    def environment_steps(self) -> int:
        """Actions whose outcome was observed."""

    @property
    def gradient_steps(self) -> int:
        """Updates done."""

    def begin(self, agents: np.ndarray, observations: np.ndarray) -> None:
        """Take the first observations of new episodes."""

    def decide(self, agents: np.ndarray) -> Decision:
        """Draw an action for each agent's current observation."""

    def issue(self, decision: Decision) -> np.ndarray:
        """Take note that drawn actions are out, and return them in the task's units."""

    def observe(
        self,
        agents: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        observations: np.ndarray,
    ) -> None:
        """Take the outcomes of the last actions."""

    def abandon(self, agents: np.ndarray) -> None:
        """Keep the open episodes as truncated: nothing more comes of them."""

    def updates_due(self) -> int:
        """Gradient steps owed now."""

    def update(self) -> None:
        """Do one gradient step."""

    def may_act(self) -> bool:
        """Tell whether learning keeps up with acting."""


@dataclass(frozen=True)
class Terms:
    """What the service agrees on with every worker.

    Attributes
    ----------
    agents_of_each
        Number of environments of each worker; agents are numbered through in this order.
    observation_size
        Floats in an observation.
    action_low, action_high
        Bounds of the actions.
    task_hash
        Hash of the task and its options.
    seed_of
        Seed of an agent's environment, from the agent and how many processes its worker had before.
    step_timeout
        Seconds that an environment step, or the start of a worker, may take.
    heartbeat, dead_after, patience
        Seconds between signs of life; of silence after which a worker is dead; after which a worker gives up, and
        after which nobody waits any more for the successor of a dead one.
    epoch
        How often the run had been started before.
    """

    agents_of_each: Sequence[int]
    observation_size: int
    action_low: Sequence[float]
    action_high: Sequence[float]
    task_hash: str
    seed_of: Callable[[int, int], int]
    step_timeout: float = 300.0
    heartbeat: float = 1.0
    dead_after: float = 5.0
    patience: float = 600.0
    epoch: int = 0

    @property
    def action_size(self) -> int:
        """Floats in an action."""
        return len(self.action_low)

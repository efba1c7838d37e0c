"""Interface of a learner that the service needs, and the terms that it agrees on with every worker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from coupling.wire.protocol import HEADER_SIZE, MAX_BODY, VERSION, Hello, step_size
from rl_agent.rollout.open_episodes import Decision

__all__ = ["Learning", "NotLearning", "Terms"]

_LEAST_LIMIT = 2**20  # bytes of a frame; minimum of the limit


class Learning(Protocol):
    """The part of :class:`rl_agent.learner.Learner` that the service needs."""

    @property
    def environment_steps(self) -> int:
        """Number of actions whose outcome was observed."""

    @property
    def gradient_steps(self) -> int:
        """Number of updates done."""

    def begin(self, agents: np.ndarray, observations: np.ndarray) -> None:
        """Start new episodes with their first observations."""

    def decide(self, agents: np.ndarray) -> Decision:
        """Sample an action for each agent's current observation."""

    def issue(self, decision: Decision) -> np.ndarray:
        """Record that sampled actions are issued, and return them in the task's units."""

    def observe(
        self,
        agents: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        observations: np.ndarray,
        agent_ended: np.ndarray | None = None,
    ) -> None:
        """Record the outcomes of the last actions; ``agent_ended`` is for multi-agent environments."""

    def learnable(self, observations: np.ndarray) -> np.ndarray:
        """Return which observations can be learned from."""

    def abandon(self, agents: np.ndarray) -> None:
        """End the open episodes as truncated."""

    def updates_due(self) -> int:
        """Return the number of gradient steps that are due."""

    def update(self) -> None:
        """Do one gradient step."""

    def may_act(self) -> bool:
        """Return whether learning keeps up with acting."""


class NotLearning:
    """The methods of :class:`Learning` of a stand-in that learns nothing."""

    def learnable(self, observations: np.ndarray) -> np.ndarray:
        """Return True for all observations."""
        return np.ones(len(observations), np.bool_)

    def updates_due(self) -> int:
        """Return 0."""
        return 0

    def update(self) -> None:
        """Do nothing."""

    def may_act(self) -> bool:
        """Return True, since there are no gradient steps to wait for."""
        return True


@dataclass(frozen=True)
class Terms:
    """Terms that the service agrees on with every worker.

    Attributes
    ----------
    agents_of_each
        Number of environments of each worker; agents are numbered consecutively in this order.
    observation_size
        Floats in an observation of an agent.
    action_low, action_high
        Bounds of the actions of an agent.
    task_hash
        Hash of the task and its options.
    seed_of
        Function of the agent and the number of earlier processes of its worker that returns the environment's seed.
    step_timeout
        Seconds that an environment step may take.
    heartbeat, dead_after, patience
        Seconds between signs of life; of silence after which a worker counts as dead; and after which a worker gives up
        and the learner no longer waits for the successor of a dead one.
    epoch
        Number of earlier starts of the run.
    synchronous
        Whether the learner waits for all workers, and finishes the gradient steps that are due, before it answers.
    agents_per_env
        Agents that act together in an environment.
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
    synchronous: bool = False
    agents_per_env: int = 1

    @property
    def action_size(self) -> int:
        """Floats in an action of an agent."""
        return len(self.action_low)

    @property
    def longest_frame(self) -> int:
        """Bytes of the longest frame that a worker may send: a HELLO with its last STEP, and at least 1 MiB."""
        agents = self.agents_per_env if self.agents_per_env > 1 else None
        step = HEADER_SIZE + step_size(max(self.agents_of_each), self.observation_size, agents)
        return min(HEADER_SIZE + MAX_BODY, max(_LEAST_LIMIT, 2 * step + 32 * self.action_size))

    def refusal(self, hello: Hello, slot: int | None) -> str:
        """Return why a worker cannot take a slot, or an empty string."""
        if not hello.versions[0] <= VERSION[0] <= hello.versions[1]:
            low, high = hello.versions
            return f"it speaks versions {low} to {high} of the protocol, this learner speaks {VERSION[0]}"
        if hello.task_hash != self.task_hash:
            return "it hosts another task than this run, or the same one with other options"
        if said := self._other_number_of_agents(hello):
            return said
        sizes = (hello.observation_size, len(hello.action_low))
        if sizes != (self.observation_size, self.action_size):
            return (
                f"its observations and actions have {sizes[0]} and {sizes[1]} numbers, "
                f"this run's have {self.observation_size} and {self.action_size}"
            )
        if (hello.action_low, hello.action_high) != (list(self.action_low), list(self.action_high)):
            return f"its actions lie in {hello.action_low} to {hello.action_high}, not within this run's bounds"
        if slot is None:
            return f"this run has no free place for a worker with {hello.environments} environments"
        if not 0 <= slot < len(self.agents_of_each):
            return (
                f"there is no worker {slot} in this run, only 0 to {len(self.agents_of_each) - 1}"
            )
        if hello.environments != self.agents_of_each[slot]:
            return f"it hosts {hello.environments} environments, this run gives it {self.agents_of_each[slot]}"
        return ""

    def _other_number_of_agents(self, hello: Hello) -> str:
        """Return what is wrong with the number of agents of a worker's environments, or an empty string."""
        agents, expected = hello.agents_per_env, self.agents_per_env
        if agents is msgspec.UNSET:
            if expected == 1:
                return ""
            return (
                "it speaks version 1.0 of the protocol, whose environments have one agent, and those of this run have "
                f"{expected}, for which version 1.1 is needed"
            )
        return (
            ""
            if agents == expected
            else (f"its environments have {agents} agents, this run's have {expected}")
        )

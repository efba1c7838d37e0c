"""A policy that replaces the learner, to evaluate it on programs outside Python.

The programs are the same as in training: they connect with the client of ``coupling/c`` and see no difference between
an evaluation and a training.
"""

import numpy as np

from coupling.evaluation.result import Evaluation
from coupling.service.terms import NotLearning
from rl_agent.policy import Policy
from rl_agent.rollout.open_episodes import Decision

__all__ = ["CONTROLLERS", "Acting"]

CONTROLLERS = ("agent", "zero", "random")
"""The controllers; each environment plays its episodes with the first one, then with the next."""


class Acting(NotLearning):
    """The learner's interface for the service (:class:`coupling.service.terms.Learning`), without learning.

    Parameters
    ----------
    policy
        The trained policy.
    agents
        Number of environments.
    episodes
        Number of episodes of each controller, shared among the environments as evenly as possible.
    deterministic
        Whether the policy acts with its mean instead of a sample.
    seed
        Seed of the samples and of the random controller.

    Attributes
    ----------
    actions
        Number of actions in the current episode of each environment, shape (agents,).
    """

    gradient_steps = 0

    def __init__(
        self, policy: Policy, agents: int, episodes: int, *, deterministic: bool, seed: int
    ) -> None:
        self._policy, self._deterministic = policy, deterministic
        self._rng = np.random.default_rng(seed)
        self._quota = episodes // agents + (np.arange(agents) < episodes % agents)
        self._observation = np.zeros((agents, policy.sizes.seen), np.float32)
        self._state = policy.initial_state(agents)
        self._next_state = self._state.copy()
        self._return = np.zeros(agents)
        self.actions = np.zeros(agents, np.int64)
        # finished episodes of each controller and environment, in the order in which they ended
        self._over: list[list[list[tuple[float, int, bool]]]] = [
            [[] for _ in range(agents)] for _ in CONTROLLERS
        ]
        self._steps = 0

    @property
    def environment_steps(self) -> int:
        """Number of actions whose outcome was observed."""
        return self._steps

    @property
    def over(self) -> int:
        """Number of finished episodes of all controllers."""
        return sum(len(each) for controller in self._over for each in controller)

    @property
    def is_over(self) -> bool:
        """Whether all episodes of all controllers have finished."""
        return self.over == len(CONTROLLERS) * int(self._quota.sum())

    @property
    def longest(self) -> int:
        """Number of actions of the longest open episode that counts."""
        counts = [len(self._over[-1][agent]) < quota for agent, quota in enumerate(self._quota)]
        return int(self.actions[counts].max(initial=0))

    def evaluations(self) -> dict[str, Evaluation]:
        """Return the episodes of each controller, environment by environment."""
        found = {}
        for name, controller in zip(CONTROLLERS, self._over, strict=True):
            returns, lengths, survived = zip(*(e for each in controller for e in each), strict=True)
            none, well = np.zeros(len(returns), bool), np.full(len(returns), "", object)
            unmeasured = np.full(len(returns), {}, object)
            found[name] = Evaluation(
                np.array(returns), np.array(lengths), np.array(survived), none, well, unmeasured
            )
        return found

    def _controller(self, agent: int) -> int:
        """Return the index of the controller of an environment's current episode."""
        for number, controller in enumerate(self._over):
            if len(controller[agent]) < self._quota[agent]:
                return number
        return 0  # its episodes have finished, and it plays on until the others have

    def begin(self, agents: np.ndarray, observations: np.ndarray) -> None:
        """Start new episodes with their first observations."""
        self._observation[agents] = observations
        self._state[agents] = self._return[agents] = self.actions[agents] = 0

    def decide(self, agents: np.ndarray) -> Decision:
        """Choose an action for each environment's current observation with its current controller."""
        actions, self._next_state[agents] = self._policy.act(
            self._observation[agents],
            self._state[agents],
            deterministic=self._deterministic,
            rng=self._rng,
        )
        low, high = self._policy.action_low, self._policy.action_high
        for row, agent in enumerate(agents):
            name = CONTROLLERS[self._controller(int(agent))]
            if name == "zero":
                actions[row] = (low + high) / 2
            elif name == "random":
                actions[row] = self._rng.uniform(low, high)
        nothing = np.zeros((len(agents), 0), np.float32)
        value, state = np.zeros(len(agents), np.float32), self._next_state[agents]
        return Decision(agents, actions, actions, nothing, value, state, nothing, {})

    def issue(self, decision: Decision) -> np.ndarray:
        """Register that actions have been sent, and return them in the task's units."""
        self._state[decision.agents] = decision.state
        return decision.action

    def observe(
        self,
        agents: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        observations: np.ndarray,
        agent_ended: np.ndarray | None = None,
    ) -> None:
        """Record the outcomes of the last actions; programs outside Python have one agent per environment."""
        self._steps += len(agents)
        self._return[agents] += rewards
        self.actions[agents] += 1
        self._observation[agents] = observations
        for agent, died in zip(
            agents[terminated | truncated], terminated[terminated | truncated], strict=True
        ):
            mine = self._over[self._controller(int(agent))][agent]
            if len(mine) < self._quota[agent]:
                mine.append((float(self._return[agent]), int(self.actions[agent]), not died))

    def abandon(self, agents: np.ndarray) -> None:
        """Discard open episodes, which are played again."""
        self._return[agents] = self.actions[agents] = 0

"""Training and evaluation in one process, reproducible bit for bit: for tests, short studies and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex

import gymnasium
import numpy as np
import numpy.typing as npt

from rl_agent.multi_agent.outcomes import agent_outcomes
from rl_agent.normalization.actions import task_actions
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed

__all__ = ["SerialRun", "evaluate", "train_serial"]

F32 = npt.NDArray[np.float32]


class TrainableAgent(Protocol):
    """The part of :class:`rl_agent.learner.Learner` that a loop over environments needs."""

    agents: int

    @property
    def environment_steps(self) -> int:
        """Number of actions whose outcome was observed."""

    def begin(self, agents: npt.ArrayLike, observations: npt.ArrayLike) -> None:
        """Start new episodes with their first observations."""

    def act(self, agents: npt.ArrayLike) -> F32:
        """Sample an action for each agent's current observation."""

    def observe(
        self,
        agents: npt.ArrayLike,
        rewards: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike,
        observations: npt.ArrayLike,
        agent_ended: npt.ArrayLike | None = None,
    ) -> None:
        """Record the outcomes of the last actions."""

    def updates_due(self) -> int:
        """Return the number of gradient steps that are due now."""

    def update(self) -> None:
        """Take one gradient step."""


class ActingPolicy(Protocol):
    """The part of :class:`rl_agent.policy.Policy` that an evaluation needs."""

    def initial_state(self, count: int) -> F32:
        """Return the states at the beginning of episodes."""

    def act(
        self,
        observations: F32,
        state: F32,
        *,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[F32, F32]:
        """Return actions and the next states."""


class SerialRun:
    """A learner and its environments in one loop: one step of all environments, then the gradient steps due.

    Parameters
    ----------
    learner
        The learner, with as many agents as there are environments.
    environments
        A vector environment that resets in the same step (``AutoresetMode.SAME_STEP``). Observations of shape
        (E, N, S) are those of N agents per environment, whose rewards are in the infos, as described in
        ``rl_agent/multi_agent/outcomes.py``.
    seed
        Seed of the first reset: one number, to which each environment adds its index, or a list with one number per
        environment. Numbers below 2^31 are never evaluation seeds (:mod:`rl_agent.rollout.seeds`).
    """

    def __init__(
        self,
        learner: TrainableAgent,
        environments: gymnasium.vector.VectorEnv,
        seed: int | Sequence[int],
    ) -> None:
        if environments.num_envs != learner.agents:
            raise ValueError(
                f"{environments.num_envs} environments do not fit a learner of {learner.agents} agents"
            )
        mode = environments.metadata.get("autoreset_mode")
        if mode != gymnasium.vector.AutoresetMode.SAME_STEP:
            raise ValueError(
                f"the environments reset in mode {mode}, where an action may not belong to the observation before it; "
                "make them with autoreset_mode = AutoresetMode.SAME_STEP"
            )
        self.learner = learner
        self.environments = environments
        self._all = np.arange(learner.agents)
        observations, _ = environments.reset(
            seed=int(seed) if isinstance(seed, SupportsIndex) else list(seed)  # type: ignore[arg-type]  # vectors take lists
        )
        learner.begin(self._all, observations)

    def run(self, steps: int) -> None:
        """Continue until the learner has received at least ``steps`` more environment steps."""
        goal = self.learner.environment_steps + steps
        space = self.environments.single_action_space
        while self.learner.environment_steps < goal:
            actions = task_actions(self.learner.act(self._all), space)
            observations, rewards, terminated, truncated, info = self.environments.step(actions)
            ended = terminated | truncated
            outcome = np.array(observations, np.float32)
            for agent in np.flatnonzero(ended):
                outcome[agent] = info["final_obs"][agent]
            gone = None
            if outcome.ndim == 3:
                rewards, gone = agent_outcomes(info, ended, outcome.shape[1])
            self.learner.observe(self._all, rewards, terminated, truncated, outcome, gone)
            if ended.any():
                self.learner.begin(self._all[ended], observations[ended])
            while self.learner.updates_due():
                self.learner.update()


def train_serial(
    learner: TrainableAgent,
    environments: gymnasium.Env | gymnasium.vector.VectorEnv,
    steps: int,
    seed: int = 0,
) -> None:
    """Train ``learner`` for ``steps`` environment steps in this process.

    Parameters
    ----------
    learner
        The learner, with one agent per environment.
    environments
        One environment, or a vector environment that resets in the same step.
    steps
        Environment steps, over all agents.
    seed
        Seed of the environments, as in :class:`SerialRun`.
    """
    if isinstance(environments, gymnasium.vector.VectorEnv):
        SerialRun(learner, environments, seed).run(steps)
        return
    single: gymnasium.Env[Any, Any] = environments
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    SerialRun(
        learner, gymnasium.vector.SyncVectorEnv([lambda: single], autoreset_mode=mode), seed
    ).run(steps)


def evaluate(
    policy: ActingPolicy,
    environment: gymnasium.Env,
    episodes: int,
    seed: int = EVALUATION_SEED,
    *,
    deterministic: bool = True,
) -> npt.NDArray[np.float64]:
    """Return the returns of a fixed policy in held-out episodes (:mod:`rl_agent.rollout.seeds`), shape (episodes,)."""
    rng = np.random.default_rng(seed)
    returns = np.zeros(episodes)
    for episode in range(episodes):
        observation, _ = environment.reset(seed=episode_seed(Purpose.EVALUATION, seed, episode))
        state, ended = policy.initial_state(1), False
        while not ended:
            actions, state = policy.act(
                np.asarray(observation)[None], state, deterministic=deterministic, rng=rng
            )
            observation, reward, terminated, truncated, _ = environment.step(
                task_actions(actions, environment.action_space)[0]
            )
            returns[episode] += float(reward)
            ended = terminated or truncated
    return returns

"""Adapters: vector environments for stable-baselines3, and its models as controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from coupling.worker.environments import Numbered
from coupling.worker.multi_agent import space_of_one
from rl_agent.multi_agent.outcomes import agent_outcomes

__all__ = ["Environments", "ModelController"]


class Environments(VecEnv):
    """A VecEnv around a Gymnasium vector environment with same-step reset, which records finished episodes.

    Each agent of a multi-agent environment is presented as a separate environment, so that one policy learns from all
    of them. All agents end with their environment; an agent that has ended before receives a reward of 0 until then.

    Parameters
    ----------
    vector
        The environments.
    seed
        Seed of the first reset: one number, or one for each environment.
    agents_per_env
        Number of agents in each environment.
    """

    def __init__(
        self, vector: VectorEnv, seed: int | Sequence[int], agents_per_env: int = 1
    ) -> None:
        self._vector, self._first_seed, self._agents_per_env = vector, seed, agents_per_env
        self._gone = np.zeros(vector.num_envs * agents_per_env, bool)
        self._returns, self._lengths = (
            np.zeros(vector.num_envs),
            np.zeros(vector.num_envs, np.int64),
        )
        self._episodes: list[tuple[float, int]] = []
        sees, acts = vector.single_observation_space, vector.single_action_space
        if agents_per_env > 1:
            assert isinstance(sees, Box)
            assert isinstance(acts, Box)
            acts = acts.choices if isinstance(acts, Numbered) else space_of_one(acts)
            sees = space_of_one(sees)
        super().__init__(vector.num_envs * agents_per_env, sees, acts)

    def take_episodes(self) -> list[tuple[float, int]]:
        """Return the return and length of each episode completed since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def reset(self) -> np.ndarray:
        """Reset all environments."""
        seed: Any = self._first_seed  # vector environments accept lists too
        return self._apart(np.array(self._vector.reset(seed=seed)[0]))

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions for ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step the environments with the stored actions."""
        actions = self._actions.reshape(
            self._vector.num_envs, *self._vector.single_action_space.shape or ()
        )
        observations, rewards, terminated, truncated, info = self._vector.step(actions)
        ended = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        last = np.array(observations)
        for i in np.flatnonzero(ended):
            last[i] = info["final_obs"][i]
            self._episodes.append((float(self._returns[i]), int(self._lengths[i])))
        self._returns[ended] = self._lengths[ended] = 0
        each, cut = np.repeat([ended, truncated & ~terminated], self._agents_per_env, axis=1)
        if self._agents_per_env > 1:
            paid, gone = agent_outcomes(info, ended, self._agents_per_env)
            rewards = np.where(self._gone, 0.0, paid.ravel())
            self._gone |= gone.ravel()
            cut &= ~self._gone  # an agent that reached a terminal state is not bootstrapped
            self._gone &= ~each
        infos: list[dict[str, Any]] = [{} for _ in each]
        for k, final in zip(np.flatnonzero(each), self._apart(last[ended]), strict=True):
            infos[k]["terminal_observation"] = final
            infos[k]["TimeLimit.truncated"] = bool(cut[k])
        return self._apart(np.array(observations)), np.array(rewards, np.float32), each, infos

    def _apart(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return observations with a row for each agent of each environment, shape (n N, S)."""
        return observations.reshape(-1, observations.shape[-1])

    def close(self) -> None:
        """Close the environments."""
        self._vector.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return None for each environment; stable-baselines3 asks for ``render_mode`` at the start."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise NotImplementedError."""
        raise NotImplementedError

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **options: Any
    ) -> list[Any]:
        """Raise NotImplementedError."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each environment."""
        return [False] * self.num_envs


class ModelController:
    """A trained model as a controller, shared by all agents of an environment."""

    def __init__(
        self, model: BaseAlgorithm, *, deterministic: bool, agents_per_env: int = 1
    ) -> None:
        self._model, self._deterministic, self._agents_per_env = (
            model,
            deterministic,
            agents_per_env,
        )

    def reset(self, n: int) -> None:
        """Start ``n`` episodes."""

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return the model's actions."""
        own = observations.reshape(-1, observations.shape[-1])
        actions = np.asarray(self._model.predict(own, deterministic=self._deterministic)[0])
        several = len(observations), self._agents_per_env, -1
        return actions if self._agents_per_env == 1 else actions.reshape(several)

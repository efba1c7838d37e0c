"""Our vector environments as stable-baselines3 wants them, and its models as controllers."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["Environments", "ModelController"]


class Environments(VecEnv):
    """A vector environment that resets in the same step, with the episodes it has seen.

    Parameters
    ----------
    vector
        The environments.
    seed
        Seeds the first reset.
    """

    def __init__(self, vector: VectorEnv, seed: int) -> None:
        self._vector, self._first_seed = vector, seed
        self._returns, self._lengths = np.zeros(vector.num_envs), np.zeros(vector.num_envs, np.int64)
        self._episodes: list[tuple[float, int]] = []
        super().__init__(vector.num_envs, vector.single_observation_space, vector.single_action_space)

    def take_episodes(self) -> list[tuple[float, int]]:
        """Return and length of the episodes completed since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def reset(self) -> np.ndarray:
        """Begin all episodes."""
        return np.array(self._vector.reset(seed=self._first_seed)[0])

    def step_async(self, actions: np.ndarray) -> None:
        """Note the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the step."""
        observations, rewards, terminated, truncated, info = self._vector.step(self._actions)
        ended = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in ended]
        for i in np.flatnonzero(ended):
            infos[i]["terminal_observation"] = np.array(info["final_obs"][i])
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
            self._episodes.append((float(self._returns[i]), int(self._lengths[i])))
        self._returns[ended] = self._lengths[ended] = 0
        return np.array(observations), np.array(rewards, np.float32), ended, infos

    def close(self) -> None:
        """Close the environments."""
        self._vector.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """There is nothing to ask for; render_mode is asked for at the start."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse."""
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        """Refuse."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return no for each."""
        return [False] * self.num_envs


class ModelController:
    """A trained model as a controller."""

    def __init__(self, model: BaseAlgorithm, *, deterministic: bool) -> None:
        self._model, self._deterministic = model, deterministic

    def reset(self, n: int) -> None:
        """Begin ``n`` episodes."""

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return the model's actions."""
        return np.asarray(self._model.predict(observations, deterministic=self._deterministic)[0])

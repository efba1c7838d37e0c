"""my_task:MyTask-v0: a point that is pushed to the origin; a template for your own environment."""

from typing import Any

import gymnasium
import numpy as np


class MyTask(gymnasium.Env[np.ndarray, np.ndarray]):
    """A point that is pushed to the origin.

    Observation: the two coordinates. Action: the displacement, each component from -1 to 1, multiplied by 0.3. Reward:
    -|x|^2 - 0.01 |a|^2 with the new position.

    Parameters
    ----------
    reach
        Initial coordinates are uniform in [-reach, reach]; set it with `env_options.reach=2.0`.
    """

    def __init__(self, reach: float = 1.0) -> None:
        self.reach = reach
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; all random numbers come from `self.np_random`, so the seed determines them."""
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-self.reach, self.reach, 2)
        return self.x.astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move the point. Return terminated=True only for a final state without future reward; time limits truncate."""
        self.x = self.x + 0.3 * action
        reward = -float(self.x @ self.x) - 0.01 * float(action @ action)
        return self.x.astype(np.float32), reward, False, False, {}


gymnasium.register("MyTask-v0", "my_task:MyTask", max_episode_steps=20)

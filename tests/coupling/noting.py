"""A test task with its own rendering that writes the first observation of each of its episodes to a file."""

from pathlib import Path

import gymnasium as gym
import numpy as np


class Noting(gym.Env):
    """Episodes of four steps; the observation is random at the reset and then stays constant.

    Parameters
    ----------
    file
        Gets a line for each episode; several processes may write it.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(self, render_mode=None, *, file):
        self.render_mode, self.file = render_mode, Path(file)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen, self.steps = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32), 0
        with self.file.open("a") as file:
            file.write(f"{self.seen[0]:.7f} {self.seen[1]:.7f}\n")
        return self.seen, {}

    def step(self, action):
        self.steps += 1
        return self.seen, float(action[0]), False, self.steps == 4, {}

    def render(self):
        return np.zeros((30, 40, 3), np.uint8)


gym.register("Noting-v0", Noting)

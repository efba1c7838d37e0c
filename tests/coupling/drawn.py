"""Test tasks with their own rendering: the colour encodes the step, and the seed sets the length of an episode."""

import gymnasium as gym
import numpy as np


class Drawn(gym.Env):
    """Episodes of 2 to 4 steps with reward 1; every pixel of a frame is (10 * frames so far, 10 * length, 200)."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(self, render_mode=None, *, fails="", discrete=False):
        self.render_mode, self.fails = render_mode, fails
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = (
            gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.steps, self.seen = int(self.np_random.integers(2, 5)), 0, 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        if self.fails == "step":
            raise ArithmeticError("no such step")
        over = self.steps == self.length
        return np.zeros(2, np.float32), 1.0, over and self.length == 2, over, {}

    def render(self):
        if self.fails == "grey":
            return np.zeros((30, 40), np.uint8)
        if self.fails == "nothing":
            return np.zeros((0, 40, 3), np.uint8)
        if self.fails == "growing":
            return np.zeros((30 + 2 * self.steps, 40, 3), np.uint8)
        return self.picture()

    def picture(self):
        self.seen += 1
        return np.full((30, 40, 3), (10 * self.seen, 10 * self.length, 200), np.uint8)


class DrawnInPieces(Drawn):
    """The same with three frames per action."""

    metadata = {"render_modes": ["rgb_array_list", "rgb_array"], "render_fps": 21}  # noqa: RUF012

    def render(self):
        return [self.picture() for _ in range(3 if self.steps else 1)]


class Unseen(Drawn):
    """The same without rendering."""

    metadata = {"render_modes": []}  # noqa: RUF012


class Hasty(Drawn):
    """The same with a frame rate that is no number."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": "fast"}  # noqa: RUF012


class Rapid(Drawn):
    """The same with more frames per second than can be written for long."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2000}  # noqa: RUF012


gym.register("Drawn-v0", Drawn)
gym.register("Hasty-v0", Hasty)
gym.register("Rapid-v0", Rapid)
gym.register("DrawnInPieces-v0", DrawnInPieces)
gym.register("Unseen-v0", Unseen)

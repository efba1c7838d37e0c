"""Environments that count their steps and fail when told to, one at a time or as a batch of their own."""

from typing import ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

BOX = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


class Counting(gym.Env):
    """Observes its step; action 0.5 makes it raise, -0.5 gives a reward that is no number."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = BOX
    made = 0

    def __init__(self):
        Counting.made += 1
        self.name = Counting.made

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0, self.name], np.float32), {}

    def step(self, action):
        if action[0] == 0.5:
            raise RuntimeError("told to fail")
        self.time += 1
        reward = np.nan if action[0] == -0.5 else 1.0
        return np.array([self.time, self.name], np.float32), reward, self.time == 3, False, {}


class Batch(VectorEnv):
    """The same as a batch of its own, which knows no single failures; notes the seeds of its resets."""

    seeds: ClassVar[list] = []
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs=1):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = Counting.observation_space, BOX
        self.observation_space = batch_space(Counting.observation_space, num_envs)
        self.action_space = batch_space(BOX, num_envs)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        Batch.seeds.append(seed)
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions):
        if (actions == 0.5).any():
            raise RuntimeError("told to fail")
        self.time += 1
        observations = np.full((self.num_envs, 2), self.time, np.float32)
        rewards = np.where(actions[:, 0] == -0.5, np.nan, 1.0)
        no = np.zeros(self.num_envs, bool)
        return observations, rewards, no, no, {}


gym.register(id="test/Counting-v0", entry_point="counting:Counting")
gym.register(id="test/Batch-v0", vector_entry_point="counting:Batch")

"""An environment whose rewards say which episode and step they belong to, so that a memory can be audited.

The reward of the s-th step of an environment's e-th episode is 1000 e + s; the observations are (e, s, seed).
Workers find this module on PYTHONPATH and register it by the id ``oracle:test/Oracle-v0``.
"""

import os
import time

import gymnasium as gym
import numpy as np


class Oracle(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, *, fail_at=0, hang_at=0, nan_at=0, step_seconds=0.0):
        self.fail_at, self.hang_at, self.nan_at, self.step_seconds = fail_at, hang_at, nan_at, step_seconds
        self.episode, self.total, self.mark = 0, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.mark = seed % 2**23  # exact in float32
        self.episode += 1
        self.step_number = 0
        self.last = int(self.np_random.integers(3, 30))
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32)), action
        self.total += 1
        self.step_number += 1
        time.sleep(self.step_seconds)
        if self.total == self.fail_at:
            raise RuntimeError("the oracle was told to fail")
        if self.total == self.hang_at and os.environ.get("FLOWSIM_PARENT"):
            time.sleep(1000)
        over = self.step_number == self.last
        reward = np.nan if self.total == self.nan_at else 1000.0 * self.episode + self.step_number
        return self._observation(), reward, over and self.last % 2 == 0, over and self.last % 2 == 1, {}

    def _observation(self):
        return np.array([self.episode, self.step_number, self.mark], np.float32)


gym.register(id="test/Oracle-v0", entry_point="oracle:Oracle")

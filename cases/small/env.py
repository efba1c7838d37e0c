"""Small tasks for learners, each with a best return that can be computed (``cases/small/best.py``).

The time limits are those of the registration (``cases/__init__.py``), which truncates episodes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.pendulum import PendulumEnv

__all__ = ["Chain", "Glide", "HiddenPendulum", "LinearQuadratic", "Reach", "Recall"]

F32 = npt.NDArray[np.float32]
Step = tuple[F32, float, bool, bool, dict[str, Any]]


def _free(size: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _unit(size: int) -> gym.spaces.Box:
    return gym.spaces.Box(-1.0, 1.0, (size,), np.float32)


class LinearQuadratic(gym.Env[Any, Any]):
    """Linear-quadratic control of a point: x <- x + 0.3 a, reward -|x|^2 - 0.01 |a|^2 with the new x.

    Initial states are uniform in [-1, 1]^n; actions are in [-1, 1]^n.

    Parameters
    ----------
    dimension
        Dimension n of x and a.
    """

    STEP: ClassVar[float] = 0.3
    EFFORT: ClassVar[float] = 0.01

    def __init__(self, dimension: int = 2) -> None:
        self.observation_space = _free(dimension)
        self.action_space = _unit(dimension)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape)
        return self.x.astype(np.float32), {}

    def step(self, action: F32) -> Step:
        """Move the point."""
        a = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        self.x = self.x + self.STEP * a
        reward = -float(self.x @ self.x) - self.EFFORT * float(a @ a)
        return self.x.astype(np.float32), reward, False, False, {}


class Glide(gym.Env[Any, Any]):
    """A body in a viscous fluid that has to be brought to rest at the origin, with long episodes.

    v <- v + 0.1 (a - v), x <- x + 0.1 v. The reward is -0.1 (x^2 + a^2) with the x before the step. The body starts at
    rest with x uniform in [-1, 1]. Actions are in [-2, 2], limits that the optimal feedback never reaches.
    """

    DT: ClassVar[float] = 0.1

    def __init__(self) -> None:
        self.observation_space = _free(2)
        self.action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.x, self.v = float(self.np_random.uniform(-1.0, 1.0)), 0.0
        return np.array([self.x, self.v], np.float32), {}

    def step(self, action: F32) -> Step:
        """Push the body."""
        a = float(np.clip(action[0], -2.0, 2.0))
        reward = -self.DT * (self.x**2 + a**2)
        self.v += self.DT * (a - self.v)
        self.x += self.DT * self.v
        return np.array([self.x, self.v], np.float32), reward, False, False, {}


class Recall(gym.Env[Any, Any]):
    """A memory task: a cue, 0.6 or -0.6, is in the first observation only and has to be recalled some steps later.

    The answer a has the reward 1 - (a - cue)^2 / 0.36 and ends the episode. The reward is 1 for the cue and 0 for the
    mean of the two cues, which is the best answer without memory. The observation is the cue and whether an answer is
    requested.

    Parameters
    ----------
    wait
        Steps until an answer is requested, at least one.
    """

    CUE: ClassVar[float] = 0.6

    def __init__(self, wait: int = 3) -> None:
        if wait < 1:
            raise ValueError(f"wait = {wait} must be at least 1 step")
        self.wait = wait
        self.observation_space = _unit(2)
        self.action_space = _unit(1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.cue, self.time = self.CUE * float(self.np_random.choice([-1.0, 1.0])), 0
        return np.array([self.cue, 0.0], np.float32), {}

    def step(self, action: F32) -> Step:
        """Wait, or answer."""
        self.time += 1
        asked = np.array([0.0, float(self.time == self.wait)], np.float32)
        if self.time <= self.wait:
            return asked, 0.0, False, False, {}
        return asked, 1.0 - (float(action[0]) - self.cue) ** 2 / self.CUE**2, True, False, {}


class HiddenPendulum(PendulumEnv):
    """Gymnasium's pendulum without its angular velocity: the observation is the cosine and the sine of its angle.

    The velocity follows from two consecutive observations, so frame stacking is sufficient memory; a policy of a single
    observation is not sufficient.
    """

    def __init__(self, render_mode: str | None = None, g: float = 10.0) -> None:
        super().__init__(render_mode, g)
        self.observation_space = _unit(2)

    def _get_obs(self) -> F32:
        theta, _ = self.state
        return np.array([np.cos(theta), np.sin(theta)], np.float32)


class Reach(gym.Env[Any, Any]):
    """A sparse-reward task: a point in [-1, 1]^2 receives 1 when it comes within 0.2 of the origin, and 0 before.

    x <- x + 0.1 a, clipped to the square, with actions in [-1, 1]^2. Initial states are uniform outside the goal.
    """

    STEP: ClassVar[float] = 0.1
    GOAL: ClassVar[float] = 0.2

    def __init__(self) -> None:
        self.observation_space = _unit(2)
        self.action_space = _unit(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        while True:
            self.x = self.np_random.uniform(-1.0, 1.0, 2)
            if not self._at_goal():
                return self.x.astype(np.float32), {}

    def step(self, action: F32) -> Step:
        """Move the point."""
        self.x = np.clip(self.x + self.STEP * np.clip(action, -1.0, 1.0), -1.0, 1.0)
        there = self._at_goal()
        return self.x.astype(np.float32), float(there), there, False, {}

    def _at_goal(self) -> bool:
        return float(self.x @ self.x) < self.GOAL**2


class Chain(gym.Env[Any, Any]):
    """A chain of eight states with discrete actions; the reward per step is 0.05 at the first state and 1 at the last.

    The action 1 moves up with probability 0.7, stays with 0.2 and moves down with 0.1; the action 0 always moves down.
    Episodes start at the second state. The observation is the position, scaled to [-1, 1].
    """

    PLACES: ClassVar[int] = 8
    LOW: ClassVar[float] = 0.05
    UP: ClassVar[float] = 0.7
    STAY: ClassVar[float] = 0.2

    def __init__(self) -> None:
        self.observation_space = _unit(1)
        self.action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.place = 1
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        """Move up or down."""
        luck = self.np_random.random() if action == 1 else 1.0
        move = 1 if luck < self.UP else 0 if luck < self.UP + self.STAY else -1
        self.place = min(max(self.place + move, 0), self.PLACES - 1)
        reward = 1.0 if self.place == self.PLACES - 1 else self.LOW if self.place == 0 else 0.0
        return self._observation(), reward, False, False, {}

    def _observation(self) -> F32:
        return np.array([2.0 * self.place / (self.PLACES - 1) - 1.0], np.float32)

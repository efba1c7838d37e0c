"""Small tasks for learners, each with a best return that can be computed (``cases/small/best.py``).

None of them has a time limit of its own: the limit is the registered one (``cases/__init__.py``), which cuts episodes
(truncated).
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
    """A point to be brought to the origin: x <- x + 0.3 a, reward -|x|^2 - 0.01 |a|^2 with the new x.

    Starts are uniform in [-1, 1]^n, actions within [-1, 1]^n.

    Parameters
    ----------
    dimension
        n, the components of x and of a.
    """

    STEP: ClassVar[float] = 0.3
    EFFORT: ClassVar[float] = 0.01

    def __init__(self, dimension: int = 2) -> None:
        self.observation_space = _free(dimension)
        self.action_space = _unit(dimension)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape)
        return self.x.astype(np.float32), {}

    def step(self, action: F32) -> Step:
        """Move once."""
        a = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        self.x = self.x + self.STEP * a
        reward = -float(self.x @ self.x) - self.EFFORT * float(a @ a)
        return self.x.astype(np.float32), reward, False, False, {}


class Glide(gym.Env[Any, Any]):
    """A body in a thick fluid, to be brought to rest at the origin over a long time.

    v <- v + 0.1 (a - v), x <- x + 0.1 v. The reward is -0.1 (x^2 + a^2) with the x before the step. Starts are at rest,
    x uniform in [-1, 1]; actions are within [-2, 2], which the best feedback never reaches.
    """

    DT: ClassVar[float] = 0.1

    def __init__(self) -> None:
        self.observation_space = _free(2)
        self.action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.x, self.v = float(self.np_random.uniform(-1.0, 1.0)), 0.0
        return np.array([self.x, self.v], np.float32), {}

    def step(self, action: F32) -> Step:
        """Push once."""
        a = float(np.clip(action[0], -2.0, 2.0))
        reward = -self.DT * (self.x**2 + a**2)
        self.v += self.DT * (a - self.v)
        self.x += self.DT * self.v
        return np.array([self.x, self.v], np.float32), reward, False, False, {}


class Recall(gym.Env[Any, Any]):
    """A cue, 0.6 or -0.6, shown in the first observation, is asked for some steps later, when nothing shows it.

    The answer a gives 1 - (a - cue)^2 / 0.36 and ends the episode: 1 for the cue, 0 for the middle of the two, which is
    the best without a memory. The observation is the cue, and whether it is being asked for.

    Parameters
    ----------
    wait
        Steps until the cue is asked for, at least one.
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
        """Begin an episode."""
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

    Two observations give the velocity, so a stack of frames is memory enough; a policy of one observation is not.
    """

    def __init__(self, render_mode: str | None = None, g: float = 10.0) -> None:
        super().__init__(render_mode, g)
        self.observation_space = _unit(2)

    def _get_obs(self) -> F32:
        theta, _ = self.state
        return np.array([np.cos(theta), np.sin(theta)], np.float32)


class Reach(gym.Env[Any, Any]):
    """A sparse reward: a point in [-1, 1]^2 gets 1 for coming within 0.2 of the origin, and nothing before.

    x <- x + 0.1 a, kept inside the square, with actions within [-1, 1]^2; starts are uniform outside of the goal.
    """

    STEP: ClassVar[float] = 0.1
    GOAL: ClassVar[float] = 0.2

    def __init__(self) -> None:
        self.observation_space = _unit(2)
        self.action_space = _unit(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        while True:
            self.x = self.np_random.uniform(-1.0, 1.0, 2)
            if not self._is_there():
                return self.x.astype(np.float32), {}

    def step(self, action: F32) -> Step:
        """Move once."""
        self.x = np.clip(self.x + self.STEP * np.clip(action, -1.0, 1.0), -1.0, 1.0)
        there = self._is_there()
        return self.x.astype(np.float32), float(there), there, False, {}

    def _is_there(self) -> bool:
        return float(self.x @ self.x) < self.GOAL**2


class Chain(gym.Env[Any, Any]):
    """Discrete actions against the stream: eight places in a row, 0.05 a step at the first one and 1 at the last.

    To go up (1) succeeds with probability 0.7, stays with 0.2 and slips back with 0.1; to go down (0) always succeeds.
    Starts are at the second place. The observation is the place, from -1 to 1.
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
        """Begin an episode."""
        super().reset(seed=seed)
        self.place = 1
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        """Go up or down."""
        luck = self.np_random.random() if action == 1 else 1.0
        move = 1 if luck < self.UP else 0 if luck < self.UP + self.STAY else -1
        self.place = min(max(self.place + move, 0), self.PLACES - 1)
        reward = 1.0 if self.place == self.PLACES - 1 else self.LOW if self.place == 0 else 0.0
        return self._observation(), reward, False, False, {}

    def _observation(self) -> F32:
        return np.array([2.0 * self.place / (self.PLACES - 1) - 1.0], np.float32)

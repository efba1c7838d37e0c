"""The sparse pendulum of Oh et al. 2021 (NERS), appendix A.2."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.pendulum import PendulumEnv, angle_normalize

__all__ = ["SparsePendulum"]


class SparsePendulum(PendulumEnv):
    """Gymnasium's pendulum with a reward of 1 for each step at which it has been upright for more than 20 in a row.

    Upright means within pi/3 of the top. The count is not observed, as in the paper.
    """

    UPRIGHT: ClassVar[float] = np.pi / 3.0
    PATIENCE: ClassVar[int] = 20

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._upright = 0
        seen: tuple[Any, dict[str, Any]] = super().reset(seed=seed, options=options)
        return seen

    def step(
        self, action: Any
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Apply a torque."""
        observation, _, terminated, truncated, info = super().step(action)
        is_upright = abs(angle_normalize(self.state[0])) <= self.UPRIGHT
        self._upright = self._upright + 1 if is_upright else 0
        return observation, float(self._upright > self.PATIENCE), terminated, truncated, info

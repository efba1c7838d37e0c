"""Scales between the task's units and the learner's: states, rewards and actions (appendix B)."""

from __future__ import annotations

from typing import Literal

import gymnasium
import numpy as np
import numpy.typing as npt

__all__ = ["ActionMap", "RewardScale", "StateScale"]

F32 = npt.NDArray[np.float32]

EPSILON = 1e-7
"""Keeps constant states and all-zero rewards finite (appendix B)."""


class StateScale:
    """Standardises states with statistics frozen when the memory first holds N_start steps.

    Until then states pass unchanged. A component that never varied in the memory is only shifted: dividing
    by its vanishing deviation would turn its first later change into an overflow.

    Parameters
    ----------
    size
        Components of a state.
    """

    def __init__(self, size: int) -> None:
        self.mean: F32 = np.zeros(size, np.float32)
        self.per_std: F32 = np.ones(size, np.float32)
        self.frozen = False

    def freeze(self, observations: F32) -> None:
        """Take mean and standard deviation over ``observations``, shape (n, size), for good."""
        mean = observations.mean(axis=0, dtype=np.float64)
        std = observations.std(axis=0, dtype=np.float64)
        std = np.where(std < EPSILON * (1.0 + np.abs(mean)), 1.0, std + EPSILON)
        self.mean = mean.astype(np.float32)
        self.per_std = (1.0 / std).astype(np.float32)
        self.frozen = True

    def __call__(self, observations: F32) -> F32:
        """Standardised states, same shape."""
        return (observations - self.mean) * self.per_std


class RewardScale:
    """Divides rewards by ``sqrt(mean r^2)`` over the memory; 1 until first measured."""

    def __init__(self) -> None:
        self.value = 1.0

    def measure(self, rewards: F32) -> None:
        """Take the scale from ``rewards``, shape (n,)."""
        scale = float(np.sqrt(np.mean(np.square(rewards, dtype=np.float64))))
        # a memory without any reward says nothing about their size
        self.value = scale + EPSILON if scale > 0.0 else 1.0


class ActionMap:
    """Maps the policy's raw action a to the task's: ``centre + a (high - low) / 2``, or tanh(a) for a.

    Parameters
    ----------
    low, high
        Finite bounds of the task's actions, shape (A,).
    squash
        ``none`` leaves clipping to the environment; ``tanh`` keeps every action inside the bounds.
    """

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike, squash: Literal["none", "tanh"]) -> None:
        self.low = np.asarray(low, np.float32)
        self.high = np.asarray(high, np.float32)
        self.squash = squash
        self.centre = ((self.low.astype(np.float64) + self.high) / 2).astype(np.float32)
        self.half = ((self.high.astype(np.float64) - self.low) / 2).astype(np.float32)

    def __call__(self, raw: F32) -> F32:
        """Actions in the task's units, shape (n, A), not clipped unless squashed."""
        return self.centre + self.half * (np.tanh(raw) if self.squash == "tanh" else raw)


def check_spaces(observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
    """Refuse spaces that the learners cannot serve.

    Raises
    ------
    ValueError
        If a space is not a flat Box, or the bounds of the actions are not finite.
    """
    for name, space in (("observation", observation_space), ("action", action_space)):
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1 or space.shape[0] < 1:
            raise ValueError(
                f"the {name} space must be a Box of one axis, not {space}; wrap the environment to flatten it"
            )
    if not isinstance(action_space, gymnasium.spaces.Box) or not action_space.is_bounded("both"):
        raise ValueError(f"the action space must have finite bounds to scale the policy by, not {action_space}")
    if not (action_space.high > action_space.low).all():
        raise ValueError(f"the action space must have high above low in every component, not {action_space}")

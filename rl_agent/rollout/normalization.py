"""Scales between the task's units and the learner's: states, rewards and actions (appendix B)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt

__all__ = [
    "FARTHEST",
    "LARGEST_NUMBER",
    "ActionMap",
    "ChoiceMap",
    "RewardScale",
    "Sizes",
    "StateScale",
    "action_map_of",
    "sizes_of",
    "task_actions",
]

F32 = npt.NDArray[np.float32]

LARGEST_NUMBER = 1e18
"""Of an observation or a reward: the square of it, and sums of such squares, are within single precision (3e38)."""

FARTHEST = 1e8
"""Standard deviations from the mean beyond which a state cannot be learned from.

With inputs and errors of this size a gradient is 1e16, and the second moment of Adam 1e32, in single precision.
"""

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
        """Take mean and standard deviation over ``observations``, shape (n, size), for good; once only."""
        if self.frozen:
            return
        mean = observations.mean(axis=0, dtype=np.float64)
        std = observations.std(axis=0, dtype=np.float64)
        std = np.where(std < EPSILON * (1.0 + np.abs(mean)), 1.0, std + EPSILON)
        self.mean = mean.astype(np.float32)
        self.per_std = (1.0 / std).astype(np.float32)
        self.frozen = True

    def freeze_to(self, largest: float) -> None:
        """Divide by the largest number, for good."""
        self.per_std[:] = 1.0 / largest
        self.frozen = True

    def __call__(self, observations: F32) -> F32:
        """Standardised states, same shape."""
        return (observations - self.mean) * self.per_std

    def are_near(self, observations: F32) -> npt.NDArray[np.bool_]:
        """Tell which states, shape (n, size), are near enough to be learned from; before the freeze all are."""
        if not self.frozen:
            return np.ones(len(observations), np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):
            near: npt.NDArray[np.bool_] = np.abs(self(observations)) <= FARTHEST
        return np.asarray(near.all(axis=1))


class RewardScale:
    """Divides rewards by ``sqrt(mean r^2)`` over the memory, but by no less than a tenth of the largest scale so far.

    Without that floor the scale of a task whose rewards are the price of its actions falls with the actions: the
    smaller they are, the more the price counts, until nothing is explored any more.

    Attributes
    ----------
    value
        The scale; 1 until there is a first reward.
    largest
        The largest scale so far; 0 until there is a first reward.
    squares, count
        Sum of the squares of all rewards so far, and their number (``accumulate``).
    """

    FLOOR = 0.1

    def __init__(self) -> None:
        self.value = 1.0
        self.largest = 0.0
        self.squares = 0.0
        self.count = 0

    def accumulate(self, rewards: F32) -> None:
        """Take the scale from all ``rewards`` given so far: for a memory that is emptied again and again."""
        self.squares += float(np.square(rewards, dtype=np.float64).sum())
        self.count += len(rewards)
        self._take(math.sqrt(self.squares / self.count))

    def measure(self, rewards: F32) -> None:
        """Take the scale from ``rewards``, shape (n,)."""
        self._take(math.sqrt(np.mean(np.square(rewards, dtype=np.float64))))

    def _take(self, scale: float) -> None:
        if not scale > 0.0:  # a memory without any reward says nothing about their size
            return
        scale += EPSILON
        self.largest = max(self.largest, scale)
        self.value = max(scale, self.FLOOR * self.largest)


class ActionMap:
    """Maps the policy's raw action a to the task's: ``centre + a (high - low) / 2``, or tanh(a) for a.

    Parameters
    ----------
    low, high
        Finite bounds of the task's actions, shape (A,).
    squash
        ``none`` leaves clipping to the environment; ``tanh`` keeps every action inside the bounds.
    """

    def __init__(
        self, low: npt.ArrayLike, high: npt.ArrayLike, squash: Literal["none", "tanh"]
    ) -> None:
        self.low = np.asarray(low, np.float32)
        self.high = np.asarray(high, np.float32)
        self.squash = squash
        self.centre = ((self.low.astype(np.float64) + self.high) / 2).astype(np.float32)
        self.half = ((self.high.astype(np.float64) - self.low) / 2).astype(np.float32)

    def __call__(self, raw: F32) -> F32:
        """Actions in the task's units, shape (n, A), not clipped unless squashed."""
        return self.centre + self.half * (np.tanh(raw) if self.squash == "tanh" else raw)


class ChoiceMap:
    """Maps the number of a discrete action, from 0 on, to the task's own numbers.

    Parameters
    ----------
    start
        The task's first number.
    choices
        How many there are.
    """

    def __init__(self, start: int, choices: int) -> None:
        self.low = np.array([start], np.float32)
        self.high = np.array([start + choices - 1], np.float32)

    def __call__(self, raw: F32) -> F32:
        """Actions in the task's numbers, shape (n, 1)."""
        return raw + self.low


@dataclass(frozen=True)
class Sizes:
    """How large the vectors of a task are.

    Attributes
    ----------
    observation, action
        Components of an observation and of an action (1 for discrete ones, whose number is what is stored).
    choices
        Number of discrete actions; 0 for continuous ones.
    world
        Agents that act together in one world, each with these sizes.
    """

    observation: int
    action: int
    choices: int = 0
    world: int = 1


def sizes_of(
    observation_space: gymnasium.Space, action_space: gymnasium.Space, world: int = 1
) -> Sizes:
    """Return the sizes of a task; refuse spaces that the learners cannot serve.

    Parameters
    ----------
    observation_space, action_space
        Of one agent.
    world
        Agents that act together.

    Raises
    ------
    ValueError
        If the observations are not a flat Box, or the actions are neither a flat Box with finite bounds nor Discrete.
    """
    if not isinstance(observation_space, gymnasium.spaces.Box) or len(observation_space.shape) != 1:
        raise ValueError(
            f"the observation space must be a Box of one axis, not {observation_space}; "
            "wrap the environment to flatten it"
        )
    if observation_space.shape[0] < 1:
        raise ValueError(f"the observation space must have a component, not {observation_space}")
    if isinstance(action_space, gymnasium.spaces.Discrete):
        if action_space.n < 2:
            raise ValueError(f"the action space must leave a choice, not {action_space}")
        return Sizes(observation_space.shape[0], 1, int(action_space.n), world)
    if (
        not isinstance(action_space, gymnasium.spaces.Box)
        or len(action_space.shape) != 1
        or action_space.shape[0] < 1
    ):
        raise ValueError(
            f"the action space must be a Box of one axis or Discrete, not {action_space}"
        )
    if not action_space.is_bounded("both"):
        raise ValueError(
            f"the action space must have finite bounds to scale the policy by, not {action_space}"
        )
    if not (action_space.high > action_space.low).all():
        raise ValueError(
            f"the action space must have high above low in every component, not {action_space}"
        )
    return Sizes(observation_space.shape[0], action_space.shape[0], world=world)


def action_map_of(
    action_space: gymnasium.Space, squash: Literal["none", "tanh"]
) -> ActionMap | ChoiceMap:
    """Build the map from raw actions to those of the task, for a space that ``sizes_of`` accepts."""
    if isinstance(action_space, gymnasium.spaces.Discrete):
        return ChoiceMap(int(action_space.start), int(action_space.n))
    assert isinstance(action_space, gymnasium.spaces.Box)
    return ActionMap(action_space.low, action_space.high, squash)


def task_actions(actions: F32, space: gymnasium.Space) -> npt.NDArray[Any]:
    """Turn actions of a learner or policy into what ``step`` of a vector environment takes, clipped to the bounds.

    Parameters
    ----------
    actions
        In the task's units, shape (n, A).
    space
        Action space of one environment.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.rint(actions[:, 0]).astype(np.int64)
    assert isinstance(space, gymnasium.spaces.Box)
    return np.clip(actions, space.low, space.high).astype(space.dtype)

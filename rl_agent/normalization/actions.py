"""Maps from the policy's raw actions to those of the task (appendix B)."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt

from rl_agent.normalization.spaces import Sizes

__all__ = ["ActionMap", "ChoiceMap", "action_map_of", "task_actions", "with_previous_action"]

F32 = npt.NDArray[np.float32]


class ActionMap:
    """Maps the policy's raw action a to the task's: ``centre + a (high - low) / 2``, or tanh(a) instead of a.

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
        """Return actions in the task's units, shape (n, A), not clipped to the bounds unless squashed."""
        return self.centre + self.half * (np.tanh(raw) if self.squash == "tanh" else raw)


class ChoiceMap:
    """Maps the index of a discrete action to the task's number.

    Parameters
    ----------
    start
        First number of the task's actions.
    choices
        Number of actions.
    """

    def __init__(self, start: int, choices: int) -> None:
        self.low = np.array([start], np.float32)
        self.high = np.array([start + choices - 1], np.float32)

    def __call__(self, raw: F32) -> F32:
        """Return the task's action numbers, shape (n, 1)."""
        return raw + self.low


def action_map_of(
    action_space: gymnasium.Space, squash: Literal["none", "tanh"]
) -> ActionMap | ChoiceMap:
    """Build the map from raw actions to those of the task, for a space that ``sizes_of`` accepts."""
    if isinstance(action_space, gymnasium.spaces.Discrete):
        return ChoiceMap(int(action_space.start), int(action_space.n))
    assert isinstance(action_space, gymnasium.spaces.Box)
    return ActionMap(action_space.low, action_space.high, squash)


def with_previous_action(
    seen: F32, raw: F32 | None, sizes: Sizes, squash: Literal["none", "tanh"]
) -> F32:
    """Append the previous actions to observations, if the settings ask for it.

    Parameters
    ----------
    seen
        Observations, shape (n, S).
    raw
        The policy's previous raw actions, shape (n, A), or ``None`` at the beginning of episodes.
    sizes
        Sizes of the task.
    squash
        As in ``ActionMap``.

    Returns
    -------
    F32
        Shape (n, sizes.observation); ``seen`` itself if nothing is added.
    """
    if not sizes.previous_action:
        return seen
    before = np.zeros((len(seen), sizes.previous_action), np.float32)
    if raw is not None and sizes.choices:
        before[np.arange(len(seen)), np.rint(raw[:, 0]).astype(np.int64)] = 1.0
    elif raw is not None:
        before[:] = np.clip(np.tanh(raw) if squash == "tanh" else raw, -1.0, 1.0)
    return np.concatenate([seen, before], axis=1)


def task_actions(actions: F32, space: gymnasium.Space) -> npt.NDArray[Any]:
    """Convert actions of a learner or policy to those for ``step`` of a vector environment.

    They are clipped to the bounds, and rounded if the space has integers.

    Parameters
    ----------
    actions
        Actions in the task's units, shape (n, A), or (n, N, A) for several agents per environment.
    space
        Action space of one environment.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.rint(actions[:, 0]).astype(np.int64)
    assert isinstance(space, gymnasium.spaces.Box)
    fitting = np.clip(actions, space.low, space.high)
    whole = np.issubdtype(space.dtype, np.integer)
    return (np.rint(fitting) if whole else fitting).astype(space.dtype)

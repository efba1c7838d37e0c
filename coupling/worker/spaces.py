"""Conversion of the spaces of the user's environment into one flat vector of observations and one of actions.

Observations are flattened as in Gymnasium. Integer actions are rounded to the nearest integer, with bounds that are
wider by one half, so that the first and the last value are as easy to reach as the others.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space

from coupling.errors import ConfigError, describe_failure

__all__ = [
    "NotOfSpaceError",
    "Numbered",
    "flat_actions",
    "flat_observations",
    "flattened",
    "notes_on",
    "own_spaces",
]

F64 = npt.NDArray[np.float64]

_TOLD_APART = 2**24
"""Number of integers that single precision, in which actions are sent, can distinguish."""

_LARGEST = float(np.finfo(np.float32).max)


class NotOfSpaceError(ValueError):
    """An observation that is not in its space; the text is the end of a sentence, such as ``not of its ...``."""


class Numbered(spaces.Box):
    """Discrete actions as sent over the wire: one number each, from the first to the last.

    Parameters
    ----------
    choices
        The task's own action space.
    agents_axis
        Axis of the agents, (N,) in a multi-agent environment.
    """

    def __init__(self, choices: spaces.Discrete, agents_axis: tuple[int, ...] = ()) -> None:
        first = np.full((*agents_axis, 1), choices.start, np.float32)
        super().__init__(first, first + np.float32(choices.n) - 1.0, dtype=np.float32)
        self.choices = choices


def flat_observations(
    space: gym.Space,
) -> tuple[spaces.Box, Callable[[Any], npt.NDArray[Any]]] | None:
    """Return the flat form of an observation space and a function that flattens observations; None if it is flat.

    Raises
    ------
    ConfigError
        If the space has no fixed size, or is not a space.
    """
    _refuse_no_space(space, "observation_space")
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None
    flat: gym.Space | None = flatten_space(space) if space.is_np_flattenable else None
    if not isinstance(flat, spaces.Box):
        raise ConfigError(
            f"its observation space {space} has no fixed size; wrap it: gymnasium.wrappers.TransformObservation(env, "
            "function, Box(...))"
        )

    def encode(observation: Any) -> npt.NDArray[Any]:
        try:
            _refuse_other_choices(space, observation)
            return np.asarray(flatten(space, observation))
        except Exception as error:  # Gymnasium accesses its parts by name and number
            reason = describe_failure(error)
            raise NotOfSpaceError(
                f"not of its observation_space {_short(space)}: {reason}"
            ) from error

    return flat, encode


def _refuse_no_space(space: Any, name: str) -> None:
    if not isinstance(space, gym.Space):
        raise ConfigError(f"its {name} is {_short(space)}, but must be a Gymnasium space")


def _refuse_other_choices(space: gym.Space, observation: Any) -> None:
    """Raise an error for a choice outside a Discrete; Gymnasium would index from the end if it is negative.

    Raises
    ------
    ValueError
        For such a choice.
    KeyError, TypeError
        If a part of a Dict or Tuple is missing.
    """
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            _refuse_other_choices(part, observation[name])
    elif isinstance(space, spaces.Tuple):
        for part, own in zip(space.spaces, observation, strict=True):
            _refuse_other_choices(part, own)
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        count = space.n if isinstance(space, spaces.Discrete) else space.nvec
        chosen = np.asarray(observation)
        if isinstance(space, spaces.Discrete) and chosen.size == 1:
            chosen = chosen.reshape(())
        index = chosen - space.start
        if chosen.shape != space.shape or not ((index >= 0) & (index < count)).all():
            raise ValueError(f"{observation} is not in {space}")


def flat_actions(space: gym.Space) -> tuple[spaces.Box, Callable[[Any], Any]] | None:
    """Return the flat form of an action space and a function that decodes flat actions; None if it is flat.

    Parameters
    ----------
    space
        A Box, MultiBinary or MultiDiscrete, or a Dict or Tuple of these and of Discrete. A Discrete alone has a form of
        its own, :class:`Numbered`.

    Raises
    ------
    ConfigError
        For other spaces, and for bounds that are not finite.
    """
    if isinstance(space, Numbered):
        return None
    _refuse_no_space(space, "action_space")
    leaves = list(_leaves(space))
    low, high, whole = (
        np.concatenate(parts) for parts in zip(*map(_range_of, leaves), strict=True)
    )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ConfigError(
            f"its action space {space} has no finite bounds; wrap it to set some: "
            f"gymnasium.wrappers.TransformAction(env, lambda action: action, Box(-1.0, 1.0, {leaves[0].shape}))"
        )
    if (np.maximum(np.maximum(np.abs(low), np.abs(high)), high - low) > _LARGEST).any():
        raise ConfigError(
            f"its action space {_short(space)} has bounds that single precision, in which actions are sent, cannot "
            "represent; rescale the actions: gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)"
        )
    if (whole & (high - low >= _TOLD_APART)).any():
        raise ConfigError(
            f"its action space {space} has more whole numbers than single precision can represent; use a Box of "
            "floats instead: gymnasium.wrappers.TransformAction(env, function, Box(...))"
        )
    if len(leaves) == 1 and leaves[0] is space and space.shape == low.shape and not whole.any():
        return None
    box = spaces.Box(
        (low - 0.5 * whole).astype(np.float32), (high + 0.5 * whole).astype(np.float32)
    )

    def decode(numbers: Any) -> Any:
        given = np.asarray(numbers, np.float64)
        fitting = np.clip(np.where(whole, np.rint(given), given), low, high)
        action, _ = _taken(space, fitting)
        return action

    return box, decode


def _leaves(space: gym.Space) -> Iterator[gym.Space]:
    """Yield the numeric spaces that a space is composed of, in Gymnasium's order.

    Raises
    ------
    ConfigError
        For an unsupported space.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from _leaves(part)
    elif isinstance(
        space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete | spaces.Discrete
    ):
        yield space
    else:
        raise ConfigError(
            f"its action space {space} has no fixed size; wrap it: gymnasium.wrappers.TransformAction(env, function, "
            "Box(...))"
        )


def _range_of(leaf: gym.Space) -> tuple[F64, F64, npt.NDArray[np.bool_]]:
    """Return lower and upper bound of each component, and whether it is an integer."""
    if isinstance(leaf, spaces.Box):
        below, above = leaf.bounded_below.ravel(), leaf.bounded_above.ravel()
        low = np.where(below, leaf.low.ravel().astype(np.float64), -np.inf)
        high = np.where(above, leaf.high.ravel().astype(np.float64), np.inf)
        return low, high, np.full(low.shape, np.dtype(leaf.dtype).kind in "iub")
    if isinstance(leaf, spaces.MultiBinary):
        size = int(np.prod(leaf.shape))
        return np.zeros(size), np.ones(size), np.ones(size, bool)
    assert isinstance(leaf, spaces.MultiDiscrete | spaces.Discrete)
    count = leaf.nvec if isinstance(leaf, spaces.MultiDiscrete) else leaf.n
    low = np.asarray(leaf.start, np.float64).reshape(-1)
    return low, low + np.asarray(count, np.float64).reshape(-1) - 1.0, np.ones(low.shape, bool)


def _taken(space: gym.Space, numbers: F64) -> tuple[Any, F64]:
    """Decode an action of a space from the first of these numbers, and return it with the remaining numbers."""
    if isinstance(space, spaces.Dict):
        parts = {}
        for name, part in space.spaces.items():
            parts[name], numbers = _taken(part, numbers)
        return parts, numbers
    if isinstance(space, spaces.Tuple):
        taken = []
        for part in space.spaces:
            action, numbers = _taken(part, numbers)
            taken.append(action)
        return tuple(taken), numbers
    if isinstance(space, spaces.Discrete):
        return np.int64(numbers[0]), numbers[1:]
    assert space.shape is not None
    size = int(np.prod(space.shape))
    own = numbers[:size].reshape(space.shape).astype(space.dtype)
    return own, numbers[size:]


class _FlatObservations(gym.wrappers.TransformObservation[Any, Any, Any]):
    """Flattens the observations of the user's environment."""


class _FlatActions(gym.wrappers.TransformAction[Any, Any, Any]):
    """Decodes flat actions for the user's environment."""


def own_spaces(flat: gym.Env) -> tuple[gym.Space, gym.Space]:
    """Return the observation and action space of an environment before :func:`flattened` wrapped it."""
    while isinstance(flat, _FlatObservations | _FlatActions):
        flat = flat.env
    return flat.observation_space, flat.action_space


def flattened(environment: gym.Env) -> gym.Env:
    """Wrap an environment so that its spaces are flat; discrete actions are :class:`Numbered`, one number in an array.

    Raises
    ------
    ConfigError
        For spaces that cannot be flattened.
    """
    seen = flat_observations(environment.observation_space)
    if seen is not None:
        box, encode = seen
        environment = _FlatObservations(environment, encode, box)
    space = environment.action_space
    if isinstance(space, spaces.Discrete):
        choose: Callable[[Any], Any] = lambda numbers: int(np.rint(numbers[0]))  # noqa: E731
        return _FlatActions(environment, choose, Numbered(space))
    acting = flat_actions(space)
    if acting is None:
        return environment
    return _FlatActions(environment, acting[1], acting[0])


def notes_on(observations: gym.Space, actions: gym.Space) -> tuple[str, ...]:
    """Describe how spaces differ from those an agent is trained with, one sentence for each that does."""
    notes = []
    seen = flat_observations(observations)
    if seen is not None:
        numbers = _count(seen[0].shape[0])
        notes.append(
            f"its observations {_short(observations)} are flattened to {numbers} "
            "(gymnasium.wrappers.FlattenObservation)"
        )
    acting = None if isinstance(actions, spaces.Discrete) else flat_actions(actions)
    if acting is not None:
        whole = any(_range_of(leaf)[2].any() for leaf in _leaves(actions))
        rounded = ", whole ones rounded to the nearest" if whole else ""
        notes.append(f"its actions {_short(actions)} are {_count(acting[0].shape[0])}{rounded}")
    return tuple(notes)


def _count(numbers: int) -> str:
    return "1 number" if numbers == 1 else f"{numbers} numbers"


def _short(space: Any) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else f"{text[:119]}…"

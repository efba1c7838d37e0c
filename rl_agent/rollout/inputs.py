"""Validation of the agents, observations and outcomes passed to a learner."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig
from rl_agent.normalization.spaces import Sizes

__all__ = ["Inputs", "check_agents", "largest_pixel", "of_each", "refuse"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def of_each(flags: Flags) -> Flags:
    """Return for each environment whether all its flags are set, shape (n, ...) to (n,)."""
    return np.asarray(flags.all(axis=tuple(range(1, flags.ndim))))


def refuse(agents: I64, reason: str) -> None:
    """Raise an error about the first of ``agents``, if there are any.

    Raises
    ------
    ValueError
        If ``agents`` is not empty.
    """
    if len(agents) > 0:
        raise ValueError(f"agent {int(agents[0])} {reason}")


class Inputs:
    """Checks inputs from outside, in which an agent number denotes an environment; its N agents are its members.

    Parameters
    ----------
    agents
        Number of environments served, numbered from 0.
    sizes
        Sizes of the task. Members are numbered consecutively: those of environment e from e N on.
    pictures
        Whether observations are images, which the memory stores as ``uint8``.
    """

    def __init__(self, agents: int, sizes: Sizes, *, pictures: bool = False) -> None:
        self._agents, self._sizes, self._pictures = agents, sizes, pictures

    def agents(self, agents: npt.ArrayLike) -> I64:
        """Check and return distinct agent numbers, shape (n,).

        Raises
        ------
        ValueError
            If an agent does not exist, or occurs twice.
        """
        numbers = np.atleast_1d(np.asarray(agents, np.int64))
        refuse(
            numbers[(numbers < 0) | (numbers >= self._agents)],
            f"does not exist: there are {self._agents}",
        )
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError(f"agents {numbers.tolist()} must be distinct")
        return numbers

    def observations(self, agents: I64, observations: npt.ArrayLike) -> F32:
        """Check and return finite observations, shape (n, S), or (n, N, S) with several agents per environment.

        Raises
        ------
        ValueError
            If the shape is wrong, a number is not finite, or that of an image is not a whole number from 0 to 255.
        """
        array = np.asarray(observations, np.float32)
        shape = (len(agents), *self._sizes.agents_axis, self._sizes.seen)
        if array.shape != shape:
            raise ValueError(f"observations have shape {array.shape}, expected {shape}")
        refuse(agents[~of_each(np.isfinite(array))], "sent an observation that is not finite")
        if self._pictures:
            refuse(
                agents[~self.are_readable(array)],
                "sent an image whose values are not all whole numbers from 0 to 255, as network = conv needs",
            )
        return array

    def are_readable(self, observations: F32) -> Flags:
        """Return which observations can be stored, shape (n,): of images only those of whole numbers from 0 to 255."""
        if not self._pictures:
            return np.ones(len(observations), np.bool_)
        is_in_range = (observations >= 0.0) & (observations <= 255.0)
        return of_each(is_in_range & (observations == np.floor(observations)))

    def rewards(self, agents: I64, rewards: npt.ArrayLike) -> F32:
        """Check and return finite rewards, shape (n,) or (n, N); raises as :meth:`observations`."""
        array = np.asarray(rewards, np.float32)
        shape = (len(agents), *self._sizes.agents_axis)
        if array.shape != shape:
            raise ValueError(f"rewards have shape {array.shape}, expected {shape}")
        refuse(agents[~of_each(np.isfinite(array))], "sent a reward that is not finite")
        return array

    def flags(self, agents: I64, flags: npt.ArrayLike, name: str) -> Flags:
        """Check and return one flag per environment, shape (n,); ``name`` is used in the message.

        Raises
        ------
        ValueError
            If the shape is wrong.
        """
        array = np.asarray(flags, np.bool_)
        if array.shape != agents.shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {agents.shape}")
        return array

    def ended(self, agents: I64, flags: npt.ArrayLike | None) -> Flags:
        """Return which members have ended, shape (n, N); none if ``flags`` is ``None``.

        Raises
        ------
        ValueError
            If the shape is wrong.
        """
        shape = (len(agents), self._sizes.agents_per_env)
        array = np.zeros(shape, np.bool_) if flags is None else np.asarray(flags, np.bool_)
        if array.shape != shape:
            raise ValueError(f"agent_ended has shape {array.shape}, expected {shape}")
        return array

    def members(self, agents: I64) -> I64:
        """Return the numbers of all members of environments, shape (n,) to (n N,)."""
        together = self._sizes.agents_per_env
        if together == 1:
            return agents
        return np.add.outer(agents * together, np.arange(together)).ravel()


def largest_pixel(config: AgentConfig, space: gymnasium.spaces.Box) -> float:
    """Return the largest possible pixel value of an image.

    Raises
    ------
    ValueError
        If the observations are not images of the shape in the settings.
    """
    if config.image_shape is None or math.prod(config.image_shape) != space.shape[0]:
        raise ValueError(
            f"image_shape = {config.image_shape} does not fit observations of {space.shape[0]} numbers"
        )
    if space.low.min() < 0.0 or space.high.max() > 255.0:
        raise ValueError(
            f"network = conv reads pictures of whole numbers from 0 to 255, not {space}"
        )
    return float(space.high.max())


def check_agents(config: AgentConfig, agents: int, agents_per_env: int) -> None:
    """Check the number of agents, and of agents per environment.

    Raises
    ------
    ValueError
        If the settings do not support them.
    """
    if agents < 1:
        raise ValueError(f"agents = {agents} must be at least 1")
    if agents_per_env == 1:
        return
    if not config.serves_multi_agent:
        raise ValueError(
            f"algorithm = {config.algorithm} learns from one agent per environment, but these have {agents_per_env}; "
            "use vracer"
        )
    if config.sampler != "uniform":
        raise ValueError(
            f"sampler = {config.sampler} samples single agents, but an environment has {agents_per_env}; use uniform"
        )
    if config.learns_sequences:
        raise ValueError(
            f"sequence_length and initial_state are for one agent per environment, but these have {agents_per_env}; "
            "leave them out"
        )

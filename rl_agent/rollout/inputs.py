"""Which agents and observations a learner takes, and how those of a multi-agent environment come apart."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig
from rl_agent.multi_agent import joint

__all__ = ["Inputs", "check_agents", "largest_pixel", "refuse"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def refuse(agents: I64, reason: str) -> None:
    """Refuse the first of ``agents``, if there is one.

    Raises
    ------
    ValueError
        With the reason.
    """
    if len(agents) > 0:
        raise ValueError(f"agent {int(agents[0])} {reason}")


class Inputs:
    """Checks what arrives from outside, and turns it into what each member of a multi-agent environment saw.

    Parameters
    ----------
    agents
        Number of agents served, numbered from 0.
    agents_per_env
        Agents that act together in one environment (N). From outside they look like one; inside, its members are
        numbered one after the other.
    observation_size
        Components of the observation of one of them (S).
    """

    def __init__(self, agents: int, agents_per_env: int, observation_size: int) -> None:
        self._agents, self._agents_per_env, self._size = agents, agents_per_env, observation_size

    def agents(self, agents: npt.ArrayLike) -> I64:
        """Return distinct numbers of agents, shape (n,).

        Raises
        ------
        ValueError
            If one does not exist, or is named twice.
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
        """Return finite observations of agents, joint ones of a multi-agent environment, shape (n, S or N (S + 2)).

        Raises
        ------
        ValueError
            If the shape is another one, or a number is not finite.
        """
        array = np.asarray(observations, np.float32)
        size = (
            self._size
            if self._agents_per_env == 1
            else self._agents_per_env * (self._size + joint.EXTRAS)
        )
        if array.shape != (len(agents), size):
            raise ValueError(
                f"observations have shape {array.shape}, expected {(len(agents), size)}"
            )
        refuse(agents[~np.isfinite(array).all(axis=1)], "sent an observation that is not finite")
        return array

    def members(self, agents: I64) -> I64:
        """Return the numbers of all members, shape (n,) to (n N,)."""
        if self._agents_per_env == 1:
            return agents
        return np.add.outer(agents * self._agents_per_env, np.arange(self._agents_per_env)).ravel()

    def unpack(self, observations: F32) -> tuple[F32, F32, npt.NDArray[np.bool_]]:
        """Return what the members observed, their rewards, and whether they have ended."""
        if self._agents_per_env == 1:
            nothing = np.zeros(len(observations), np.float32)
            return observations, nothing, nothing > 0
        return joint.unpack(observations, self._agents_per_env)


def largest_pixel(config: AgentConfig, space: gymnasium.spaces.Box) -> float:
    """Return the largest number in a picture.

    Raises
    ------
    ValueError
        If the observations are not the pictures of the settings.
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
    """Refuse a number of agents, or in each environment, that cannot be served.

    Raises
    ------
    ValueError
        With a sentence about it.
    """
    if agents < 1:
        raise ValueError(f"agents = {agents} must be at least 1")
    if agents_per_env == 1:
        return
    if not config.serves_multi_agent:
        raise ValueError(
            f"algorithm = {config.algorithm} learns from one agent in an environment, "
            f"and here are {agents_per_env}; use vracer"
        )
    if config.sampler != "uniform":
        raise ValueError(
            f"sampler = {config.sampler} samples single agents, and an environment has {agents_per_env}; use uniform"
        )

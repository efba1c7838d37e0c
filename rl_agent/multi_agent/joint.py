"""How a multi-agent environment looks from outside: one agent, whose observations and actions are those of all agents.

Whoever steps environments, carries their messages or writes them down need not know of them: a joint step is one
transition. The joint observation has, one agent after the other, what the agent observed (S numbers), the reward that
it was given (0 at a reset) and whether it has reached a terminal state (1 or 0). The joint action has the A numbers of
each agent, one after the other. Only a learner and a policy take them apart.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import numpy.typing as npt

__all__ = [
    "EXTRAS",
    "joint_actions",
    "joint_observations",
    "joint_spaces",
    "own_spaces",
    "pack",
    "unpack",
]

F32 = npt.NDArray[np.float32]

EXTRAS = 2
"""Numbers of each agent behind its observation: its reward, and whether it has ended."""

ActionSpace = gymnasium.spaces.Box | gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete


def joint_observations(own: gymnasium.spaces.Box, agents_per_env: int) -> gymnasium.spaces.Box:
    """Return the space of joint observations of ``agents_per_env`` agents that observe ``own``."""
    low = np.append(own.low.ravel(), [-np.inf, 0.0])
    high = np.append(own.high.ravel(), [np.inf, 1.0])
    return gymnasium.spaces.Box(
        np.tile(low, agents_per_env).astype(np.float32),
        np.tile(high, agents_per_env).astype(np.float32),
    )


def joint_actions(
    own: gymnasium.spaces.Space, agents_per_env: int
) -> gymnasium.spaces.Box | gymnasium.spaces.MultiDiscrete:
    """Return the space of joint actions of ``agents_per_env`` agents that act in ``own``.

    Raises
    ------
    ValueError
        If it is neither a flat Box nor Discrete.
    """
    if isinstance(own, gymnasium.spaces.Discrete):
        return gymnasium.spaces.MultiDiscrete(
            [int(own.n)] * agents_per_env, start=[int(own.start)] * agents_per_env
        )
    if not isinstance(own, gymnasium.spaces.Box) or len(own.shape) != 1:
        raise ValueError(f"the action space must be a Box of one axis or Discrete, not {own}")
    return gymnasium.spaces.Box(
        np.tile(own.low, agents_per_env), np.tile(own.high, agents_per_env), dtype=np.float32
    )


def joint_spaces(
    observations: gymnasium.spaces.Box,
    actions: gymnasium.spaces.Box | gymnasium.spaces.Discrete,
    agents_per_env: int,
) -> tuple[gymnasium.spaces.Box, ActionSpace]:
    """Return the joint spaces of ``agents_per_env`` agents that have these each; of a single agent they are its own."""
    if agents_per_env == 1:
        return observations, actions
    return joint_observations(observations, agents_per_env), joint_actions(actions, agents_per_env)


def own_spaces(
    observations: gymnasium.spaces.Box, actions: ActionSpace, agents_per_env: int
) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box | gymnasium.spaces.Discrete]:
    """Return the spaces of one agent, from joint ones; with one agent in an environment they are its own already.

    Raises
    ------
    ValueError
        If they are not of so many agents.
    """
    if agents_per_env == 1:
        return observations, actions  # type: ignore[return-value]  # `sizes_of` refuses what an agent alone cannot have
    sizes = observations.shape[0], actions.shape[0] if actions.shape else 0
    if (
        any(size == 0 or size % agents_per_env for size in sizes)
        or sizes[0] <= EXTRAS * agents_per_env
    ):
        raise ValueError(
            f"joint spaces of {sizes[0]} and {sizes[1]} numbers are not of {agents_per_env} agents in an environment"
        )
    end = sizes[0] // agents_per_env - EXTRAS
    own = gymnasium.spaces.Box(observations.low[:end], observations.high[:end], dtype=np.float32)
    if isinstance(actions, gymnasium.spaces.MultiDiscrete):
        return own, gymnasium.spaces.Discrete(int(actions.nvec[0]), start=int(actions.start[0]))
    assert isinstance(actions, gymnasium.spaces.Box)
    end = sizes[1] // agents_per_env
    return own, gymnasium.spaces.Box(actions.low[:end], actions.high[:end], dtype=np.float32)


def pack(observations: npt.ArrayLike, rewards: npt.ArrayLike, ended: npt.ArrayLike) -> F32:
    """Join what agents observed, shape (N, S), their rewards and whether they have ended, (N,), to (N (S + 2),)."""
    return (
        np.column_stack([np.asarray(observations), np.asarray(rewards), np.asarray(ended)])
        .astype(np.float32)
        .ravel()
    )


def unpack(joint: F32, agents_per_env: int) -> tuple[F32, F32, npt.NDArray[np.bool_]]:
    """Take joint observations apart.

    Parameters
    ----------
    joint
        Shape (n, N (S + 2)).
    agents_per_env
        N.

    Returns
    -------
    observations, rewards, ended
        Of all agents, those of an environment next to each other, shapes (n N, S), (n N,) and (n N,).
    """
    each = joint.reshape(len(joint) * agents_per_env, joint.shape[1] // agents_per_env)
    return each[:, :-EXTRAS], each[:, -2], each[:, -1] > 0.5

"""Sizes of a task's observations and actions, and validation of its spaces."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium

__all__ = ["ActionSpace", "Sizes", "sizes_of"]

ActionSpace = gymnasium.spaces.Box | gymnasium.spaces.Discrete
"""Action space of one agent."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a task.

    Attributes
    ----------
    observation, action
        Number of components of a network's input at a step, and of an action (1 for discrete actions, which are stored
        as numbers).
    choices
        Number of discrete actions; 0 for continuous actions.
    agents_per_env
        Number of agents in one environment, each with these sizes.
    previous_action
        Number of components of ``observation``, the last ones, that hold the previous action; 0 if it is not used.
    """

    observation: int
    action: int
    choices: int = 0
    agents_per_env: int = 1
    previous_action: int = 0

    @property
    def agents_axis(self) -> tuple[int, ...]:
        """Shape of the agents' axis in arrays of environments: (N,), or () for one agent."""
        return () if self.agents_per_env == 1 else (self.agents_per_env,)

    @property
    def seen(self) -> int:
        """Number of components of the environment's observation."""
        return self.observation - self.previous_action


def sizes_of(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    agents_per_env: int = 1,
    *,
    previous_action: bool = False,
) -> Sizes:
    """Return the sizes of a task, after checking that its spaces are supported.

    Parameters
    ----------
    observation_space, action_space
        Spaces of one agent.
    agents_per_env
        Number of agents in one environment.
    previous_action
        Whether the previous action is added to each observation.

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
        raise ValueError(
            f"the observation space must have at least one component, not {observation_space}"
        )
    if isinstance(action_space, gymnasium.spaces.Discrete):
        if action_space.n < 2:
            raise ValueError(f"the action space must have at least two actions, not {action_space}")
        choices = int(action_space.n)
        before = choices if previous_action else 0
        return Sizes(observation_space.shape[0] + before, 1, choices, agents_per_env, before)
    if not isinstance(action_space, gymnasium.spaces.Box) or len(action_space.shape) != 1:
        raise ValueError(
            f"the action space must be a Box of one axis or Discrete, not {action_space}"
        )
    if action_space.shape[0] < 1:
        raise ValueError(f"the action space must have at least one component, not {action_space}")
    if not action_space.is_bounded("both"):
        raise ValueError(
            f"the action space must have finite bounds to scale the policy by, not {action_space}"
        )
    if not (action_space.high > action_space.low).all():
        raise ValueError(
            f"the action space must have high above low in every component, not {action_space}"
        )
    size = action_space.shape[0]
    before = size if previous_action else 0
    return Sizes(observation_space.shape[0] + before, size, 0, agents_per_env, before)

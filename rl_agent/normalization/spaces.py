"""How large the vectors of a task are, and which spaces can be served."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium

__all__ = ["ActionSpace", "Sizes", "sizes_of"]

ActionSpace = gymnasium.spaces.Box | gymnasium.spaces.Discrete
"""Of one agent."""


@dataclass(frozen=True)
class Sizes:
    """How large the vectors of a task are.

    Attributes
    ----------
    observation, action
        Components of what a network reads at a step, and of an action (1 for discrete ones, whose number is what is
        stored).
    choices
        Number of discrete actions; 0 for continuous ones.
    agents_per_env
        Agents that act together in one environment, each with these sizes.
    previous_action
        Components of ``observation`` that are the action before, the last ones; 0 where it is not read.
    """

    observation: int
    action: int
    choices: int = 0
    agents_per_env: int = 1
    previous_action: int = 0

    @property
    def agents_axis(self) -> tuple[int, ...]:
        """Axis of the agents in arrays of environments, before that of the numbers: (N,); none for one agent."""
        return () if self.agents_per_env == 1 else (self.agents_per_env,)

    @property
    def seen(self) -> int:
        """Components of what the environment shows of a state."""
        return self.observation - self.previous_action


def sizes_of(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    agents_per_env: int = 1,
    *,
    previous_action: bool = False,
) -> Sizes:
    """Return the sizes of a task; refuse spaces that the learners cannot serve.

    Parameters
    ----------
    observation_space, action_space
        Of one agent.
    agents_per_env
        Agents that act together.
    previous_action
        Whether the action before is read beside each observation.

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
        choices = int(action_space.n)
        before = choices if previous_action else 0
        return Sizes(observation_space.shape[0] + before, 1, choices, agents_per_env, before)
    if not isinstance(action_space, gymnasium.spaces.Box) or len(action_space.shape) != 1:
        raise ValueError(
            f"the action space must be a Box of one axis or Discrete, not {action_space}"
        )
    if action_space.shape[0] < 1:
        raise ValueError(f"the action space must have a component, not {action_space}")
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

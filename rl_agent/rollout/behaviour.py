"""The behaviour policy: the newest policy, with exploration."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm
from rl_agent.normalization.states import StateScale
from rl_agent.rollout.exploration import Exploration
from rl_agent.rollout.inputs import refuse
from rl_agent.rollout.open_episodes import Decision, OpenEpisodes

__all__ = ["Behaviour"]

I64 = npt.NDArray[np.int64]


class Behaviour:
    """Samples actions, and records issued actions.

    Parameters
    ----------
    algorithm, state_scale
        The newest policy, and the scale of its inputs.
    open_episodes
        Holds the current observations, and records the actions.
    exploration, rng
        Sampling of actions, and the random generator.

    Attributes
    ----------
    policy_std
        Mean standard deviation of the latest actions; NaN before the first, and for discrete actions.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state_scale: StateScale,
        open_episodes: OpenEpisodes,
        exploration: Exploration,
        rng: np.random.Generator,
    ) -> None:
        self._algorithm, self._scale, self._open = algorithm, state_scale, open_episodes
        self.exploration, self.rng = exploration, rng
        self.policy_std = math.nan

    def decide(self, agents: I64, *, has_learned: bool) -> Decision:
        """Sample actions for the current observations of members, without issuing them.

        Raises
        ------
        ValueError
            If a member has no open episode, or the outcome of its last action is missing.
        FloatingPointError
            If learning has diverged.
        """
        episodes = self._open
        refuse(agents[~episodes.is_open[agents]], "has no open episode to act in")
        refuse(agents[episodes.is_waiting[agents]], "already waits for the outcome of an action")
        observations = self._scale(episodes.current(agents))
        value, mean, std, state = self._algorithm.act(observations, episodes.state[agents])
        if not np.isfinite(mean).all() or not np.isfinite(std).all():
            raise FloatingPointError(
                "the policy is no longer finite: learning has diverged; try a smaller learning_rate"
            )
        raw, noise = self.exploration.sample(agents, mean, std, self.rng, has_learned=has_learned)
        # in some algorithms it is shared by all states
        std = np.broadcast_to(std, (len(agents), std.shape[-1]))
        random = dict(self.rng.bit_generator.state)
        return Decision(agents, raw, mean, std, value, state, noise, random)

    def issue(self, decision: Decision) -> None:
        """Record actions as issued, and set the random state to that after sampling them."""
        self.exploration.noise[decision.agents] = decision.noise
        self.rng.bit_generator.state = decision.random
        self.policy_std = float(decision.std.mean()) if decision.std.size else math.nan
        self._open.issue(decision)

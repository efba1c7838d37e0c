"""The average of the policy over the last part of a training, which is what a learner hands out.

The weights that act jump with every gradient step: the newest ones hold some initial conditions today and others
tomorrow. Their average holds what most of the last ones held (Polyak & Juditsky 1992). It is a running one over a share
of the gradient steps so far (Shamir & Zhang 2013, polynomial decay), so it needs no length that fits the training:

    w~ <- w~ + r (w - w~),   r = min(1, EVERY / (share k)),   after every EVERY-th gradient step k

The agents act with the newest weights, for their experience should be of the policy that learns from it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig, Remembering

__all__ = ["EVERY", "PolicyAverage", "make_average"]

F32 = npt.NDArray[np.float32]

EVERY = 10
"""Gradient steps between two entries: with a GPU each of them brings the weights to the host."""


class PolicyAverage:
    """A running average of the weights that act.

    Parameters
    ----------
    share
        Of the gradient steps so far, that the average reaches back.
    weights
        The first weights of the policy.

    Attributes
    ----------
    weights
        The average.
    """

    def __init__(self, share: float, weights: F32) -> None:
        self._share = share
        self.weights: F32 = weights.copy()

    def is_due(self, gradient_steps: int) -> bool:
        """Whether the weights after so many gradient steps enter."""
        return gradient_steps % EVERY == 0

    def add(self, weights: F32, gradient_steps: int) -> None:
        """Take in the weights after ``gradient_steps`` gradient steps, at least one."""
        rate = min(1.0, EVERY / (self._share * gradient_steps))
        self.weights += np.float32(rate) * (weights - self.weights)


def make_average(config: AgentConfig, weights: F32) -> PolicyAverage | None:
    """Begin the average that the settings ask for, if they do, with the first weights of the policy."""
    if not isinstance(config, Remembering) or config.policy_average == 0.0:
        return None
    return PolicyAverage(config.policy_average, weights)

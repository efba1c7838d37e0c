"""Average of the policy over the last part of the training, used for evaluation and export.

The policy fluctuates with every gradient step: the initial conditions from which it succeeds vary from step to step.
The averaged policy succeeds from those in which most recent policies did (Polyak & Juditsky 1992). It is a running
average over a fraction of the gradient steps so far (Shamir & Zhang 2013, polynomial decay), so it needs no length that
is fitted to the training:

    w~ <- w~ + r (w - w~),   r = min(1, EVERY / (share k)),   after every EVERY-th gradient step k

The agents act with the newest weights, because they should collect experience of the policy that learns from it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.config import AgentConfig, Remembering

__all__ = ["EVERY", "PolicyAverage", "make_average"]

F32 = npt.NDArray[np.float32]

EVERY = 10
"""Gradient steps between two updates of the average; with a GPU each update copies the weights to the host."""


class PolicyAverage:
    """A running average of the policy's weights.

    Parameters
    ----------
    share
        Fraction of the gradient steps so far that the average covers.
    weights
        Initial weights of the policy.

    Attributes
    ----------
    weights
        The average.
    """

    def __init__(self, share: float, weights: F32) -> None:
        self._share = share
        self.weights: F32 = weights.copy()

    def is_due(self, gradient_steps: int) -> bool:
        """Return whether the weights after ``gradient_steps`` gradient steps are added."""
        return gradient_steps % EVERY == 0

    def add(self, weights: F32, gradient_steps: int) -> None:
        """Add the weights after ``gradient_steps`` gradient steps (at least one)."""
        rate = min(1.0, EVERY / (self._share * gradient_steps))
        self.weights += np.float32(rate) * (weights - self.weights)


def make_average(config: AgentConfig, weights: F32) -> PolicyAverage | None:
    """Create the average from the initial weights of the policy, or return ``None`` if the settings have none."""
    if not isinstance(config, Remembering) or config.policy_average == 0.0:
        return None
    return PolicyAverage(config.policy_average, weights)

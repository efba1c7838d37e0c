"""Adam (Kingma & Ba 2015) over one flat vector of parameters, and the update of a target network.

Both are implemented twice. On the host each is one compiled in-place pass over arrays that fit in the cache
(``Adam.step`` and ``follow``). On a GPU each is a few torch operations (``step_on_device`` and ``follow_on_device``),
because a CUDA graph can contain only these and no branches; a number among its inputs therefore says which group is
due. ``tests/rl_agent/networks/optim/test_optimizer.py`` checks that the two agree.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.runtime.jit import FUSED, compiled
from rl_agent.runtime.lazy_torch import torch

__all__ = ["Adam", "follow", "follow_on_device", "step_on_device"]

F32 = npt.NDArray[np.float32]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam on the host: first and second moments of a flat gradient, and the update.

    Parameters
    ----------
    size
        Number of parameters.

    Attributes
    ----------
    epsilon
        Added to the denominator, which keeps the step finite if all gradients were zero.
    """

    def __init__(self, size: int) -> None:
        self.epsilon = EPSILON
        self.first: F32 = np.zeros(size, np.float32)
        self.second: F32 = np.zeros(size, np.float32)
        self.steps = 0

    def step(self, weights: F32, gradient: F32, learning_rate: float) -> None:
        """Update ``weights`` in place with ``gradient``, both of shape (size,)."""
        self.steps += 1
        rate, per_root = self.corrected(learning_rate)
        _step(
            weights,
            gradient,
            self.first,
            self.second,
            np.float32(rate),
            np.float32(per_root),
            np.float32(self.epsilon),
        )

    def corrected(self, learning_rate: float) -> tuple[float, float]:
        """Apply the bias correction: return the learning rate, and the factor of the second moment's square root."""
        steps = max(1, self.steps)
        return learning_rate / (1.0 - BETA_1**steps), 1.0 / math.sqrt(1.0 - BETA_2**steps)


@compiled(fastmath=FUSED, error_model="numpy")
def _step(
    w: F32, g: F32, m: F32, v: F32, rate: np.float32, per_root: np.float32, eps: np.float32
) -> None:
    b1, b2 = np.float32(BETA_1), np.float32(BETA_2)
    c1, c2 = np.float32(1.0 - BETA_1), np.float32(1.0 - BETA_2)
    for i in range(w.shape[0]):
        m[i] = b1 * m[i] + c1 * g[i]
        v[i] = b2 * v[i] + c2 * g[i] * g[i]
        w[i] -= rate * m[i] / (np.sqrt(v[i]) * per_root + eps)


@compiled(fastmath=FUSED, error_model="numpy")
def follow(target: F32, weights: F32, rate: np.float32) -> None:
    """Update the weights of a target network: ``target += rate (weights - target)``, both of shape (size,)."""
    for i in range(target.shape[0]):
        target[i] += rate * (weights[i] - target[i])


def step_on_device(
    weights: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    due: torch.Tensor,
    rate: torch.Tensor,
    per_root: torch.Tensor,
    epsilon: float = EPSILON,
) -> None:
    """Take a step of Adam in place with device operations; with ``due`` and ``rate`` 0 nothing changes.

    Parameters
    ----------
    weights, gradient, first, second
        As in ``Adam.step``, and the moments, shape (size,).
    due
        1 if the group is updated in this step, otherwise 0.
    rate, per_root
        From ``Adam.corrected``.
    epsilon
        Added to the denominator.
    """
    first.add_((gradient - first) * ((1.0 - BETA_1) * due))
    second.add_((gradient * gradient - second) * ((1.0 - BETA_2) * due))
    weights -= rate * first / (second.sqrt() * per_root + epsilon)


def follow_on_device(target: torch.Tensor, weights: torch.Tensor, rate: torch.Tensor) -> None:
    """Update the weights of a target network as ``follow`` does, with device operations."""
    target.add_((weights - target) * rate)

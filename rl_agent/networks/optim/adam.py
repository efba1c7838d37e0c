"""Adam (Kingma & Ba 2015) over one flat vector of parameters, and the target that follows the vector.

Both are here twice, in forms that cannot be one. On the host each is one compiled pass, in place, over arrays that the
cache holds (``Adam.step`` and ``follow``). On a device each is a few operations of torch (``step_on_device`` and
``follow_on_device``): a CUDA graph holds nothing else, and no branch, so that a number among its inputs tells what is
due. ``tests/rl_agent/networks/optim/test_optimizer.py`` holds the two equal.
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
    """First and second moments of a flat gradient, and the step they make.

    Parameters
    ----------
    size
        Number of parameters.

    Attributes
    ----------
    epsilon
        Keeps the step finite where no gradient has been.
    """

    def __init__(self, size: int) -> None:
        self.epsilon = EPSILON
        self.first: F32 = np.zeros(size, np.float32)
        self.second: F32 = np.zeros(size, np.float32)
        self.steps = 0

    def step(self, weights: F32, gradient: F32, learning_rate: float) -> None:
        """Move ``weights`` (in place) against ``gradient``, both of shape (size,)."""
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
        """Correct for moments that began at zero: returns the rate, and the factor of the second moment's root."""
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
    """Move the weights of a target network: ``target += rate (weights - target)``, both of shape (size,)."""
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
    """Take a step of Adam in place as operations on a device; with ``due`` and ``rate`` 0 nothing moves.

    Parameters
    ----------
    weights, gradient, first, second
        As of ``Adam.step``, and the moments, shape (size,).
    due
        1, or 0 for what sits out this step.
    rate, per_root
        From ``Adam.corrected``.
    epsilon
        Keeps the step finite where no gradient has been.
    """
    first.add_((gradient - first) * ((1.0 - BETA_1) * due))
    second.add_((gradient * gradient - second) * ((1.0 - BETA_2) * due))
    weights -= rate * first / (second.sqrt() * per_root + epsilon)


def follow_on_device(target: torch.Tensor, weights: torch.Tensor, rate: torch.Tensor) -> None:
    """Move the weights of a target network as operations on a device, as ``follow`` does."""
    target.add_((weights - target) * rate)

"""Adam (Kingma & Ba 2015) over one flat vector of parameters, in one compiled pass."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rl_agent.compiling import FUSED, compiled

__all__ = ["Adam", "follow"]

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
        rate = learning_rate / (1.0 - BETA_1**self.steps)
        per_root = 1.0 / math.sqrt(1.0 - BETA_2**self.steps)
        _step(
            weights,
            gradient,
            self.first,
            self.second,
            np.float32(rate),
            np.float32(per_root),
            np.float32(self.epsilon),
        )


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

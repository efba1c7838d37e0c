"""Sampling from policies: Gaussians with independent components, or probabilities of discrete actions.

For V-RACER the standard deviation sigma is one parameter vector for all states, kept positive by a softplus
(appendix A). Samples are normals truncated at three standard deviations; densities are those of the
untruncated normal, because importance weights and KL need them over the whole action space (the
constant of the truncation, 1/0.9973 per component, cancels in the importance weight). A clipped normal is sampled
without truncation, then clipped to the range of the actions (Weber et al. 2022, appendix B).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = [
    "BOUND",
    "TRUNCATION",
    "inverse_softplus",
    "sample",
    "sample_choice",
    "sample_clipped",
    "softmax",
    "softplus",
]

TRUNCATION = 3.0
"""Bound of the samples, in standard deviations from the mean (appendix A)."""

BOUND = 1.0
"""Raw actions from -``BOUND`` to ``BOUND`` span the task's action range."""

Array = npt.NDArray[np.floating]


def softplus(x: Array) -> Array:
    """Compute ``log(1 + exp(x))`` without overflow."""
    return np.logaddexp(x, x.dtype.type(0))


def floored_std(parameter: Array, floor: float) -> Array:
    """Compute the standard deviation of a policy from its free parameter."""
    return parameter.dtype.type(floor) + softplus(parameter)


def inverse_softplus(y: float) -> float:
    """Return the x with ``softplus(x) = y``, for y > 0."""
    return y + math.log(-math.expm1(-y))


def sample(mean: Array, std: Array, rng: np.random.Generator) -> Array:
    """Sample from normals truncated at three standard deviations.

    Parameters
    ----------
    mean
        Means, shape (n, A).
    std
        Standard deviations, shape (A,) or (n, A).
    rng
        Random generator.

    Returns
    -------
    Array
        Samples, shape (n, A), each within ``TRUNCATION * std`` of its mean.
    """
    z = rng.standard_normal(mean.shape)
    while (outside := np.abs(z) > TRUNCATION).any():
        z[outside] = rng.standard_normal(int(outside.sum()))
    return (mean + std * z).astype(mean.dtype)


def sample_clipped(mean: Array, std: Array, rng: np.random.Generator) -> Array:
    """Sample from normals and clip to the range of the actions; arguments and result as in :func:`sample`."""
    return np.clip(mean + std * rng.standard_normal(mean.shape), -BOUND, BOUND).astype(mean.dtype)


def softmax(logits: Array) -> Array:
    """Compute probabilities of choices from their logits, over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def sample_choice(probabilities: Array, rng: np.random.Generator) -> Array:
    """Sample one of K choices for each row of ``probabilities``, shape (n, K).

    Returns
    -------
    Array
        Indices, shape (n, 1), with the dtype of the probabilities.
    """
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    # rounding may leave the last sum just below 1
    mark = rng.random(len(probabilities)) * cumulative[:, -1]
    return (cumulative <= mark[:, None]).sum(axis=1, keepdims=True).astype(probabilities.dtype)

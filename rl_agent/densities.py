"""Densities and divergences of policies as torch operations, for the losses.

Every function works on the last axis and keeps the others; none looks at values on the host, so a CUDA graph can hold
them. Gaussians have independent components; categorical policies are given by their logits.
"""

from __future__ import annotations

import math

import torch

__all__ = [
    "LOG_RHO_BOUND",
    "categorical_kl",
    "categorical_log_density",
    "gaussian_kl",
    "gaussian_log_density",
    "importance_weight",
    "squashed_log_density",
]

Tensor = torch.Tensor

LOG_RHO_BOUND = 20.0
"""Bound of log importance weights before the exponential, far outside of any c_max."""


def gaussian_log_density(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Log density of a Gaussian, summed over the components: shapes (..., A) to (...)."""
    z = (action - mean) / std
    return (-0.5 * z * z - torch.log(std) - 0.5 * math.log(2.0 * math.pi)).sum(-1)


def gaussian_kl(mean_mu: Tensor, std_mu: Tensor, mean_pi: Tensor, std_pi: Tensor) -> Tensor:
    """``D_KL(mu || pi)`` of two Gaussians in closed form: shapes (..., A) to (...)."""
    spread = (std_mu**2 + (mean_mu - mean_pi) ** 2) / (2.0 * std_pi**2)
    return (torch.log(std_pi / std_mu) + spread - 0.5).sum(-1)


def categorical_log_density(choice: Tensor, logits: Tensor) -> Tensor:
    """Log probability of ``choice`` (..., 1), a number from 0 on held as float, under ``logits`` (..., K)."""
    return torch.log_softmax(logits, -1).gather(-1, choice.long()).squeeze(-1)


def categorical_kl(probabilities: Tensor, logits: Tensor) -> Tensor:
    """``D_KL(mu || pi)`` of mu given by probabilities and pi by logits: shapes (..., K) to (...)."""
    log_mu = torch.log(probabilities.clamp(min=1e-30))
    return (probabilities * (log_mu - torch.log_softmax(logits, -1))).sum(-1)


def squashed_log_density(raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Log density of tanh(raw), raw being Gaussian (SAC paper, appendix C): shapes (..., A) to (...).

    The slope of tanh, 1 - tanh(x)^2, is written as 4 exp(-2x) / (1 + exp(-2x))^2, which does not round to zero.
    """
    log_slope = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
    return gaussian_log_density(raw, mean, std) - log_slope.sum(-1)


def importance_weight(log_pi: Tensor, log_mu: Tensor) -> Tensor:
    """``pi(a|s) / mu(a|s)`` with its logarithm within +-``LOG_RHO_BOUND``."""
    return (log_pi - log_mu).clamp(-LOG_RHO_BOUND, LOG_RHO_BOUND).exp()

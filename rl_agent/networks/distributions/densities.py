"""Densities and divergences of policies as torch operations, for the losses.

The functions of a policy reduce the last axis and keep the others. None reads values on the host, so they can be
captured in a CUDA graph. Gaussians, clipped or not, have independent components; categorical policies are given by
their logits. The last two functions are the torch versions of those in ``rl_agent/multi_agent/cooperation.py``.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from rl_agent.networks.distributions.sampling import BOUND
from rl_agent.runtime.lazy_torch import torch

__all__ = [
    "LOG_RHO_BOUND",
    "categorical_kl",
    "categorical_log_density",
    "clipped_kl",
    "clipped_log_density",
    "compare_choices",
    "compare_normals",
    "gaussian_kl",
    "gaussian_log_density",
    "importance_weight",
    "mean_of_each",
    "squashed_log_density",
    "sum_of_each",
]

Tensor: TypeAlias = "torch.Tensor"
Compared: TypeAlias = "tuple[Tensor, Tensor, Tensor]"
"""log pi(a|s), log mu(a|s) and D_KL(mu || pi), each of shape (...)."""

LOG_RHO_BOUND = 20.0
"""Bound of log importance weights before the exponential, far beyond any c_max."""


def gaussian_log_density(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Compute the log density of a Gaussian, summed over the components: shapes (..., A) to (...)."""
    z = (action - mean) / std
    return (-0.5 * z * z - torch.log(std) - 0.5 * math.log(2.0 * math.pi)).sum(-1)


def gaussian_kl(mean_mu: Tensor, std_mu: Tensor, mean_pi: Tensor, std_pi: Tensor) -> Tensor:
    """Compute ``D_KL(mu || pi)`` of two Gaussians in closed form: shapes (..., A) to (...)."""
    spread = (std_mu**2 + (mean_mu - mean_pi) ** 2) / (2.0 * std_pi**2)
    return (torch.log(std_pi / std_mu) + spread - 0.5).sum(-1)


def clipped_log_density(
    action: Tensor, mean: Tensor, std: Tensor, low: float, high: float
) -> Tensor:
    """Compute the log density of a clipped normal (Weber et al. 2022, eq. 18): shapes (..., A) to (...).

    For an action at a bound it is the log probability of being clipped to the bound.
    """
    z = (action - mean) / std
    inside = -0.5 * z * z - torch.log(std) - 0.5 * math.log(2.0 * math.pi)
    at_low, at_high = (
        torch.special.log_ndtr((low - mean) / std),
        torch.special.log_ndtr((mean - high) / std),
    )
    return torch.where(action <= low, at_low, torch.where(action >= high, at_high, inside)).sum(-1)


def clipped_kl(
    mean_mu: Tensor, std_mu: Tensor, mean_pi: Tensor, std_pi: Tensor, low: float, high: float
) -> Tensor:
    """Compute ``D_KL(mu || pi)`` of two clipped normals (Weber et al. 2022, eq. 25): shapes (..., A) to (...)."""
    kl = torch.zeros_like(mean_pi)
    for bound, side in ((low, 1.0), (high, -1.0)):
        log_mu = torch.special.log_ndtr(side * (bound - mean_mu) / std_mu)
        kl = kl + log_mu.exp() * (
            log_mu - torch.special.log_ndtr(side * (bound - mean_pi) / std_pi)
        )
    a, b = (low - mean_mu) / std_mu, (high - mean_mu) / std_mu
    at_a, at_b = ((-0.5 * z * z).exp() / math.sqrt(2.0 * math.pi) for z in (a, b))
    # integrals of 1, z and z^2 times the density of mu between the bounds (eq. 24)
    mass, first = torch.special.ndtr(b) - torch.special.ndtr(a), at_a - at_b
    second = mass + a * at_a - b * at_b
    apart = mean_mu - mean_pi
    spread = (std_mu**2 * second + 2.0 * std_mu * apart * first + apart**2 * mass) / (
        2.0 * std_pi**2
    )
    return (kl + mass * torch.log(std_pi / std_mu) - 0.5 * second + spread).sum(-1)


def categorical_log_density(choice: Tensor, logits: Tensor) -> Tensor:
    """Compute the log probability of ``choice`` (..., 1), an index stored as float, for ``logits`` (..., K)."""
    return torch.log_softmax(logits, -1).gather(-1, choice.long()).squeeze(-1)


def categorical_kl(probabilities: Tensor, logits: Tensor) -> Tensor:
    """Compute ``D_KL(mu || pi)`` for mu given by probabilities and pi by logits: shapes (..., K) to (...)."""
    log_mu = torch.log(probabilities.clamp(min=1e-30))
    return (probabilities * (log_mu - torch.log_softmax(logits, -1))).sum(-1)


def squashed_log_density(raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Compute the log density of tanh(raw) for Gaussian raw (SAC paper, appendix C): shapes (..., A) to (...).

    The slope of tanh, 1 - tanh(x)^2, is written as 4 exp(-2x) / (1 + exp(-2x))^2, which does not round to zero.
    """
    log_slope = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
    return gaussian_log_density(raw, mean, std) - log_slope.sum(-1)


def importance_weight(log_pi: Tensor, log_mu: Tensor) -> Tensor:
    """Compute ``pi(a|s) / mu(a|s)`` with its logarithm clipped to +-``LOG_RHO_BOUND``."""
    return (log_pi - log_mu).clamp(-LOG_RHO_BOUND, LOG_RHO_BOUND).exp()


def compare_choices(choice: Tensor, probabilities: Tensor, logits: Tensor) -> Compared:
    """Compare pi, given by logits (..., K), with the probabilities of mu at a ``choice`` (..., 1)."""
    log_mu = torch.log(probabilities.gather(-1, choice.long()).squeeze(-1))
    log_pi = categorical_log_density(choice, logits)
    return log_pi, log_mu, categorical_kl(probabilities, logits)


def compare_normals(
    action: Tensor, mu: tuple[Tensor, Tensor], pi: tuple[Tensor, Tensor], is_clipped: bool = False
) -> Compared:
    """Compare two normals with mean and std (..., A), optionally clipped to the range of the actions, at an action."""
    if not is_clipped:
        log_mu, log_pi = (gaussian_log_density(action, *of) for of in (mu, pi))
        return log_pi, log_mu, gaussian_kl(*mu, *pi)
    log_mu, log_pi = (clipped_log_density(action, *of, -BOUND, BOUND) for of in (mu, pi))
    return log_pi, log_mu, clipped_kl(*mu, *pi, -BOUND, BOUND)


def sum_of_each(numbers: Tensor, agents_per_env: int) -> Tensor:
    """Replace each agent's number by the sum over its environment, shape (n N,); for log densities of actions."""
    return numbers.reshape(-1, agents_per_env).sum(1).repeat_interleave(agents_per_env)


def mean_of_each(numbers: Tensor, agents_per_env: int) -> Tensor:
    """Replace each agent's number by the mean over its environment, shape (n N,); for V_f(s) from V(s)."""
    return numbers.reshape(-1, agents_per_env).mean(1).repeat_interleave(agents_per_env)

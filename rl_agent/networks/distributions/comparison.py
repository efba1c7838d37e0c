"""Comparison of a Gaussian policy, clipped or not, with the stored behaviour, compiled, for written-out gradients.

``rl_agent/networks/distributions/densities.py`` has the same for autograd.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.networks.distributions import clipped_normal
from rl_agent.networks.distributions.densities import LOG_RHO_BOUND
from rl_agent.networks.distributions.sampling import BOUND
from rl_agent.runtime.jit import compiled

__all__ = ["compare", "weigh"]

F32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@compiled(error_model="numpy")
def compare(
    mean: F32, sigma: F32, action: F32, mu_mean: F32, mu_std: F32, clipped: bool = False
) -> tuple[F32, F32]:
    """Compare pi with mu at B steps.

    Parameters
    ----------
    mean, sigma
        Statistics of pi, shapes (B, A) and (B, A) or (1, A).
    action, mu_mean, mu_std
        What was done, and the statistics of mu, shape (B, A).
    clipped
        Whether both are clipped to the range of the actions.

    Returns
    -------
    log_rho, kl
        Logarithm of the importance weight, and D_KL(mu || pi), shape (B,).
    """
    half = np.float32(0.5)
    batch, size = action.shape
    log_rhos, kl = np.empty(batch, np.float32), np.empty(batch, np.float32)
    for b in range(batch):
        log_rho, divergence = np.float32(0.0), np.float32(0.0)
        for j in range(size):
            s, s_mu = sigma[b if sigma.shape[0] > 1 else 0, j], mu_std[b, j]
            m, m_mu = mean[b, j], mu_mean[b, j]
            if clipped:
                ratio, part = clipped_normal.log_ratio_and_kl(
                    action[b, j], m, s, m_mu, s_mu, -BOUND, BOUND
                )
                log_rho += np.float32(ratio)
                divergence += np.float32(part)
                continue
            z, z_mu = (action[b, j] - m) / s, (action[b, j] - m_mu) / s_mu
            log_ratio = np.log(s / s_mu)
            log_rho += half * (z_mu * z_mu - z * z) - log_ratio
            divergence += (
                log_ratio + (s_mu * s_mu + (m_mu - m) ** 2) / (np.float32(2.0) * s * s) - half
            )
        log_rhos[b], kl[b] = log_rho, divergence
    return log_rhos, kl


@compiled(error_model="numpy")
def weigh(log_rho: F32, c_max: np.float32, rho_clip: np.float32) -> tuple[F32, Flags, Flags]:
    """Compute importance weights from their logarithms, within their bounds.

    Parameters
    ----------
    log_rho
        Shape (B,).
    c_max
        Bound of near-policy importance weights.
    rho_clip
        Upper bound of the importance weights.

    Returns
    -------
    rho
        Importance weights, shape (B,).
    far, moved
        Whether a step is far-policy, and whether its importance weight moves with pi, no bound holding it, shape (B,).
    """
    bound = np.float32(LOG_RHO_BOUND)
    batch = log_rho.shape[0]
    rho, far, moved = (
        np.empty(batch, np.float32),
        np.empty(batch, np.bool_),
        np.empty(batch, np.bool_),
    )
    for b in range(batch):
        weight = np.exp(min(max(log_rho[b], -bound), bound))
        moved[b] = abs(log_rho[b]) <= bound and weight <= rho_clip
        rho[b] = min(weight, rho_clip)
        far[b] = not (np.float32(1.0) / c_max < rho[b] < c_max)
    return rho, far, moved

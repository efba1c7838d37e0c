"""Comparison of a Gaussian policy, clipped or not, with the stored behaviour, compiled, for written-out gradients.

``rl_agent/densities.py`` has the same for autograd.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent import clipped_normal
from rl_agent.compiling import compiled
from rl_agent.densities import LOG_RHO_BOUND
from rl_agent.distributions import BOUND

__all__ = ["compare"]

F32 = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@compiled(error_model="numpy")
def compare(
    mean: F32,
    sigma: F32,
    action: F32,
    mu_mean: F32,
    mu_std: F32,
    c_max: np.float32,
    rho_clip: np.float32,
    clipped: bool = False,
) -> tuple[F32, F32, Flags, Flags]:
    """Compare pi with mu at B steps.

    Parameters
    ----------
    mean, sigma
        Statistics of pi, shapes (B, A) and (B, A) or (1, A).
    action, mu_mean, mu_std
        What was done, and the statistics of mu, shape (B, A).
    c_max
        Bound of near-policy importance weights.
    rho_clip
        Upper bound of the importance weights.
    clipped
        Whether both are clipped to the range of the actions.

    Returns
    -------
    rho, kl
        Importance weight and D_KL(mu || pi), shape (B,).
    far, moved
        Whether a step is far-policy, and whether its importance weight moves with pi, no bound holding it, shape (B,).
    """
    half, bound = np.float32(0.5), np.float32(LOG_RHO_BOUND)
    batch, size = action.shape
    rho, kl = np.empty(batch, np.float32), np.empty(batch, np.float32)
    far, moved = np.empty(batch, np.bool_), np.empty(batch, np.bool_)
    for b in range(batch):
        log_rho, divergence = np.float32(0.0), np.float32(0.0)
        for j in range(size):
            s, s_mu = sigma[b if sigma.shape[0] > 1 else 0, j], mu_std[b, j]
            m, m_mu = mean[b, j], mu_mean[b, j]
            if clipped:
                ratio, part = clipped_normal.log_ratio_and_kl(action[b, j], m, s, m_mu, s_mu, -BOUND, BOUND)
                log_rho += np.float32(ratio)
                divergence += np.float32(part)
                continue
            z, z_mu = (action[b, j] - m) / s, (action[b, j] - m_mu) / s_mu
            log_ratio = np.log(s / s_mu)
            log_rho += half * (z_mu * z_mu - z * z) - log_ratio
            divergence += log_ratio + (s_mu * s_mu + (m_mu - m) ** 2) / (np.float32(2.0) * s * s) - half
        weight = np.exp(min(max(log_rho, -bound), bound))
        moved[b] = abs(log_rho) <= bound and weight <= rho_clip
        rho[b], kl[b] = min(weight, rho_clip), divergence
        far[b] = not (np.float32(1.0) / c_max < rho[b] < c_max)
    return rho, kl, far, moved

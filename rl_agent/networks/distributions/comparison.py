"""Compiled comparison of a Gaussian policy, clipped or not, with the stored behaviour, for analytic gradients.

``rl_agent/networks/distributions/densities.py`` has the autograd version.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.networks.distributions import clipped_normal
from rl_agent.networks.distributions.sampling import BOUND
from rl_agent.runtime.jit import compiled

__all__ = ["compare"]

F32 = npt.NDArray[np.float32]


@compiled(error_model="numpy")
def compare(
    mean: F32, sigma: F32, action: F32, mu_mean: F32, mu_std: F32, clipped: bool = False
) -> tuple[F32, F32]:
    """Compare pi with mu at B steps.

    Parameters
    ----------
    mean, sigma
        Mean and standard deviation of pi, shapes (B, A) and (B, A) or (1, A).
    action, mu_mean, mu_std
        Actions taken, and mean and standard deviation of mu, shape (B, A).
    clipped
        Whether both distributions are clipped to the range of the actions.

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

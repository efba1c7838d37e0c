"""The clipped normal distribution (Weber et al. 2022, appendix B), compiled, one component at a time.

A sample is a normal sample clipped to [low, high]: inside, the density is that of the normal, and each bound has the
probability of all samples clipped to it (eq. 18). A clipped action equals the bound exactly.

Everything is computed in float64, with z = (bound - m) / sigma:

    log pi(low) = log Phi(z_low),    log pi(high) = log Phi(-z_high)
    hazard(z)   = phi(z) / Phi(z) = d log Phi(z) / dz,  about -z in the tail, where both vanish

``rl_agent/networks/distributions/densities.py`` has the autograd version.
"""

from __future__ import annotations

import math

from rl_agent.runtime.jit import compiled

__all__ = ["hazard", "log_ratio_and_kl", "slopes"]

FAR_OUT = -30.0
"""z below which the asymptotic series is used: it is accurate to ten digits, while Phi nearly underflows."""

ROOT_HALF = math.sqrt(0.5)
LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
PER_ROOT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)


@compiled()
def _series(z: float) -> float:
    """Return -z Phi(z) / phi(z) for z far below zero."""
    y = 1.0 / (z * z)
    return 1.0 - y * (1.0 - 3.0 * y * (1.0 - 5.0 * y))


@compiled()
def _cdf(z: float) -> float:
    return 0.5 * math.erfc(-z * ROOT_HALF)


@compiled()
def _density(z: float) -> float:
    return PER_ROOT_2_PI * math.exp(-0.5 * z * z)


@compiled()
def _tail(z: float) -> tuple[float, float]:
    """Return Phi(z), rounded to 0 far out in the tail, and log Phi(z)."""
    if z > 0.0:
        beyond = _cdf(-z)
        return 1.0 - beyond, math.log1p(-beyond)
    if z > FAR_OUT:
        below = _cdf(z)
        return below, math.log(below)
    return 0.0, -0.5 * z * z - math.log(-z) - LOG_ROOT_2_PI + math.log(_series(z))


@compiled()
def hazard(z: float) -> float:
    """Return d log Phi(z) / dz = phi(z) / Phi(z)."""
    return _density(z) / _cdf(z) if z > FAR_OUT else -z / _series(z)


@compiled()
def _moments(low: float, high: float, below: float, beyond: float) -> tuple[float, float, float]:
    """Integrate 1, z and z^2 times the standard normal density from ``low`` to ``high`` (eq. 24).

    ``below`` and ``beyond`` are Phi(low) and Phi(-high).
    """
    # subtracting from a number near 1 would cancel the digits of a small difference
    if low > 0.0:
        mass = _cdf(-low) - beyond
    elif high < 0.0:
        mass = _cdf(high) - below
    else:
        mass = 1.0 - below - beyond
    at_low, at_high = _density(low), _density(high)
    return mass, at_low - at_high, mass + low * at_low - high * at_high


@compiled()
def log_ratio_and_kl(
    action: float, m: float, s: float, m_mu: float, s_mu: float, low: float, high: float
) -> tuple[float, float]:
    """Compare pi = (m, s) with mu = (m_mu, s_mu): log pi(a) / mu(a) (eq. 29) and D_KL(mu || pi) (eq. 25)."""
    a, b = (low - m) / s, (high - m) / s
    a_mu, b_mu = (low - m_mu) / s_mu, (high - m_mu) / s_mu
    (_, at_low), (_, at_high) = _tail(a), _tail(-b)
    (below, at_low_mu), (beyond, at_high_mu) = _tail(a_mu), _tail(-b_mu)
    if action <= low:
        log_ratio = at_low - at_low_mu
    elif action >= high:
        log_ratio = at_high - at_high_mu
    else:
        z, z_mu = (action - m) / s, (action - m_mu) / s_mu
        log_ratio = 0.5 * (z_mu * z_mu - z * z) - math.log(s / s_mu)
    mass, first, second = _moments(a_mu, b_mu, below, beyond)
    apart = m_mu - m
    inside = mass * math.log(s / s_mu) - 0.5 * second
    inside += (
        0.5 * (s_mu * s_mu * second + 2.0 * s_mu * apart * first + apart * apart * mass) / (s * s)
    )
    outside = below * (at_low_mu - at_low) + beyond * (at_high_mu - at_high)
    return log_ratio, inside + outside


@compiled()
def slopes(
    action: float, m: float, s: float, m_mu: float, s_mu: float, low: float, high: float
) -> tuple[float, float, float, float]:
    """Differentiate log pi(a) (eqs. 26, 30 to 32) and D_KL(mu || pi) (eq. 28) with respect to m and s.

    Returns
    -------
    tuple of float
        d log pi / dm, d log pi / ds, d KL / dm, d KL / ds.
    """
    a, b = (low - m) / s, (high - m) / s
    a_mu, b_mu = (low - m_mu) / s_mu, (high - m_mu) / s_mu
    of_low, of_high = hazard(a) / s, hazard(-b) / s
    if action <= low:
        log_m, log_s = -of_low, -of_low * a
    elif action >= high:
        log_m, log_s = of_high, of_high * b
    else:
        z = (action - m) / s
        log_m, log_s = z / s, (z * z - 1.0) / s
    p_low, p_high = _cdf(a_mu), _cdf(-b_mu)
    mass, first, second = _moments(a_mu, b_mu, p_low, p_high)
    apart = m_mu - m
    kl_m = p_low * of_low - p_high * of_high - (s_mu * first + apart * mass) / (s * s)
    spread = s_mu * s_mu * second + 2.0 * s_mu * apart * first + apart * apart * mass
    kl_s = p_low * of_low * a - p_high * of_high * b + (mass - spread / (s * s)) / s
    return log_m, log_s, kl_m, kl_s

"""The compiled comparison of two Gaussians, against torch's distributions and integrals."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from rl_agent.networks.distributions import comparison
from rl_agent.replay.refer import weigh

F32, NONE = np.float32, np.float32(np.inf)


def compared(mean, sigma, action, mu_mean, mu_std, c_max=NONE, rho_clip=NONE):
    arrays = (np.atleast_2d(np.asarray(x, F32)) for x in (mean, sigma, action, mu_mean, mu_std))
    log_rho, kl = comparison.compare(*arrays)
    rho, far, moved = weigh(log_rho, F32(c_max), F32(rho_clip))
    return rho, kl, far, moved


@pytest.mark.parametrize("shared", [True, False])
def test_weight_and_divergence_match_torch(shared):
    rng = np.random.default_rng(3)
    mean, action, mu_mean = rng.normal(size=(3, 8, 2))
    mu_std, sigma = rng.uniform(0.5, 2.0, (8, 2)), rng.uniform(0.5, 2.0, (1 if shared else 8, 2))
    pi, mu = (
        torch.distributions.Normal(torch.tensor(m), torch.tensor(s))
        for m, s in ((mean, sigma), (mu_mean, mu_std))
    )
    rho, kl, _, moved = compared(mean, sigma, action, mu_mean, mu_std)
    taken = torch.tensor(action)
    np.testing.assert_allclose(
        rho, (pi.log_prob(taken) - mu.log_prob(taken)).sum(1).exp(), rtol=1e-5
    )
    np.testing.assert_allclose(kl, torch.distributions.kl_divergence(mu, pi).sum(1), rtol=1e-5)
    assert moved.all()


def test_the_divergence_equals_its_integral_and_vanishes_for_equals():
    (m_mu, s_mu), (m_pi, s_pi) = (0.3, 0.5), (-0.4, 0.9)
    mu, pi = norm(m_mu, s_mu), norm(m_pi, s_pi)
    integral, _ = quad(lambda a: mu.pdf(a) * (mu.logpdf(a) - pi.logpdf(a)), -6, 6)
    assert compared(m_pi, s_pi, 0.0, m_mu, s_mu)[1] == pytest.approx(integral, rel=1e-5)
    assert compared(m_mu, s_mu, 0.1, m_mu, s_mu)[:2] == (1.0, 0.0)


def test_bounds_classify_far_policy_steps_and_clip_weights():
    # the weight is exp(a) for means of 1/2 and -1/2
    actions = np.array([[-3.0], [-0.2], [0.0], [0.2], [3.0], [60.0]])
    rho, _, far, moved = compared(
        np.full((6, 1), 0.5), 1.0, actions, np.full((6, 1), -0.5), np.ones((6, 1)), 2.0, 8.0
    )
    np.testing.assert_allclose(rho, np.minimum(np.exp(actions[:, 0]), 8.0), rtol=1e-5)
    assert far.tolist() == [True, False, False, False, True, True]
    assert moved.tolist() == [True, True, True, True, False, False]

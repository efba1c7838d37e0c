import numpy as np
import pytest
import scipy.stats
import torch
from scipy.integrate import quad

from rl_agent import distributions


@pytest.fixture
def pair():
    rng = np.random.default_rng(3)
    return rng.normal(size=2), rng.uniform(0.3, 2.0, 2), rng.normal(size=2), rng.uniform(0.3, 2.0, 2)


def test_log_density_is_that_of_torch(pair):
    action, std, mean, _ = pair
    expected = torch.distributions.Normal(torch.tensor(mean), torch.tensor(std)).log_prob(torch.tensor(action)).sum()
    assert distributions.log_density(action, mean, std) == pytest.approx(expected.item(), rel=1e-12)


def test_density_integrates_to_one():
    mean, std = np.array([0.7]), np.array([0.4])
    total, _ = quad(lambda a: np.exp(distributions.log_density(np.array([a]), mean, std)), -5, 6)
    assert total == pytest.approx(1.0, abs=1e-8)


def test_kl_divergence_equals_its_integral():
    m_mu, s_mu, m_pi, s_pi = (np.array([x]) for x in (0.3, 0.5, -0.4, 0.9))

    def integrand(a):
        log_mu = distributions.log_density(np.array([a]), m_mu, s_mu)
        return np.exp(log_mu) * (log_mu - distributions.log_density(np.array([a]), m_pi, s_pi))

    integral, _ = quad(integrand, -6, 6)
    assert distributions.kl_divergence(m_mu, s_mu, m_pi, s_pi) == pytest.approx(integral, abs=1e-8)


def test_kl_divergence_adds_over_components_and_vanishes_only_for_equals(pair):
    m_mu, s_mu, m_pi, s_pi = pair
    parts = [distributions.kl_divergence(*(x[k : k + 1] for x in pair)) for k in range(2)]
    assert distributions.kl_divergence(*pair) == pytest.approx(sum(parts))
    assert distributions.kl_divergence(m_mu, s_mu, m_mu, s_mu) == pytest.approx(0.0, abs=1e-15)
    assert distributions.kl_divergence(m_mu, s_mu, m_pi, s_pi) > 0.01


def test_draws_follow_the_normal_truncated_at_three_standard_deviations():
    mean, std = np.full((200_000, 1), 2.0), np.array([0.5])
    z = (distributions.draw(mean, std, np.random.default_rng(0)) - mean) / std
    assert np.abs(z).max() <= 3.0
    assert np.abs(z).max() > 2.95
    assert scipy.stats.kstest(z[:, 0], scipy.stats.truncnorm(-3, 3).cdf).pvalue > 1e-3
    # an untruncated normal would have had hundreds of draws outside
    assert scipy.stats.norm.sf(3.0) * 2 * len(z) > 400


def test_softplus_and_its_inverse():
    for sigma in (1e-3, 0.2**0.5, 1.0, 30.0):
        x = np.array([distributions.inverse_softplus(sigma)])
        assert distributions.softplus(x)[0] == pytest.approx(sigma, rel=1e-12)
    assert np.isfinite(distributions.softplus(np.array([1e4, -1e4], np.float32))).all()

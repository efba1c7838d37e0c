import numpy as np
import pytest
import scipy.stats

from rl_agent.networks.distributions import sampling


def test_samples_follow_the_normal_truncated_at_three_sigma():
    mean, std = np.full((200_000, 1), 2.0), np.array([0.5])
    z = (sampling.sample(mean, std, np.random.default_rng(0)) - mean) / std
    assert np.abs(z).max() <= 3.0
    assert np.abs(z).max() > 2.95
    assert scipy.stats.kstest(z[:, 0], scipy.stats.truncnorm(-3, 3).cdf).pvalue > 1e-3
    # an untruncated normal would have had hundreds of samples outside
    assert scipy.stats.norm.sf(3.0) * 2 * len(z) > 400


def test_softplus_and_its_inverse():
    for sigma in (1e-3, 0.2**0.5, 1.0, 30.0):
        x = np.array([sampling.inverse_softplus(sigma)])
        assert sampling.softplus(x)[0] == pytest.approx(sigma, rel=1e-12)
    assert np.isfinite(sampling.softplus(np.array([1e4, -1e4], np.float32))).all()

"""The clipped normal (Weber et al. 2022, appendix B) against integrals, finite differences and samples."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm

from rl_agent import AgentConfig, Learner
from rl_agent.networks.distributions import clipped_normal, comparison, densities, sampling

CASES = [  # m, sigma, m_mu, sigma_mu, low, high
    (0.3, 0.5, -0.2, 0.7, -1.0, 1.0),
    (-1.4, 0.3, -0.9, 0.5, -1.0, 1.0),  # both mostly at one bound
    (2.5, 0.2, 1.5, 0.4, -1.0, 1.0),  # almost all of it beyond the other
    (0.0, 2.0, 0.1, 1.5, 0.5, 4.0),  # other bounds
]


def parts(m, s, low, high):
    """Probability at either bound, and the density between them."""
    return norm.cdf(low, m, s), norm.sf(high, m, s), lambda a: norm.pdf(a, m, s)


@pytest.mark.parametrize("case", CASES)
def test_density_and_divergence_equal_their_integrals(case):
    m, s, m_mu, s_mu, low, high = case
    at_low, at_high, inside = parts(m, s, low, high)
    at_low_mu, at_high_mu, inside_mu = parts(m_mu, s_mu, low, high)
    assert at_low + at_high + quad(inside, low, high)[0] == pytest.approx(1.0)
    kl = at_low_mu * math.log(at_low_mu / at_low) + at_high_mu * math.log(at_high_mu / at_high)
    kl += quad(lambda a: inside_mu(a) * math.log(inside_mu(a) / inside(a)), low, high)[0]
    middle = 0.3 * low + 0.7 * high
    ratios = {
        low: at_low / at_low_mu,
        high: at_high / at_high_mu,
        middle: inside(middle) / inside_mu(middle),
    }
    for action, ratio in ratios.items():
        log_ratio, divergence = clipped_normal.log_ratio_and_kl(action, m, s, m_mu, s_mu, low, high)
        assert log_ratio == pytest.approx(math.log(ratio), rel=1e-9)
        assert divergence == pytest.approx(kl, rel=1e-7)
        a, pi, mu = (torch.tensor([x], dtype=torch.float64) for x in (action, m, m_mu))
        sigma, sigma_mu = (
            torch.tensor([s], dtype=torch.float64),
            torch.tensor([s_mu], dtype=torch.float64),
        )
        log_pi = densities.clipped_log_density(a, pi, sigma, low, high)
        log_mu = densities.clipped_log_density(a, mu, sigma_mu, low, high)
        assert float(log_pi - log_mu) == pytest.approx(math.log(ratio), rel=1e-9)
        assert float(densities.clipped_kl(mu, sigma_mu, pi, sigma, low, high)) == pytest.approx(
            kl, rel=1e-7
        )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("place", [0.0, 0.4, 1.0])
def test_slopes_equal_finite_differences(case, place):
    m, s, *mu, low, high = case
    action, h = low + place * (high - low), 1e-6

    def compared(m, s):
        return np.array(clipped_normal.log_ratio_and_kl(action, m, s, *mu, low, high))

    by_m = (compared(m + h, s) - compared(m - h, s)) / (2 * h)
    by_s = (compared(m, s + h) - compared(m, s - h)) / (2 * h)
    log_m, log_s, kl_m, kl_s = clipped_normal.slopes(action, m, s, *mu, low, high)
    np.testing.assert_allclose([log_m, kl_m, log_s, kl_s], [*by_m, *by_s], rtol=1e-6, atol=1e-8)


def test_tails_are_exact_and_continuous():
    z = np.array(
        [-1e4, -300.0, -37.0, -30.0 - 1e-9, -30.0 + 1e-9, -5.0, -1e-3, 0.0, 2.0, 7.0, 40.0]
    )
    np.testing.assert_allclose([clipped_normal._tail(x)[1] for x in z], log_ndtr(z), rtol=1e-9)
    slopes = np.array([clipped_normal.hazard(x) for x in z])
    np.testing.assert_allclose(slopes, np.exp(norm.logpdf(z) - log_ndtr(z)), rtol=1e-6)


def test_float32_stays_finite_far_beyond_the_bounds():
    mean = torch.tensor([[80.0], [-80.0], [3.0]], requires_grad=True)
    std, action = torch.full((3, 1), 0.1), torch.tensor([[-1.0], [-1.0], [0.5]])
    mu = torch.zeros(3, 1), torch.full((3, 1), 0.2)
    both = densities.clipped_log_density(action, mean, std, -1.0, 1.0) + densities.clipped_kl(
        *mu, mean, std, -1.0, 1.0
    )
    (gradient,) = torch.autograd.grad(both.sum(), mean)
    assert torch.isfinite(both).all()
    assert torch.isfinite(gradient).all()
    # log Phi((-1 - 80) / 0.1) = -810^2 / 2 - log(810 sqrt(2 pi)), to the digits of float32
    expected = -0.5 * 810.0**2 - math.log(810.0 * math.sqrt(2 * math.pi))
    found = densities.clipped_log_density(action, mean, std, -1.0, 1.0)[0]
    assert float(found.detach()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("action", [-1.0, 0.3, 1.0])
def test_gradients_equal_finite_differences(action):
    a, mu = (
        torch.full((3, 2), action, dtype=torch.float64),
        torch.tensor([[0.4, -1.2]], dtype=torch.float64),
    )
    start = torch.linspace(-1.5, 1.5, 6, dtype=torch.float64).reshape(3, 2).requires_grad_()

    def function(x):
        std = (0.3 * x).exp()
        log_density = densities.clipped_log_density(a, x, std, -1.0, 1.0)
        return log_density + densities.clipped_kl(
            mu.expand(3, 2), 0.5 + 0.0 * std.detach(), x, std, -1.0, 1.0
        )

    assert torch.autograd.gradcheck(function, (start,))


def test_samples_have_the_distribution():
    n, m, s = 40_000, 0.7, 0.5
    sampled = sampling.sample_clipped(
        np.full((n, 1), m, np.float32), np.float32([s]), np.random.default_rng(0)
    )[:, 0]
    edges = [-1.0, 0.0, 0.5, 1.0]
    counts = [
        np.sum(sampled == -1.0),
        *np.histogram(sampled[np.abs(sampled) < 1.0], edges)[0],
        np.sum(sampled == 1.0),
    ]
    expected = [norm.cdf(-1, m, s), *np.diff(norm.cdf(edges, m, s)), norm.sf(1, m, s)]
    chi_squared = sum((c - n * p) ** 2 / (n * p) for c, p in zip(counts, expected, strict=True))
    assert sum(counts) == n
    assert chi_squared < 18.5  # 0.1 % of four degrees of freedom


def test_comparison_sums_over_components_and_gives_weight_one_for_equals():
    rng = np.random.default_rng(1)
    mean, mu_mean = rng.normal(size=(2, 6, 3)).astype(np.float32)
    sigma, mu_std = (
        rng.uniform(0.3, 1.0, (1, 3)).astype(np.float32),
        rng.uniform(0.3, 1.0, (6, 3)).astype(np.float32),
    )
    action = np.clip(1.5 * rng.normal(size=(6, 3)), -1.0, 1.0).astype(np.float32)
    found, kl = comparison.compare(mean, sigma, action, mu_mean, mu_std, True)
    tensors = [
        torch.tensor(x, dtype=torch.float64)
        for x in (mean, np.repeat(sigma, 6, 0), action, mu_mean, mu_std)
    ]
    pi, mu = tensors[:2], tensors[3:]
    log_rho = densities.clipped_log_density(tensors[2], *pi, -1.0, 1.0)
    log_rho -= densities.clipped_log_density(tensors[2], *mu, -1.0, 1.0)
    np.testing.assert_allclose(found, log_rho, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kl, densities.clipped_kl(*mu, *pi, -1.0, 1.0), rtol=1e-4, atol=1e-6)
    same, kl = comparison.compare(mu_mean, mu_std, action, mu_mean, mu_std, True)
    np.testing.assert_array_equal(same, 0.0)
    np.testing.assert_allclose(kl, 0.0, atol=1e-6)


def test_a_learner_issues_and_stores_clipped_actions():
    config = AgentConfig(
        policy="clipped", sigma=2.0, hidden=(8,), batch_size=8, buffer_size=64, learning_starts=16
    )
    box = gym.spaces.Box(np.float32([-2.0, 0.0]), np.float32([2.0, 1.0]))
    learner = Learner(config, gym.spaces.Box(-1.0, 1.0, (3,)), box, agents=4, seed=0)
    agents, no = np.arange(4), np.zeros(4, bool)
    learner.begin(agents, np.zeros((4, 3)))
    for step in range(8):
        actions = learner.act(agents)
        assert all(box.contains(action) for action in actions)
        learner.observe(agents, np.ones(4), no, no | (step == 7), np.full((4, 3), step / 8))
    stored = learner.memory.storage.action[learner.memory.storage.indices()]
    assert np.abs(stored).max() == 1.0
    assert 0.2 < np.mean(np.abs(stored) == 1.0) < 0.9
    learner.update()
    assert np.isfinite(learner.algorithm.weights).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"squash": "tanh"}, "policy = clipped is already bounded"),
        ({"advantage": "quadratic"}, "policy must be normal, not clipped"),
        ({"algorithm": "ddpg"}, "policy = clipped is a setting of vracer"),
    ],
)
def test_incompatible_settings_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        AgentConfig(policy="clipped", **settings)

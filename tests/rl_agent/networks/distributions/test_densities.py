import numpy as np
import pytest
import torch
from scipy.integrate import quad

from rl_agent.networks.distributions import densities, sampling

T = torch.distributions


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def test_gaussians_match_torch():
    mean, std, other, spread = (
        normal(4, 3),
        normal(4, 3, seed=1).exp(),
        normal(4, 3, seed=2),
        normal(3, seed=3).exp(),
    )
    action = normal(4, 3, seed=4)
    mu, pi = T.Independent(T.Normal(mean, std), 1), T.Independent(T.Normal(other, spread), 1)
    torch.testing.assert_close(
        densities.gaussian_log_density(action, mean, std), mu.log_prob(action)
    )
    torch.testing.assert_close(
        densities.gaussian_kl(mean, std, other, spread), T.kl_divergence(mu, pi)
    )


def test_categoricals_match_torch():
    logits, other = normal(5, 4), normal(5, 4, seed=1)
    choice = torch.tensor([[0.0], [3.0], [1.0], [2.0], [3.0]])
    mu, pi = T.Categorical(logits=logits), T.Categorical(logits=other)
    torch.testing.assert_close(
        densities.categorical_log_density(choice, other), pi.log_prob(choice[:, 0].long())
    )
    torch.testing.assert_close(densities.categorical_kl(mu.probs, other), T.kl_divergence(mu, pi))
    # a choice that the behaviour never takes adds nothing
    sure = torch.tensor([[0.0, 1.0]])
    torch.testing.assert_close(
        densities.categorical_kl(sure, torch.tensor([[0.3, 0.3]])),
        torch.tensor([np.log(2.0)], dtype=torch.float32),
    )


def test_the_density_of_a_squashed_gaussian_integrates_to_one():
    mean, std = torch.tensor([0.4], dtype=torch.float64), torch.tensor([0.7], dtype=torch.float64)

    def density(a):
        raw = torch.tensor([np.arctanh(a)], dtype=torch.float64)
        return float(densities.squashed_log_density(raw, mean, std).exp())

    total, _ = quad(density, -1.0, 1.0)
    assert total == pytest.approx(1.0, abs=1e-7)


def test_the_slope_of_tanh_does_not_vanish_far_out():
    raw = torch.tensor([[30.0], [-30.0]], dtype=torch.float32)
    log_density = densities.squashed_log_density(raw, raw, torch.ones(1))
    # log(1 - tanh(x)^2) -> log 4 - 2 |x|
    expected = -0.5 * np.log(2 * np.pi) - (np.log(4.0) - 60.0)
    np.testing.assert_allclose(log_density.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: densities.gaussian_log_density(normal(3, 2, seed=5), x, (0.3 * x).exp()),
        lambda x: densities.gaussian_kl(
            normal(3, 2, seed=5), normal(3, 2, seed=6).exp(), x, (0.3 * x).exp()
        ),
        lambda x: densities.categorical_log_density(torch.tensor([[0.0], [1.0], [1.0]]), x),
        lambda x: densities.categorical_kl(torch.softmax(normal(3, 2, seed=5), -1), x),
        lambda x: densities.squashed_log_density(x, 0.5 * x, (0.3 * x).exp()),
        lambda x: densities.importance_weight(x.sum(1), normal(3, seed=5)),
    ],
)
def test_gradients_equal_finite_differences(function):
    assert torch.autograd.gradcheck(function, (normal(3, 2, seed=9).requires_grad_(),))


def test_choices_are_sampled_with_their_probabilities():
    probabilities = np.tile(np.array([0.5, 0.0, 0.2, 0.3], np.float32), (40_000, 1))
    sampled = sampling.sample_choice(probabilities, np.random.default_rng(0))
    assert sampled.shape == (40_000, 1)
    counts = np.bincount(sampled[:, 0].astype(int), minlength=4)
    assert counts[1] == 0
    expected = 40_000 * probabilities[0]
    chi_squared = np.sum((counts - expected)[[0, 2, 3]] ** 2 / expected[[0, 2, 3]])
    assert chi_squared < 13.8  # 0.1 % of two degrees of freedom


def test_softmax_survives_large_logits():
    np.testing.assert_allclose(
        sampling.softmax(np.array([[1000.0, 1000.0, -1000.0]])), [[0.5, 0.5, 0.0]]
    )

import numpy as np
import pytest
import torch

from rl_agent.algorithms.advantages import FORMS, lower_triangular

SIZE = 2
COEFFICIENTS = {"quadratic": 3, "gaussian": 5}


def setting(form, n=4, seed=0):
    rng = np.random.default_rng(seed)
    tensor = lambda *shape: torch.tensor(rng.normal(size=shape))  # noqa: E731
    return tensor(n, COEFFICIENTS[form]), tensor(n, SIZE), tensor(n, SIZE), tensor(SIZE).abs() + 0.3


def coefficient_function(form, c, action, mean):
    """f by eqs. 18 and 20, with plain loops."""
    softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731
    offset = action - mean
    if form == "quadratic":
        lower = np.array([[softplus(c[0]), 0.0], [c[1], softplus(c[2])]])
        return -0.5 * offset @ lower @ lower.T @ offset
    total = 0.0
    for i in range(SIZE):
        width = softplus(c[1 + i]) if offset[i] > 0 else softplus(c[1 + SIZE + i])
        total += offset[i] ** 2 / width
    return softplus(c[0]) * np.exp(-0.5 * total)


@pytest.mark.parametrize("form", FORMS)
def test_the_advantage_is_f_minus_its_mean_under_the_policy(form):
    c, action, mean, std = setting(form)
    # split where the asymmetric form has its kink, by integrating over half lines with many nodes
    nodes, weights = np.linspace(-9.0, 9.0, 721), np.full(721, 18.0 / 720)
    density = np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi) * weights
    for b in range(len(c)):
        expected = 0.0
        for i, x in enumerate(nodes):
            if density[i] < 1e-12:
                continue
            inner = [
                coefficient_function(
                    form, c[b].numpy(), mean[b].numpy() + std.numpy() * [x, y], mean[b].numpy()
                )
                for y in nodes[::8]
            ]
            expected += density[i] * np.dot(inner, density[::8] * 8)
        f = coefficient_function(form, c[b].numpy(), action[b].numpy(), mean[b].numpy())
        advantage = FORMS[form](c[b : b + 1], action[b : b + 1], mean[b : b + 1], std)
        assert float(advantage[0]) == pytest.approx(f - expected, abs=2e-6)
        if b == 1:
            break


@pytest.mark.parametrize("form", FORMS)
def test_advantage_has_zero_mean_and_its_maximum_at_the_policy_mean(form):
    c, _, mean, std = setting(form, n=1, seed=3)
    nodes = np.linspace(-8.0, 8.0, 401)
    weights = np.exp(-0.5 * nodes**2)
    x, y = np.meshgrid(nodes, nodes)
    actions = mean + std * torch.tensor(np.stack([x.ravel(), y.ravel()], 1))
    many = len(actions)
    values = FORMS[form](c.expand(many, -1), actions, mean.expand(many, -1), std).numpy()
    share = np.outer(weights, weights).ravel() / weights.sum() ** 2
    assert share @ values == pytest.approx(0.0, abs=1e-4)
    assert share @ np.abs(values) > 0.1
    assert FORMS[form](c, mean, mean, std).item() == pytest.approx(values.max(), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_equal_finite_differences(form):
    c, action, mean, std = setting(form)
    assert torch.autograd.gradcheck(
        lambda c: FORMS[form](c, action, mean, std), (c.requires_grad_(),)
    )


def test_the_triangle_is_filled_row_by_row_with_a_positive_diagonal():
    lower = lower_triangular(torch.arange(6.0)[None] - 3.0, 3)[0]
    softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731
    expected = [[softplus(-3.0), 0, 0], [-2.0, softplus(-1.0), 0], [0.0, 1.0, softplus(2.0)]]
    np.testing.assert_allclose(lower.numpy(), expected, rtol=1e-6)

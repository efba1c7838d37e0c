import numpy as np
import pytest

from rl_agent import returns


def brute_force(rewards, values, rho, final_value, gamma):
    """Eq. 8 as the paper writes it, by recursion in double precision."""
    if len(rewards) == 0:
        return []
    following = brute_force(rewards[1:], values[1:], rho[1:], final_value, gamma)
    next_target = following[0] if following else final_value
    target = values[0] + min(1.0, rho[0]) * (rewards[0] + gamma * next_target - values[0])
    return [target, *following]


def episode(rng, length=40):
    return (
        rng.standard_normal(length).astype(np.float32),
        rng.standard_normal(length).astype(np.float32),
        rng.lognormal(0, 1, length).astype(np.float32),
    )


@pytest.mark.parametrize("final_value", [0.0, 3.5])
def test_sweep_equals_the_recursion(final_value):
    r, v, rho = episode(np.random.default_rng(0))
    target = returns.v_tbc(r, v, rho, final_value, 0.97)
    expected = brute_force(r.astype(float), v.astype(float), rho.astype(float), final_value, 0.97)
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-5)


def test_on_policy_targets_are_discounted_returns():
    r, v, _ = episode(np.random.default_rng(1))
    target = returns.v_tbc(r, v, np.ones_like(r), 2.0, 0.9)
    discounted = sum(0.9**k * x for k, x in enumerate(r)) + 0.9 ** len(r) * 2.0
    assert target[0] == pytest.approx(discounted, rel=1e-5)
    np.testing.assert_array_equal(target, returns.v_tbc(r, v, np.full_like(r, 50.0), 2.0, 0.9))


def test_impossible_actions_leave_the_value_alone():
    r, v, _ = episode(np.random.default_rng(2))
    np.testing.assert_array_equal(returns.v_tbc(r, v, np.zeros_like(r), 2.0, 0.9), v)

import numpy as np
import pytest
from learners import v_tbc

from rl_agent.replay import Episode, EpisodeMemory


def brute_force(rewards, values, rho, final_value, gamma, decay=1.0):
    """Eq. 8 as the paper writes it, by recursion in double precision; with the decay of Retrace(lambda)."""
    if len(rewards) == 0:
        return []
    following = brute_force(rewards[1:], values[1:], rho[1:], final_value, gamma, decay)
    next_target = decay * following[0] + (1 - decay) * values[1] if following else final_value
    target = values[0] + min(1.0, rho[0]) * (rewards[0] + gamma * next_target - values[0])
    return [target, *following]


def episode(rng, length=40):
    return (
        rng.standard_normal(length).astype(np.float32),
        rng.standard_normal(length).astype(np.float32),
        rng.lognormal(0, 1, length).astype(np.float32),
    )


@pytest.mark.parametrize(("final_value", "decay"), [(0.0, 1.0), (3.5, 1.0), (3.5, 0.8), (3.5, 0.0)])
def test_sweep_equals_the_recursion(final_value, decay):
    r, v, rho = episode(np.random.default_rng(0))
    target = v_tbc(r, v, rho, final_value, 0.97, decay=decay)
    expected = brute_force(
        r.astype(float), v.astype(float), rho.astype(float), final_value, 0.97, decay
    )
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-5)


def test_on_policy_targets_are_discounted_returns():
    r, v, _ = episode(np.random.default_rng(1))
    target = v_tbc(r, v, np.ones_like(r), 2.0, 0.9)
    discounted = sum(0.9**k * x for k, x in enumerate(r)) + 0.9 ** len(r) * 2.0
    assert target[0] == pytest.approx(discounted, rel=1e-5)
    np.testing.assert_array_equal(target, v_tbc(r, v, np.full_like(r, 50.0), 2.0, 0.9))


def test_impossible_actions_do_not_change_the_value():
    r, v, _ = episode(np.random.default_rng(2))
    np.testing.assert_array_equal(v_tbc(r, v, np.zeros_like(r), 2.0, 0.9), v)


def lambda_returns(rewards, values, final, gamma, gae_lambda, start=0):
    """V + A of one stored episode, whose first step is at the ring index ``start``."""
    length = len(rewards)
    memory = EpisodeMemory(length + 2, 1, 1, trace_decay=0.5)
    memory.storage.tail = start
    nothing = np.zeros((length, 1), np.float32)
    memory.add(
        Episode(nothing, nothing, nothing, nothing, rewards, values, nothing[0], final, False),
        0.5,
        1.0,
    )
    memory.values.rho[:] = 0.3  # of another policy: not asked for
    memory.values.estimate_advantages(gamma, gae_lambda, 1.0, standardise=False)
    indices = memory.storage.indices()
    returns, advantage = memory.values.v_tbc[indices], memory.values.advantage[indices]
    np.testing.assert_allclose(returns - memory.values.value[indices], advantage, atol=1e-6)
    return returns


@pytest.mark.parametrize("start", [0, 5])
def test_lambda_returns_are_the_weighted_mean_of_n_step_returns(start):
    """Schulman et al. 2016, eqs. 11 to 16: A = (1 - lambda) sum_n lambda^(n - 1) A^(n), up to the episode's end."""
    rng = np.random.default_rng(0)
    r, v = rng.normal(size=(2, 6))
    final, gamma, decay = 0.7, 0.9, 0.8
    targets = lambda_returns(r, v, final, gamma, decay, start)
    values = np.append(v, final)
    for t in range(6):
        left = 6 - t
        n_step = [
            sum(gamma**j * r[t + j] for j in range(n)) + gamma**n * values[t + n]
            for n in range(1, left + 1)
        ]
        shares = [(1 - decay) * decay ** (n - 1) for n in range(1, left)] + [decay ** (left - 1)]
        assert targets[t] == pytest.approx(np.dot(shares, n_step), abs=1e-5)


def test_lambda_one_is_discounted_return_and_lambda_zero_is_one_step():
    r, v = np.array([1.0, -2.0, 3.0]), np.array([5.0, 6.0, 7.0])
    np.testing.assert_allclose(lambda_returns(r, v, 0.0, 0.5, 1.0), [1 - 1 + 0.75, -2 + 1.5, 3.0])
    np.testing.assert_allclose(lambda_returns(r, v, 2.0, 0.5, 0.0), [1 + 3.0, -2 + 3.5, 3 + 1.0])

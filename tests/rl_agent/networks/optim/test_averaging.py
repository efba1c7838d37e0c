"""The policy that a learner returns is the average of recent policies."""

import numpy as np
import pytest
from learners import make_run
from scipy.special import comb

from rl_agent import AgentConfig, Learner, Policy
from rl_agent.networks.optim.averaging import EVERY

SHARE = 0.2


def test_policy_is_the_weighted_mean_of_recent_ones(tmp_path):
    """Compare with the closed-form sum over all averaged weights; bit for bit after resuming."""
    learner = (run := make_run(algorithm="sac", replay="none", policy_average=SHARE)).learner
    update, entered = learner.update, []

    def noting():
        update()
        if learner.gradient_steps % EVERY == 0:
            entered.append(learner.algorithm.weights[: learner.algorithm.actor.size].copy())

    learner.update = noting
    run.run(1500)
    number = 1 + np.arange(len(entered))
    shares = comb(number - 1, 4) / comb(len(entered), 5)  # a share of 1/5: polynomials of degree 4
    assert shares.sum() == pytest.approx(1.0)
    reach = (shares * (number[-1] - number)).sum() / number[-1]
    assert 0.5 * SHARE < reach < SHARE, "the average looks back about so far"
    expected = shares @ np.array(entered, np.float64)

    observations = np.random.default_rng(0).normal(size=(20, 2))
    policy = learner.policy()

    def with_weights(weights):
        rest = policy.state_mean, policy.state_per_std, policy.action_map
        return Policy(policy.config, policy.sizes, weights.astype(np.float32), *rest)

    newest, averaged = with_weights(entered[-1]), with_weights(expected)

    def acts(who):
        return who.act(observations, who.initial_state(20), deterministic=True)[0]

    np.testing.assert_allclose(acts(policy), acts(averaged), atol=1e-4)
    assert np.abs(acts(policy) - acts(newest)).max() > 1e-3

    learner.save(tmp_path / "checkpoint")
    policy.save(tmp_path / "policy")
    for place in ("checkpoint", "policy"):
        np.testing.assert_array_equal(acts(Policy.load(tmp_path / place)), acts(policy))
    again = Learner.load(tmp_path / "checkpoint")
    for each in (learner, again):
        for _ in range(2 * EVERY):
            each.update()
    np.testing.assert_array_equal(again.average.weights, learner.average.weights)
    assert np.abs(acts(again.policy()) - acts(policy)).max() > 0


def test_newest_policy_is_returned_without_averaging():
    learner = (run := make_run(algorithm="sac", replay="none")).learner
    run.run(600)
    assert learner.average is None
    size = learner.algorithm.actor.size
    np.testing.assert_array_equal(learner.policy().weights, learner.algorithm.weights[:size])


def test_policy_average_needs_a_replay_memory():
    with pytest.raises(ValueError, match="policy_average"):
        AgentConfig(algorithm="ppo", policy_average=0.1)

"""Every algorithm takes the discount factor from the sampled source, so a schedule applies to all of them."""

import numpy as np
import pytest
from learners import RULES, a_learner, loss_and_gradient

from rl_agent.replay import Source

CASES = [
    ("ddpg", {}, 0),
    ("naf", {}, 0),
    ("td3", {}, 0),
    ("sac", {}, 0),
    ("dqn", {}, 3),
    ("dqn", {"n_step": 3}, 3),
    ("acer", {"segment": 6, "episodes": 4}, 0),
    ("acer", {"segment": 6, "episodes": 4}, 3),
    ("tis", {"segment": 6, "episodes": 4}, 0),
    ("vracer", {}, 0),
]


def value_losses(algorithm, gamma_of_settings, gamma, choices, settings):
    """The value loss of one batch: by autograd, and as the update computes it."""
    common = {} if algorithm in ("acer", "tis") else {"batch_size": 16}
    learner = a_learner(
        algorithm, choices=choices, gamma=gamma_of_settings, **common | settings
    )  # fmt: skip
    scale, memory = learner.state_scale, learner.memory
    memory.values.sweep(0.7, 1.7)  # stored targets that do not depend on the settings
    source = Source(memory, scale.mean, scale.per_std, gamma, 1.7)
    samples = learner.sampler.sample(
        memory.storage, learner.config.sample_size, np.random.default_rng(1)
    )
    _, batch = learner.algorithm.gather(source, samples)
    state = learner.algorithm._rng.bit_generator.state
    rules = RULES._replace(rule_1=False)  # of all steps, near-policy or not
    _, results, _ = loss_and_gradient(learner.algorithm, batch, rules)
    learner.algorithm._rng.bit_generator.state = state
    evaluation = learner.algorithm.update(batch, 1e-4, rules)
    return float(results["value_loss"]), evaluation.value_loss


@pytest.mark.parametrize(("algorithm", "settings", "choices"), CASES)
def test_discount_factor_is_taken_from_the_sampled_source(algorithm, settings, choices):
    one = value_losses(algorithm, 0.9, 0.5, choices, settings)
    assert one == value_losses(algorithm, 0.6, 0.5, choices, settings)
    assert one[1] == pytest.approx(one[0], rel=1e-4)
    if algorithm != "vracer":  # whose value learns from stored targets
        assert one[0] != pytest.approx(
            value_losses(algorithm, 0.9, 0.9, choices, settings)[0], rel=1e-5
        )

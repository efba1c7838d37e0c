"""The reward scale: the root mean square of rewards, with a floor, checked by exact arithmetic."""

import numpy as np
import pytest
from learners import a_learner

from rl_agent.normalization.rewards import RewardScale
from rl_agent.normalization.states import EPSILON


def of(*rewards: float) -> np.ndarray:
    return np.array(rewards, np.float32)


def test_the_scale_is_the_root_mean_square():
    scale = RewardScale()
    assert scale.value == 1.0
    scale.measure(of(3.0, -4.0, 0.0, 0.0))  # 25 / 4
    assert scale.value == 2.5 + EPSILON
    scale.measure(of(0.5, -0.5))
    assert scale.value == 0.5 + EPSILON
    scale.measure(of(8.0, 8.0, 8.0))
    assert scale.value == 8.0 + EPSILON


@pytest.mark.parametrize("least", [0.5, 2.0**-20, 1e-30])
def test_scale_has_a_floor_of_a_tenth_of_its_maximum(least):
    scale = RewardScale()
    scale.measure(of(8.0, -8.0))
    scale.measure(of(least, least))
    assert scale.value == 0.1 * (8.0 + EPSILON)
    scale.measure(of(1.0, 1.0))  # above the floor
    assert scale.value == 1.0 + EPSILON


def test_the_floor_is_in_units_of_the_rewards():
    """Rewards that are small from the beginning are scaled like any others."""
    small, large = RewardScale(), RewardScale()
    for rewards in (of(4.0, 4.0), of(0.25, 0.25), of(1.0, 0.0)):
        large.measure(rewards)
        small.measure(rewards * 2.0**-10)
        assert small.value == pytest.approx(large.value * 2.0**-10, abs=1.1 * EPSILON)


def test_shrinking_action_cost_is_not_amplified_without_bound():
    """Rewards of MountainCarContinuous away from its goal are -0.1 a^2: as a fell, the scale fell like a^2."""
    scale, action = RewardScale(), np.full(64, 0.5, np.float32)
    prices = []
    for _ in range(20):
        reward = -0.1 * action**2
        scale.measure(reward)
        prices.append(float(-reward[0]) / scale.value)
        action /= 2.0
    assert prices[0] == pytest.approx(1.0, rel=1e-5)
    # unfloored, all of them would be 1
    assert prices[1] == pytest.approx(1.0, rel=1e-4)  # a quarter of the first is above the floor
    for k in range(2, 20):
        assert prices[k] == pytest.approx(10.0 * 0.25**k, rel=1e-4)


def test_memory_without_rewards_keeps_the_scale():
    scale = RewardScale()
    scale.measure(of(0.0, 0.0))
    assert scale.value == 1.0
    scale.measure(of(2.0, 2.0))
    scale.measure(of(0.0, 0.0))
    assert scale.value == 2.0 + EPSILON


def test_scale_of_all_rewards_so_far_has_the_floor():
    scale = RewardScale()
    scale.accumulate(of(6.0, -6.0))
    assert scale.value == 6.0 + EPSILON
    scale.accumulate(np.zeros(2 * 99, np.float32))  # 72 / 200
    assert scale.value == pytest.approx(0.6 + EPSILON, abs=1e-12)
    scale.accumulate(np.zeros(200, np.float32))  # 72 / 400, whose root is 0.42
    assert scale.value == 0.1 * (6.0 + EPSILON)


def test_learner_uses_the_floored_scale_and_stores_its_maximum(tmp_path):
    learner = a_learner("vracer")
    learner.reward_scale.measure(of(5.0, 5.0))
    learner.reward_scale.measure(of(1e-3, 1e-3))
    assert learner.reward_scale.value == 0.1 * (5.0 + EPSILON)
    learner.save(tmp_path / "checkpoint")
    again = type(learner).load(tmp_path / "checkpoint")
    again.sweep_memory()  # of rewards of about 1
    assert again.reward_scale.value > 0.5
    again.reward_scale.measure(of(1e-4, 1e-4))
    assert again.reward_scale.value == 0.1 * (5.0 + EPSILON)

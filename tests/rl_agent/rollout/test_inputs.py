import numpy as np
import pytest

from rl_agent.normalization.spaces import Sizes
from rl_agent.rollout.inputs import Inputs


def test_agents_must_exist_and_be_distinct():
    inputs = Inputs(3, Sizes(2, 1))
    np.testing.assert_array_equal(inputs.agents([2, 0]), [2, 0])
    np.testing.assert_array_equal(inputs.agents(1), [1])
    with pytest.raises(ValueError, match=r"agent 3 does not exist: there are 3"):
        inputs.agents([0, 3])
    with pytest.raises(ValueError, match="must be distinct"):
        inputs.agents([1, 1])


def test_observations_must_fit_and_be_finite():
    inputs = Inputs(3, Sizes(2, 1))
    with pytest.raises(ValueError, match=r"shape \(1, 3\), expected \(1, 2\)"):
        inputs.observations(np.array([1]), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="agent 2 sent an observation that is not finite"):
        inputs.observations(np.array([1, 2]), [[0.0, 0.0], [np.inf, 0.0]])


def test_agents_of_an_environment_are_contiguous():
    inputs = Inputs(4, Sizes(3, 1, agents_per_env=2))
    numbers = np.array([3, 0])
    np.testing.assert_array_equal(inputs.members(numbers), [6, 7, 0, 1])
    seen = np.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(inputs.observations(numbers, seen), seen)
    with pytest.raises(ValueError, match="agent 0 sent an observation that is not finite"):
        inputs.observations(numbers, np.where(seen == 11.0, np.inf, seen))
    assert not inputs.ended(numbers, None).any()
    with pytest.raises(ValueError, match=r"rewards have shape \(2,\), expected \(2, 2\)"):
        inputs.rewards(numbers, [1.0, 2.0])

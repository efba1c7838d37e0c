import numpy as np
import pytest

from rl_agent.multi_agent.joint import pack
from rl_agent.rollout.inputs import Inputs


def test_agents_must_exist_and_be_distinct():
    inputs = Inputs(3, 1, 2)
    np.testing.assert_array_equal(inputs.agents([2, 0]), [2, 0])
    np.testing.assert_array_equal(inputs.agents(1), [1])
    with pytest.raises(ValueError, match=r"agent 3 does not exist: there are 3"):
        inputs.agents([0, 3])
    with pytest.raises(ValueError, match="must be distinct"):
        inputs.agents([1, 1])


def test_observations_must_fit_and_be_finite():
    inputs = Inputs(3, 1, 2)
    with pytest.raises(ValueError, match=r"shape \(1, 3\), expected \(1, 2\)"):
        inputs.observations(np.array([1]), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="agent 2 sent an observation that is not finite"):
        inputs.observations(np.array([1, 2]), [[0.0, 0.0], [np.inf, 0.0]])


def test_members_stand_next_to_each_other_and_are_unpacked_in_their_order():
    inputs = Inputs(4, 2, 3)
    np.testing.assert_array_equal(inputs.members(np.array([3, 0])), [6, 7, 0, 1])
    seen = np.arange(6.0).reshape(2, 3)
    joint = inputs.observations(np.array([0]), pack(seen, [0.5, -1.0], [False, True])[None])
    observations, rewards, ended = inputs.unpack(joint)
    np.testing.assert_array_equal(observations, seen)
    np.testing.assert_array_equal(rewards, [0.5, -1.0])
    np.testing.assert_array_equal(ended, [False, True])

"""The controllers that learners are measured against."""

import numpy as np
import pytest

from cases.baselines import PD, PDController, RandomController, ZeroController, baselines


def test_baselines_available_per_task():
    assert set(baselines("flowsim/DCylinderWake-v0")) == {"zero", "random", "pd"}
    assert set(baselines("cases:flowsim/EllipticalSwimmer-v0")) == {"zero", "random", "pd"}
    assert set(baselines("InvertedPendulum-v5", action_size=1)) == {"zero", "random"}


def test_shapes_and_ranges():
    observations = np.random.default_rng(0).normal(size=(5, 14)).astype(np.float32)
    for controller in (ZeroController(), RandomController(seed=1), *PD.values()):
        controller.reset(5)
        actions = controller(observations)
        assert actions.shape == (5, 3)
        assert actions.dtype == np.float32
        assert (np.abs(actions) <= 1.0).all()


def test_pd_is_linear_feedback():
    controller = PDController((0.5, 0.25), (0.1, 0.2), 0.3, 0.4, goal=(1.0, 0.0), bias=(0.05, 0.0))
    observation = np.zeros((1, 14))
    observation[0, :6] = 0.8, 0.4, 0.5, -0.3, 0.1, -0.25
    expected = [0.5 * 0.2 + 0.1 * 0.3 + 0.05, -0.25 * 0.4 - 0.2 * 0.1, -0.3 * 0.5 + 0.4 * 0.25]
    np.testing.assert_allclose(controller(observation)[0], expected, rtol=1e-6)
    observation[0, 2] += np.pi  # half a turn leaves an ellipse as it is
    np.testing.assert_allclose(controller(observation)[0], expected, rtol=1e-6)


@pytest.mark.slow
def test_pd_reaches_the_target(make_vec):
    env = make_vec("flowsim/EllipticalSwimmer-v0", num_envs=4)
    observations, _ = env.reset(seed=0)
    for _ in range(40):
        observations, _, terminated, _, _ = env.step(
            PD["flowsim/EllipticalSwimmer-v0"](observations)
        )
        assert not terminated.any()
    assert (np.hypot(*observations[:, :2].T) < 0.3).all()

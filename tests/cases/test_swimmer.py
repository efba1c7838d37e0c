"""The elliptical swimmer: target, rewards, ends, streams and vortices."""

import numpy as np
import pytest

ID = "flowsim/EllipticalSwimmer-v0"


def test_observation_points_to_the_target(make):
    env = make(ID)
    observation, _ = env.reset(seed=0)
    body = env.task.simulation.body_state.position[0, 0]
    np.testing.assert_allclose(body + observation[:2], env.task.memory["target"][0], rtol=1e-6)
    assert np.hypot(*observation[:2]) >= 0.5
    np.testing.assert_array_equal(observation[3:], 0.0)  # still water, at rest


def test_reward_is_progress_minus_effort(make):
    env = make(ID)
    before, _ = env.reset(seed=0)
    action = np.array([0.5, -0.5, 0.2])
    after, reward, _, _, _ = env.step(action)
    progress = np.hypot(*before[:2]) - np.hypot(*after[:2])
    assert reward == pytest.approx(progress - 0.05 * (0.25 + 0.25 + 0.04), abs=1e-6)


def test_bonus_within_a_tenth_of_a_length(make):
    env = make(ID)
    env.reset(seed=0)
    env.task.memory["target"][0] = env.task.simulation.body_state.position[0, 0] + (0.05, 0.0)
    env.task.memory["distance"][0] = 0.05
    assert env.step(np.zeros(3))[1] == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "alive"),
    [(0.51, 2.0, True), (0.49, 2.0, False), (2.0, 3.51, False), (3.49, 3.49, True)],
)
def test_failure_at_the_edges_of_the_box(make, x, y, alive):
    simulation = make(ID).task.simulation
    simulation.body_state.position[:, 0] = x, y
    assert simulation.advance(1e-6)[0] != alive


def test_leaving_the_box_costs_ten(make):
    env = make(ID)
    env.reset(seed=0)
    env.task.simulation.body_state.position[:, 0] = 3.499, 2.0
    env.task.simulation.body_state.angle[:, 0] = 0.0
    _, reward, terminated, _, _ = env.step(np.array([1.0, 0.0, 0.0]))
    assert (reward, terminated) == (-10.0, True)


def test_a_stream_carries_the_body_along(make):
    env = make(ID, stream=0.5)
    env.reset(seed=0)
    env.step(np.zeros(3))
    assert env.task.simulation.body_state.velocity[0, 0, 0] > 0.1


def test_a_vortex_turns_the_water(make):
    env = make(ID, vortex=2.0, cells_per_diameter=16)
    env.reset(seed=0)
    points = np.array([[[2.0, 3.4], [2.0, 0.6]]])
    above, below = env.task.simulation.sample_velocity(points)[0, :, 0]
    assert above < -0.05
    assert below > 0.05

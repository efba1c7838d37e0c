"""The pitching foil: rules of Gymnasium, gusts, kinematics of the pitch, reward, restarts, baselines."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from env_checks import check_api, check_batch, check_saved

from cases.baselines import LinearController, baselines
from cases.options import preset_names
from cases.pitching_foil import env as foil
from rl_agent.rollout.seeds import Purpose, episode_seed

TASK = "flowsim/PitchingFoil-v0"
TINY = {"cells_per_diameter": 8}


@pytest.fixture(scope="module", autouse=True)
def _short_development():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(foil, "DEVELOPMENT", replace(foil.DEVELOPMENT, time=2.0))
        yield


def make(**options):
    return gymnasium.make(TASK, **(TINY | options)).unwrapped


def test_follows_the_gymnasium_api():
    check_api(make())


def test_batch_equals_single_environments_including_gusts():
    batch = check_batch(TASK, TINY | {"episode_actions": 6}, actions=8)
    assert (batch.unwrapped.task.memory["gusts"][:, :, 0] != 0.0).any(axis=1).all()


def test_restored_environment_continues_with_the_same_gusts():
    check_saved(make(), make(), actions=12)


def test_gusts_are_one_to_three_apart_and_differ_between_purposes():
    task = make(episode_actions=400).task
    drawn = {}
    for purpose in Purpose:
        random = gymnasium.utils.seeding.np_random(episode_seed(purpose, 0, 0))[0]
        drawn[purpose] = gusts = task.draw(random)
        at = 0.2 * np.flatnonzero(gusts[:, 0])
        assert at[0] < 1.0
        assert np.diff(at).min() >= 0.8 - 1e-9
        assert np.diff(at).max() <= 3.2 + 1e-9
        assert 0.5 < np.abs(gusts[:, 0]).max() <= 0.8
        assert np.abs(gusts[:, 1]).max() <= 0.25
    first, *others = drawn.values()
    assert all((first != gusts).any() for gusts in others)


def test_gust_is_divergence_free_and_has_the_given_speed():
    env = make(cells_per_diameter=16, dtype="float64", gust_speed=0.0)
    env.reset(seed=0)
    sim = env.task.simulation
    before, (u, v) = sim.max_divergence()[0], (sim.u.copy(), sim.v.copy())
    foil.add_gust(sim, 0, 0.5, 0.125, 0.25)
    assert sim.max_divergence()[0] == pytest.approx(before, abs=1e-12)
    x, y = sim.grid.v_faces()
    middle = np.argmin((x - 1.25) ** 2 + (y - 2.125) ** 2)
    assert (sim.v - v)[0].ravel()[middle] == pytest.approx(0.5, rel=0.03)
    assert np.abs((sim.u - u)[0]).max() < 0.5
    # it vanishes at the foil and at the sides
    assert np.abs((sim.v - v)[0][x > 2.25]).max() < 0.02
    assert np.abs((sim.v - v)[0][x < 0.0]).max() < 0.005


def test_an_action_is_an_acceleration_within_the_bounds():
    env = make(gust_speed=0.0, episode_actions=60)
    env.reset(seed=0)
    state, start = env.task.simulation.body_state, -np.radians(10.0)
    env.step(np.array([0.5], np.float32))
    assert state.angular_velocity[0, 0] == pytest.approx(0.2)
    assert state.angle[0, 0] - start == pytest.approx(0.5 * 0.2 * 0.2, abs=1e-3)
    for command in (1.0, -1.0):
        for _ in range(20):
            seen, *_ = env.step(np.array([command], np.float32))
            assert abs(state.angular_velocity[0, 0]) <= 1.0 + 1e-9
            assert abs(state.angle[0, 0] - start) <= np.radians(30.0) + 1e-9
        assert seen[1] == pytest.approx(state.angle[0, 0] - start, abs=1e-6)
        assert command * seen[1] > 0.4


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("hard", [3, 9])
def test_foil_brakes_before_its_largest_angle_with_the_allowed_acceleration(sign, hard):
    """Whether the agent stops accelerating itself or not."""
    env = make(gust_speed=0.0, episode_actions=60)
    env.reset(seed=0)
    state, start, angles, rates = env.task.simulation.body_state, -np.radians(10.0), [], [0.0]
    env.episodes.watch = lambda sim: angles.append(state.angle[0, 0] - start)
    for command in [sign] * hard + [0.0] * (12 - hard):
        env.step(np.array([command], np.float32))
        rates.append(sign * state.angular_velocity[0, 0])
    assert np.abs(np.diff(rates)).max() <= 2.0 * 0.2 + 1e-9
    assert min(rates) >= -1e-9, "it does not bounce back"
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)
    assert np.abs(angles).max() <= np.radians(30.0) + 1e-9
    assert sign * angles[-1] == pytest.approx(np.radians(30.0), abs=1e-6)


def test_actions_far_from_the_largest_angle_are_not_limited():
    env = make(gust_speed=0.0, acceleration=0.5)
    env.reset(seed=0)
    state, rate = env.task.simulation.body_state, 0.0
    for command in (1.0, 0.3, -0.7, -1.0):
        env.step(np.array([command], np.float32))
        rate += 0.2 * 0.5 * float(np.float32(command))
        assert state.target_angular_velocity[0, 0] == pytest.approx(rate, abs=1e-15)


def test_reward_is_minus_lift_deviation_minus_action_cost():
    env = make(lift_reference=0.3, effort_weight=0.5)
    env.reset(seed=1)
    seen, reward, *_, info = env.step(np.array([0.4], np.float32))
    deviation = info["measures"]["C_L"] - 0.3
    assert reward == pytest.approx(-(deviation**2) - 0.5 * 0.16, rel=1e-5)
    assert seen[0] == pytest.approx(deviation, rel=1e-5)
    assert seen[9] == pytest.approx(0.4)
    assert info["measures"]["angle of attack"] == pytest.approx(
        10.0 - np.degrees(seen[1]), abs=1e-4
    )


def test_nose_up_increases_the_lift():
    """The lift of a foil held at a larger angle for a while increases as in inviscid flow."""
    lifts = []
    for degrees in (5.0, 15.0):
        env = make(degrees=degrees, gust_speed=0.0)
        env.reset(seed=0)
        for _ in range(5):
            *_, info = env.step(np.zeros(1, np.float32))
        lifts.append(info["measures"]["C_L"])
    assert lifts[1] > lifts[0] + 0.1


def test_presets_make_valid_environments():
    for preset in preset_names(foil.PitchingFoil.folder):
        env = gymnasium.make(TASK, preset=preset, **TINY)
        assert env.reset(seed=0)[0] in env.observation_space


def test_baselines_have_the_shape_of_the_action():
    shipped = baselines(TASK, 1)
    assert {"zero", "random", "linear_feedback"} <= set(shipped)
    for controller in shipped.values():
        controller.reset(3)
        actions = controller(np.ones((3, 10), np.float32))
        assert (actions.shape, actions.dtype) == ((3, 1), np.float32)
        assert (np.abs(actions) <= 1.0).all()


def test_linear_controller_applies_its_gains():
    seen = np.array([[0.1, 0.2, 0.3], [1.0, 0.0, 5.0]], np.float32)
    same = LinearController((0, 2), (1.0, -1.0))
    np.testing.assert_allclose(same(seen)[:, 0], [-0.2, -1.0], atol=1e-6)
    own = LinearController((0, 1), [[1.0, 0.0], [0.5, 9.0]], action_size=2)
    np.testing.assert_allclose(own(seen), [[0.1, 0.0], [0.5, 0.0]], atol=1e-6)

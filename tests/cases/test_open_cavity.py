"""The open cavity: Gymnasium API, steady flow, sensors, reward, restarts, presets."""

from dataclasses import replace
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from env_checks import check_api, check_batch, check_saved

from cases.open_cavity import env as cavity
from cases.options import preset_names
from flowsim.grid import GHOSTS

TASK = "flowsim/OpenCavity-v0"
TINY = {"cells_per_diameter": 20}


@pytest.fixture(scope="module", autouse=True)
def _short_development():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cavity, "DEVELOPMENT", replace(cavity.DEVELOPMENT, time=3.0, spacing=0.2))
        patch.setattr(cavity, "STEADY", replace(cavity.STEADY, time=10.0))
        yield


def make(**options):
    return gymnasium.make(TASK, **(TINY | options)).unwrapped


def test_follows_the_gymnasium_api():
    check_api(make())


def test_batch_equals_single_environments_bit_for_bit():
    check_batch(TASK, TINY | {"episode_actions": 4}, actions=6)


def test_restored_environment_continues_bit_for_bit():
    check_saved(make(), make(), actions=5)


def test_training_validation_and_test_episodes_start_from_different_flows():
    task, first = make().task, []
    for seed in (0, 2**31, 3 * 2**30):
        task.start(np.ones(1, bool), {0: gymnasium.utils.seeding.np_random(seed)[0]})
        first.append(np.asarray(task.simulation.u[0]).copy())
    assert all((one != other).any() for one, other in pairwise(first))
    assert task.held_out_states == 10


def steady_task(**options):
    """Return a task whose flow is the steady flow."""
    env = make(**options)
    env.reset(seed=0)
    task = env.task
    task.simulation.restore_states([0], task.steady_state(), [0])
    task.simulation.settle()
    return task


@pytest.mark.parametrize(("sensors", "size"), [("shear", 1), ("mouth", 8), ("both", 9)])
def test_observation_and_reward_are_zero_in_the_steady_flow(sensors, size):
    task = steady_task(sensors=sensors)
    assert task._deviation().shape == (1, size)
    assert (task._deviation() == 0.0).all()
    assert task.energy()[0] == 0.0
    assert task.reward(np.zeros((1, 1)))[0] == 0.0
    assert task.observation_space.shape == (3 * (size + 1),)


def test_the_steady_flow_is_steadier_than_the_flow_without_damping():
    env = make()
    env.reset(seed=0)
    rates = {}
    for name, sim in (("steady", steady_task().simulation), ("natural", env.task.simulation)):
        before = np.asarray(sim.u[0], float).copy()
        sim.advance(0.2)
        rates[name] = np.abs(np.asarray(sim.u[0], float) - before).mean()
    assert rates["steady"] < 0.5 * rates["natural"]


def test_shear_is_taken_from_the_first_cell_above_the_wall():
    task = make(sensors="shear", past=1, cells_per_diameter=40).task
    sim, h = task.simulation, 1.0 / 40.0
    sim.set_velocity(0, 0.0, 0.0)
    x, y = sim.grid.u_faces()
    sim.set_velocity(0, np.where(y > cavity.DEPTH, 7.0 * (y - cavity.DEPTH), 0.0) + 0.0 * x, 0.0)
    assert task._sense()[0] == pytest.approx(7.0, rel=1e-3)
    assert task._height == h / 2


def test_stream_enters_only_above_the_wall_and_equals_the_outflow():
    env = make(cells_per_diameter=40)
    env.reset(seed=0)
    sim, n = env.task.simulation, 40
    u = np.asarray(sim.u[0], float)[:, GHOSTS:-GHOSTS]
    y = (np.arange(u.shape[1]) + 0.5) / n
    np.testing.assert_allclose(u[GHOSTS], np.where(y > cavity.DEPTH, 1.0, 0.0), atol=1e-6)
    for x in (0.2, 0.9, 1.8, 2.4):
        assert u[GHOSTS + round(x * n)].sum() / n == pytest.approx(cavity.HEIGHT, rel=2e-3)


def test_jet_reaches_the_commanded_flow_rate_within_an_action():
    env = make(flow_rate=0.004)
    env.reset(seed=1)
    for command in (1.0, -0.5):
        *_, info = env.step(np.array([command], np.float32))
        assert info["measures"]["flow rate"] == pytest.approx(0.004 * command)


def test_reward_is_minus_energy_minus_action_cost():
    task, n = steady_task(energy_depth=0.2, energy_reference=0.02, effort_weight=0.5), 20
    sim = task.simulation
    window = (
        0,
        slice(GHOSTS + round(0.4 * n), -GHOSTS),
        slice(GHOSTS + round(0.8 * n), -GHOSTS),
    )
    before = [np.array(field[window], float) for field in (sim.u, sim.v)]
    sim.advance(0.5)
    after = [np.array(field[window], float) for field in (sim.u, sim.v)]
    energy = sum(0.5 * ((b - a) ** 2).sum() / n**2 for a, b in zip(before, after, strict=True))
    assert energy > 0.0
    assert task.energy()[0] == pytest.approx(energy, rel=1e-6)
    assert task.reward(np.array([[0.4]]))[0] == pytest.approx(-energy / 0.02 - 0.08, rel=1e-5)


def test_presets_make_valid_environments():
    for preset in preset_names(cavity.OpenCavity.folder):
        env = gymnasium.make(TASK, preset=preset, **TINY)
        assert env.reset(seed=0)[0] in env.observation_space


def test_a_picture_shows_the_deviation_from_the_steady_flow():
    env = make()
    env.reset(seed=0)
    simulation, scene = env.task.simulation, env.task.scene(0)
    vorticity = simulation.vorticity(0).copy()
    simulation.restore_states([0], env.task.steady_state(), [0])
    simulation.settle()
    np.testing.assert_allclose(scene.values, vorticity - simulation.vorticity(0), atol=1e-4)
    assert np.abs(scene.values).max() > 0.01

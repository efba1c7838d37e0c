"""The backward-facing step: rules of Gymnasium, the steady flow, noise, sensors, reward, restarts, presets."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from env_checks import check_api, check_batch, check_saved

from cases.backward_step import env as step
from cases.disturbances import vertical_jet
from cases.options import preset_names
from flowsim.grid import GHOSTS
from flowsim.measure.fields import divergence
from rl_agent.rollout.seeds import Purpose, episode_seed

TASK = "flowsim/BackwardStep-v0"
TINY = {"cells_per_diameter": 8}


@pytest.fixture(scope="module", autouse=True)
def _short_development():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "DEVELOPMENT", replace(step.DEVELOPMENT, time=10.0))
        yield


def make(**options):
    return gymnasium.make(TASK, **(TINY | options)).unwrapped


def test_follows_the_gymnasium_api():
    check_api(make())


def test_batch_equals_single_environments_including_noise():
    batch = check_batch(TASK, TINY | {"episode_actions": 4}, actions=6)
    assert (batch.unwrapped.task.memory["noise"] != 0.0).all()


def test_restored_environment_continues_with_the_same_noise():
    check_saved(make(), make(), actions=5)


def test_noise_is_normal_white_and_differs_between_purposes():
    task = make(episode_actions=4000, noise_speed=0.1).task
    drawn = [
        task.draw(gymnasium.utils.seeding.np_random(episode_seed(purpose, 0, 0))[0])
        for purpose in Purpose
    ]
    for noise in drawn:
        assert noise.mean() == pytest.approx(0.0, abs=0.005)
        assert noise.std() == pytest.approx(0.1, rel=0.05)
        assert abs((noise[1:] * noise[:-1]).mean()) < 0.06 * 0.1**2
    assert all((drawn[0] != other).any() for other in drawn[1:])


def test_impulse_is_divergence_free_and_has_the_given_speed():
    env = make(cells_per_diameter=20, dtype="float64", noise_speed=0.0)
    env.reset(seed=0)
    sim = env.task.simulation
    before, u, v = divergence(sim), sim.u.copy(), sim.v.copy()
    sim.add_velocity(0, *vertical_jet(sim.grid, step.NOISE, step.NOISE_SIZE, 0.3))
    along_x, along_y = (sim.u - u)[0], (sim.v - v)[0]
    # what would cross walls or the inflow is left out, and the next projection corrects the cells along them
    np.testing.assert_allclose(divergence(sim)[1:, 1:-1], before[1:, 1:-1], atol=1e-12)
    assert np.abs(divergence(sim)[:, -1]).max() < 0.3 * 0.05 / sim.grid.h
    x, y = sim.grid.v_faces()
    middle = np.argmin((x - step.NOISE[0]) ** 2 + (y - step.NOISE[1]) ** 2)
    assert along_y.ravel()[middle] == pytest.approx(0.3, rel=0.05)
    # it nearly vanishes at the walls of the inlet, at the inflow and over the slot
    away = (y <= 1.0) | (y >= 2.0) | (x < 0.1) | (x > 2.0)
    assert np.abs(along_y[away]).max() < 0.3 * 0.05
    below = np.broadcast_to(sim.grid.u_faces()[1] < 1.0, u[0].shape)
    assert np.abs(along_x[below]).max() < 0.3 * 0.1


def test_inflow_above_the_step_is_a_parabola_and_equals_the_outflow():
    env = make(cells_per_diameter=16, noise_speed=0.0)
    env.reset(seed=0)
    sim = env.task.simulation
    h = sim.grid.h
    u = np.asarray(sim.u[0], float)
    inside = slice(GHOSTS, -GHOSTS)
    entering = u[GHOSTS, inside]
    y = (np.arange(32) + 0.5) * h
    np.testing.assert_allclose(
        entering, np.where(y > 1.0, 4.0 * (y - 1.0) * (2.0 - y), 0.0), atol=1e-6
    )
    # the whole flow rate passes the slot, the edge and the outlet
    for x in (2.6, 3.0, 15.0, 27.0):
        assert u[GHOSTS + round(x / h), inside].sum() * h == pytest.approx(
            entering.sum() * h, rel=2e-3
        )
    over, under = (u[GHOSTS + round(2.0 / h), inside][y > 1.0], u[GHOSTS + 20, inside])
    assert over.max() == pytest.approx(1.0, abs=0.05)
    assert np.abs(under[y < 0.9]).max() < 0.02


def test_observation_and_reward_are_zero_without_noise_and_jet():
    # only nearly: after 10 h/U this coarse flow is not quite steady
    for sensors in ("upstream", "both", "shear"):
        env = make(noise_speed=0.0, sensors=sensors)
        seen, _ = env.reset(seed=1)
        assert np.abs(seen).max() < 1e-6
        assert env.task.energy()[0] == 0.0
    quiet = make(noise_speed=0.0, past=1, sensors="upstream")
    quiet.reset(seed=1)
    seen, _, *_, info = quiet.step(np.zeros(1, np.float32))
    loud = make(noise_speed=0.2, past=1, sensors="upstream")
    loud.reset(seed=1)
    heard, _, *_, noisy = loud.step(np.zeros(1, np.float32))
    assert np.abs(heard).max() > 10.0 * np.abs(seen).max()
    assert noisy["measures"]["energy"] > 0.0
    assert info["measures"]["flow rate"] == 0.0


def test_jet_is_sensed_behind_the_edge_and_hardly_upstream():
    felt, behind = {}, {}
    for command in (0.0, 1.0):
        env = make(
            noise_speed=0.0, past=1, flow_rate=0.05, cells_per_diameter=16, sensors="upstream"
        )
        env.reset(seed=1)
        env.step(np.array([command], np.float32))
        felt[command] = env.step(np.array([0.0], np.float32))[0][:-1]
        places = np.array([[[step.INLET + x, 1.2] for x in (0.2, 0.5, 0.8)]])
        behind[command] = env.task.simulation.sample_velocity(places)
    upstream = np.abs(felt[1.0] - felt[0.0])
    assert upstream[:6].max() < upstream[6:].max() < 0.03  # the pressure acts there too
    assert np.abs(behind[1.0] - behind[0.0]).max() > upstream.max()


def test_jet_reaches_the_commanded_flow_rate_within_an_action():
    env = make(flow_rate=0.01)
    env.reset(seed=1)
    for command in (1.0, -0.5):
        *_, info = env.step(np.array([command], np.float32))
        assert info["measures"]["flow rate"] == pytest.approx(0.01 * command)


def test_reward_is_minus_energy_minus_action_cost():
    env = make(energy_reference=0.02, effort_weight=0.5, energy_length=10.0, noise_speed=0.2)
    env.reset(seed=1)
    sim, n = env.task.simulation, 8
    first = GHOSTS + 3 * n
    window = (0, slice(first, first + 10 * n), slice(GHOSTS, -GHOSTS))
    before = [np.array(field[window], float) for field in (sim.u, sim.v)]
    for _ in range(6):
        _, reward, *_, info = env.step(np.array([0.4], np.float32))
    after = [np.array(field[window], float) for field in (sim.u, sim.v)]
    energy = sum(0.5 * ((b - a) ** 2).sum() / n**2 for a, b in zip(before, after, strict=True))
    assert energy > 0.0
    assert info["measures"]["energy"] == pytest.approx(energy, rel=1e-6)
    assert reward == pytest.approx(-energy / 0.02 - 0.5 * 0.16, rel=1e-5)


def test_presets_make_valid_environments():
    for preset in preset_names(step.BackwardStep.folder):
        env = gymnasium.make(TASK, preset=preset, **TINY)
        assert env.reset(seed=0)[0] in env.observation_space


def test_picture_shows_only_the_deviation_from_the_steady_flow():
    env = make()
    env.reset(seed=0)
    before, vorticity = env.task.scene(0), env.task.simulation.vorticity(0).copy()
    assert not before.values.any()
    assert np.abs(vorticity).max() > 1.0
    assert (before.quantity.name, before.quantity.limit) == ("deviation of vorticity", 0.3)
    env.step([0.0])
    after = env.task.scene(0).values
    np.testing.assert_allclose(after, env.task.simulation.vorticity(0) - vorticity)
    assert 0.01 < np.abs(after).max() < 3.0

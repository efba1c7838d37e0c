"""Convection with heaters: APIs, initial states, heaters, rewards, baselines."""

import pickle
import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from env_checks import check_api, check_batch

from cases.actuators import Heaters
from cases.baselines import NAMED, above_heaters, baselines
from cases.initial_flows import SEEDS, Development
from cases.options import preset_names
from cases.rayleigh_benard import env as convection
from coupling.evaluation.pool import EvaluationPool
from flowsim import Grid, Sides, Simulation, Temperature, nusselt_number, volume_nusselt_number
from rl_agent.rollout.seeds import Purpose

ID = "flowsim/RayleighBenard-v0"
TINY = {"cells_per_height": 12, "episode_actions": 3, "action_time": 0.3}


@pytest.fixture(scope="module", autouse=True)
def _short_development():
    with pytest.MonkeyPatch.context() as patch:
        short = replace(convection.DEVELOPMENT, time=4.0, snapshots=6, spacing=0.5)
        patch.setattr(convection, "DEVELOPMENT", short)
        yield


def test_follows_the_gymnasium_api():
    check_api(gymnasium.make(ID, **TINY).unwrapped)


def test_follows_the_pettingzoo_api():
    tests = pytest.importorskip(
        "pettingzoo.test", reason="PettingZoo is not installed: pip install 'flowsim-rl[sisl]'"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests.parallel_api_test(convection.parallel_env(**TINY), num_cycles=6)
        tests.parallel_seed_test(lambda: convection.parallel_env(**TINY), num_cycles=6)


def test_batch_equals_single_environments_bit_for_bit():
    check_batch(ID, TINY, actions=5, seeds=(4, 2**31, 3 * 2**30))


def test_restored_state_and_pickle_continue_bit_for_bit():
    env = gymnasium.make(ID, **TINY).unwrapped
    env.reset(seed=5)
    action = np.linspace(-1, 1, 10, dtype=np.float32)
    env.step(action)
    other, copied = gymnasium.make(ID, **TINY).unwrapped, pickle.loads(pickle.dumps(env))
    other.set_state(env.get_state())
    expected = env.step(-action)
    for twin in (other, copied):
        seen, reward, *_ = twin.step(-action)
        np.testing.assert_array_equal(seen, expected[0])
        assert reward == expected[1]


def test_presets_make_valid_environments():
    folder = gymnasium.make(ID, **TINY).unwrapped.task.folder
    for preset in preset_names(folder):
        env = gymnasium.make(ID, preset=preset, cells_per_height=12)
        assert env.reset(seed=0)[0] in env.observation_space
    with pytest.raises(ValueError, match="'cells_per_height' is 13, but must be even"):
        gymnasium.make(ID, cells_per_height=13)
    with pytest.raises(TypeError, match="reynolds"):
        gymnasium.make(ID, reynolds=100)


def test_training_validation_and_test_seeds_have_different_states():
    env = gymnasium.make(ID, **TINY).unwrapped
    seen = {}
    for purpose, seeds in SEEDS.items():
        for n in range(4):
            seen[purpose, n] = env.reset(seed=seeds.start + n)[0]
    assert len({values.tobytes() for values in seen.values()}) == 12
    development = Development(time=1.0, snapshots=30, split=True)
    for seed in (2**31 + 3, 2**31 + 14):
        generator = gymnasium.utils.seeding.np_random(seed)[0]
        env.task.draw(generator)
        assert development.draw(generator) == 20 + seed % 10, "the shift takes nothing from it"


def test_held_out_states_are_used_in_turn():
    with EvaluationPool(ID, TINY, processes=1, purpose=Purpose.EVALUATION) as pool:
        found = pool.play(baselines(ID, 10)["zero"], 4, 0)
    # shifted copies of two states: without heaters the same returns, but for rounding
    np.testing.assert_allclose(found.returns[:2], found.returns[2:], rtol=1e-4)
    assert abs(found.returns[0] - found.returns[1]) > 1e-4


def test_shifted_start_is_the_shifted_flow_of_the_bank():
    env = gymnasium.make(ID, **TINY).unwrapped
    env.reset(seed=1)
    task, sim = env.task, env.task.simulation
    before, nusselt = sim.temperature_at_centres(0), volume_nusselt_number(sim, "bottom")
    task.place(0, 7)
    np.testing.assert_array_equal(sim.temperature_at_centres(0), np.roll(before, 7, axis=0))
    np.testing.assert_allclose(volume_nusselt_number(sim, "bottom"), nusselt, rtol=1e-6)
    assert sim.max_divergence()[0] < 1e-4


def test_heaters_have_zero_mean_bounded_amplitude_and_are_smooth():
    plates = Sides("periodic", "periodic", "no_slip", "no_slip")
    heat = Temperature(0.1, sides={"bottom": 1.0, "top": 0.0})
    sim = Simulation(Grid(200, 64, 1 / 64), plates, viscosity=0.1, stream=(0.0, 0.0), batch=4,
                     temperature=heat)  # fmt: skip
    heaters = Heaters(tuple("abcdefghij"), 1.0, 0.75, 0.05)
    commands = np.random.default_rng(0).uniform(-1, 1, (4, 1, 10))
    commands[1], commands[2] = 1.0, [1.0] + [-1.0] * 9
    commands[3] = [0.1, -0.1] * 5
    heaters.apply(sim, commands)
    given = sim.side_temperature("bottom")
    np.testing.assert_allclose(given.mean(axis=1), 1.0, atol=1e-12)
    assert np.abs(given - 1.0).max() <= 0.75 + 1e-12
    np.testing.assert_allclose(given[1], 1.0, atol=1e-12)
    assert given[2, 10] == pytest.approx(1.75), "scaled back to the amplitude"
    np.testing.assert_allclose(given[3, 10::20], 1.0 + 0.075 * np.array([1.0, -1.0] * 5))
    # a cubic across an edge: halfway on it, and continuous
    steep = np.abs(np.diff(given[3])).max()
    assert steep < 0.15 * 0.75 / 0.05 / 64 * 1.01
    assert given[3, 19] + given[3, 20] == pytest.approx(2.0)


def test_reward_is_the_reduction_of_the_nusselt_number():
    env = gymnasium.make(ID, **TINY).unwrapped
    env.reset(seed=0)
    for _ in range(3):
        _, reward, _, _, info = env.step(np.zeros(10, np.float32))
        sim = env.task.simulation
        assert reward == pytest.approx(5.03 - volume_nusselt_number(sim, "bottom")[0], rel=1e-12)
        assert info["measures"]["Nu"] == pytest.approx(5.03 - reward, rel=1e-12)
    sim.set_velocity(0, 0.0 * sim.to_host(sim.u[0]), 0.0 * sim.to_host(sim.v[0]))
    assert volume_nusselt_number(sim, "bottom")[0] == pytest.approx(1.0)
    assert nusselt_number(sim, "bottom")[0] > 1.0


def test_each_heater_agent_observes_a_window_centred_on_itself():
    single, several = gymnasium.make(ID, **TINY).unwrapped, convection.parallel_env(**TINY)
    seen, _ = single.reset(seed=3)
    each, _ = several.reset(seed=3)
    grid = seen.reshape(3, 30, 8)
    for n in range(10):
        own = each[f"heater_{n}"].reshape(3, 30, 8)
        np.testing.assert_array_equal(own[:, 15:18], grid[:, 3 * n : 3 * n + 3])
        np.testing.assert_array_equal(own, np.roll(grid, 15 - 3 * n, axis=1))
    actions = np.random.default_rng(0).uniform(-1, 1, 10).astype(np.float32)
    _, reward, *_ = single.step(actions)
    _, rewards, _, _, infos = several.step({f"heater_{n}": actions[n : n + 1] for n in range(10)})
    assert np.mean(list(rewards.values())) == pytest.approx(reward, rel=1e-12)
    local = np.array([info["nusselt"] for info in infos.values()])
    saved = 5.03 - 0.9985 * local.mean() - 0.0015 * local
    np.testing.assert_allclose(list(rewards.values()), saved, rtol=1e-12)


def test_baselines_use_the_vertical_velocity_above_each_heater():
    numbers = above_heaters(1, range(8))
    observation = np.zeros((2, 720), np.float32)
    observation[1, numbers[4]] = 0.02
    pd = NAMED[ID]["pd"]
    pd.reset(2)
    action = pd(observation)
    assert action.shape == (2, 10)
    assert action[1, 4] == pytest.approx(-0.02 * pd.gain)
    assert np.count_nonzero(action) == 1
    points = convection.RayleighBenard(convection.RayleighBenardOptions(cells_per_height=12), 1)
    grid = points._grid_of_sensors()
    grid[:] = np.arange(720).reshape(1, 3, 30, 8)
    assert sorted(grid[0, 1, 12:15, :].ravel()) == sorted(numbers[4])


def test_a_picture_shows_the_temperature():
    env = gymnasium.make(ID, render_mode="rgb_array", **TINY)
    env.reset(seed=0)
    env.step(np.linspace(-1, 1, 10, dtype=np.float32))
    picture = env.render()
    assert picture.ndim == 3
    height = picture.shape[0]
    low, high = picture[round(0.70 * height)].mean(), picture[round(0.14 * height)].mean()
    assert low < high, "warm below, and white is zero"

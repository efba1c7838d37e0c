"""Starting several simulations of a batch in one call."""

import numpy as np
import pytest
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

IDS = ("flowsim/DCylinderWake-v0", "flowsim/EllipticalSwimmer-v0")
KINDS = [(IDS[0], {"start": "developed"}), (IDS[0], {"start": "impulsive"}), (IDS[1], {"vortex": 2.0})]  # fmt: skip


def generators(which):
    return {index: seeding.np_random(40 + index)[0] for index in which}


def assert_same(one, two):
    """Compare every array of two nested states bit for bit."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for name in one:
            assert_same(one[name], two[name])
    else:
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("env_id", "options"), KINDS)
def test_starting_several_at_once_equals_one_at_a_time(env_id, options, make_vec, actions):
    """In the middle of episodes, one of which has diverged; the others are not affected."""
    together, alone = (make_vec(env_id, num_envs=5, **options) for _ in range(2))
    for env in (together, alone):
        env.reset(seed=3)
        env.task.simulation.u[1, 20, 20] = np.inf
        env.episodes.play(np.tile(actions[0, 0], (5, 1)))
    which = (3, 0, 1)
    together.episodes.start(generators(which))
    for index, generator in generators(which).items():
        alone.episodes.start({index: generator})
    for _ in range(2):
        assert_same(*(dict(enumerate(env.get_state())) for env in (together, alone)))
        np.testing.assert_array_equal(
            together.episodes.observations(), alone.episodes.observations()
        )
        for env in (together, alone):
            env.episodes.play(np.zeros((5, 3)))


def test_impulsive_start_equals_a_reset_of_the_solver(make_vec):
    """The start is restored from a cached state and keeps the viscosity of each simulation."""
    env = make_vec(start="impulsive", num_envs=3)
    env.task.simulation.viscosity[2] = 0.01
    env.reset(seed=1)
    env.step(np.zeros((3, 3)))
    env.reset(seed=2)
    simulation = env.task.simulation
    found = [simulation.get_state(b) for b in range(3)]
    position, angle = (
        simulation.body_state.position[:, 1].copy(),
        simulation.body_state.angle[:, 1].copy(),
    )
    simulation.reset()
    simulation.body_state.position[:, 1], simulation.body_state.angle[:, 1] = position, angle
    simulation.settle()
    assert_same(dict(enumerate(found)), {b: simulation.get_state(b) for b in range(3)})
    assert found[2]["viscosity"] == 0.01


def test_diverged_start_does_not_affect_others(make_vec):
    env, untouched = (make_vec(num_envs=4) for _ in range(2))
    numbers = []
    for seed in range(4):
        generator = seeding.np_random(seed)[0]
        generator.uniform(size=3)
        numbers.append(int(generator.integers(4)))
    blown = np.array(numbers) == numbers[0]
    assert not blown.all()
    env.task._bank["u"][numbers[0], 20, 20] = np.inf
    for one in (env, untouched):
        one.reset(seed=[0, 1, 2, 3])
    np.testing.assert_array_equal(env.task.simulation.diverged, blown)
    for b in np.flatnonzero(~blown):
        assert_same(env.get_state()[b], untouched.get_state()[b])
    _, _, terminated, _, _ = env.step(np.zeros((4, 3)))
    np.testing.assert_array_equal(terminated, blown)


@pytest.mark.parametrize(("env_id", "options"), KINDS)
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ended_simulations_are_settled_in_one_call(env_id, options, mode, make_vec, monkeypatch):
    env = make_vec(env_id, autoreset_mode=mode, episode_actions=1, **options)
    env.reset(seed=0)
    simulation, settled = env.task.simulation, []
    settle = simulation.settle
    monkeypatch.setattr(
        simulation, "settle", lambda which: (settled.append(which.copy()), settle(which))
    )
    env.step(np.zeros((3, 3)))
    if mode is AutoresetMode.NEXT_STEP:
        env.step(np.zeros((3, 3)))
    if mode is AutoresetMode.DISABLED:
        env.reset()
    assert [which.tolist() for which in settled] == [[True] * 3]


def test_states_of_another_flow_are_refused(make_vec):
    simulation, other = (
        make_vec(cells_per_diameter=cells).task.simulation for cells in (8, 12)
    )  # fmt: skip
    states = {name: values[None] for name, values in other.get_state(0).items()}
    with pytest.raises(ValueError, match=r"the state's u is \(.*\) float32, this simulation's is"):
        simulation.store_states(states)
    del states["u"]
    with pytest.raises(ValueError, match=r"the state lacks fields of this simulation: u$"):
        simulation.store_states(states)

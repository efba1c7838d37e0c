"""The D-cylinder wake: sensors, rewards, ends, starts, divergence, and the bank of wakes."""

import numpy as np
import pytest

from cases import initial_flows
from cases.d_cylinder_wake import env as wake
from cases.ellipse_agent import vertices
from cases.sensors import Skin, wrap_angle
from flowsim import Ellipse, Grid, Simulation

PI = np.pi


def place(env, x, y, angle=0.0):
    """Put the agent somewhere relative to the cylinder."""
    state = env.task.simulation.body_state
    state.position[:, 1] = wake.CYLINDER[0] + x, wake.CYLINDER[1] + y
    state.angle[:, 1] = angle


class Sensing:
    """Stand-in for a task: a simulation of an ellipse with its sensors."""

    agents = 1

    def __init__(self, offset):
        self.skin = Skin([0], vertices(), vertices(offset))
        self.simulation = Simulation(
            Grid(32, 32, 0.125),
            None,
            [Ellipse(center=(2.0, 2.0))],
            viscosity=0.01,
            sensors=self.skin.carried(),
            dtype="float64",
        )
        self.skin.bind(self, "skin", 0)

    def sense(self):
        self.simulation.sense()
        return self.skin.read().reshape(1, 4, 2)


def test_sensors_in_a_uniform_stream():
    """Sensors give flow minus surface velocity at the ends of the axes, here for a rigid motion."""
    sensing = Sensing(0.05)
    simulation = sensing.simulation
    simulation.u[:], simulation.v[:] = 0.7, -0.2
    state = simulation.body_state
    state.position[0, 0], state.angle[0, 0] = (2.1, 1.9), PI / 2  # front up, "top" to the left
    state.velocity[0, 0], state.angular_velocity[0, 0] = (0.3, 0.1), 2.0
    # Arms of the vertices: (0, 0.5), (-0.1, 0), (0, -0.5), (0.1, 0); omega x r = (-2 r_y, 2 r_x).
    surface = np.array([[0.3 - 1.0, 0.1], [0.3, 0.1 - 0.2], [0.3 + 1.0, 0.1], [0.3, 0.1 + 0.2]])
    sensed = sensing.sense()
    np.testing.assert_allclose(sensed[0], np.array([0.7, -0.2]) - surface, atol=1e-12)


def test_sensors_sit_outside_the_surface():
    """In a shear flow u = y each sensor reads its own height."""
    sensing = Sensing(0.25)
    simulation = sensing.simulation
    simulation.u[:] = simulation.grid.u_faces()[1]
    simulation.v[:] = 0.0
    sensed = sensing.sense()
    np.testing.assert_allclose(sensed[0, :, 0], [2.0, 2.35, 2.0, 1.65], atol=1e-12)


@pytest.mark.parametrize(
    ("angle", "wrapped"),
    [(0.5, 0.5), (PI, PI), (-PI, PI), (1.5 * PI, -0.5 * PI), (7.0, 7.0 - 2 * PI)],
)
def test_angle_is_wrapped(angle, wrapped):
    assert wrap_angle(np.array([angle]))[0] == pytest.approx(wrapped)


def test_reward_is_minus_the_square_of_the_clipped_action(make):
    env = make()
    env.reset(seed=0)
    place(env, 2.0, 0.0)
    _, reward, terminated, _, info = env.step(np.array([0.5, -0.25, 3.0]))
    assert not terminated
    assert reward == -(0.25 + 0.0625 + 1.0)
    np.testing.assert_array_equal(info["applied_action"], [0.5, -0.25, 1.0])
    assert info["time"] == pytest.approx(1.0)
    assert info["solver_steps"] > 1
    assert all(info[name].shape == (2,) for name in ("drag", "lift", "torque", "power"))
    assert info["drag"][0] > 0.2  # the cylinder stands in a stream
    assert info["power"][0] == pytest.approx(info["drag"][0])  # it is towed at U = 1


def test_force_and_torque_move_the_agent(make):
    results = []
    for action in ([0.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]):
        env = make(start_range="narrow")
        env.reset(seed=2)
        place(env, 2.0, 0.0)
        results.append(env.step(np.array(action))[0])
    still, pushed, lifted, turned = results
    assert pushed[0] < still[0] - 0.1
    assert lifted[1] > still[1] + 0.05
    assert turned[2] > still[2] + 0.1


@pytest.mark.parametrize(
    ("x", "y", "alive"),
    [(0.51, 0.0, True), (0.49, 0.0, False), (3.49, 0.0, True), (3.51, 0.0, False), (2.0, 1.49, True),
     (2.0, 1.51, False), (2.0, -1.49, True), (2.0, -1.51, False), (np.nan, 0.0, False)],
)  # fmt: skip
def test_edges_of_the_alive_box(make, x, y, alive):
    env = make()
    place(env, x, y)
    simulation = env.task.simulation
    assert (simulation.advance(1e-6) | simulation.diverged)[0] != alive


def test_leaving_the_box_ends_the_action_at_once(make):
    env = make()
    env.reset(seed=0)
    place(env, 3.499, 0.0)
    env.task.simulation.body_state.velocity[:, 1] = 1.0, 0.0
    observation, reward, terminated, truncated, info = env.step(np.array([1.0, 0.0, 0.0]))
    assert (reward, terminated, truncated) == (-100.0, True, False)
    assert info["time"] < 0.5
    assert not info["diverged"]
    assert observation in env.observation_space


def test_episode_is_truncated(make):
    env = make(episode_actions=2)
    env.reset(seed=0)
    place(env, 2.0, 0.0)
    assert env.step(np.zeros(3))[2:4] == (False, False)
    place(env, 2.0, 0.0)
    assert env.step(np.zeros(3))[2:4] == (False, True)


@pytest.mark.parametrize("start", ["developed", "impulsive"])
@pytest.mark.parametrize("start_range", ["paper", "narrow"])
def test_starts_cover_exactly_their_range(make_vec, start, start_range):
    env = make_vec(num_envs=60, start=start, start_range=start_range)
    observations, _ = env.reset(seed=0)
    for column, (low, high) in enumerate(wake.START_RANGES[start_range]):
        values = observations[:, column]
        assert low - 1e-6 <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high + 1e-6
    np.testing.assert_array_equal(observations[:, 3:6], 0.0)  # at rest
    if start == "developed":
        assert len(np.unique(env.task.simulation.u[:, 40, 20])) > 1


def test_diverged_simulation_ends_only_its_own_episode(make_vec, actions):
    env, untouched = make_vec(), make_vec()
    env.reset(seed=0)
    untouched.reset(seed=0)
    env.task.simulation.u[1, 20, 20] = np.inf
    observations, rewards, terminated, truncated, infos = env.step(0.1 * actions[0])
    wanted = untouched.step(0.1 * actions[0])
    assert (rewards[1], terminated[1], truncated[1]) == (-100.0, True, False)
    assert infos["final_info"]["diverged"][1]
    assert not infos["diverged"].any()  # it has started again
    assert env.single_observation_space.contains(infos["final_obs"][1])
    assert np.isfinite(observations).all()
    for n in (0, 2):
        np.testing.assert_array_equal(observations[n], wanted[0][n])
        assert rewards[n] == wanted[1][n]
    for action in actions[1:4]:
        observations, _, _, _, _ = env.step(0.1 * action)
        assert np.isfinite(observations).all()


def test_observation_is_finite_when_all_fields_are_nan(make):
    env = make()
    env.reset(seed=0)
    simulation = env.task.simulation
    simulation.u[:] = np.nan
    simulation.v[:] = -np.inf
    for name, array in vars(simulation.body_state).items():
        if name != "contact":
            array[:] = np.nan
    observation, reward, terminated, _, info = env.step(np.zeros(3))
    assert observation in env.observation_space
    assert (reward, terminated) == (-100.0, True)
    assert np.isfinite(info["drag"]).all()


def test_bank_is_cached_and_rebuilt_when_damaged(make, tmp_path, monkeypatch, recwarn):
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    first, _ = make().reset(seed=3)
    (path,) = tmp_path.glob("flows/flow-*.npz")
    written = path.stat().st_mtime_ns
    np.testing.assert_array_equal(make().reset(seed=3)[0], first)
    assert path.stat().st_mtime_ns == written
    assert not recwarn.list
    with np.load(path) as file:
        states = {name: file[name] for name in file.files}
    states["u"][0, 30, 20] += 0.1
    np.savez(path, **states)  # a valid file with other contents
    with pytest.warns(UserWarning, match="damaged"):
        np.testing.assert_array_equal(make().reset(seed=3)[0], first)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="damaged"):
        np.testing.assert_array_equal(make().reset(seed=3)[0], first)
    assert not list(tmp_path.rglob(".*"))


def test_flipped_bits_of_a_bank_are_detected(make, tmp_path, monkeypatch, recwarn):
    """Bits of names, headers, compressed data and the archive's directory."""
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    make()
    (path,) = tmp_path.glob("flows/flow-*.npz")
    content = path.read_bytes()
    sound = initial_flows.content_hash(initial_flows._read(path))
    generator = np.random.default_rng(5)
    ends = [*range(200), *range(len(content) - 800, len(content))]
    for place in [*ends, *generator.integers(len(content), size=300)]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << generator.integers(8)
        path.write_bytes(flipped)
        read = initial_flows._read(path)
        # some bits of a zip have no effect, such as times
        assert read is None or initial_flows.content_hash(read) == sound


def test_each_flow_has_its_own_bank(make, tmp_path, monkeypatch):
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    make()
    make(reynolds=200.0)
    make(force_scale=1.0, threads=1)  # the wake without the agent does not depend on these options
    assert len(list(tmp_path.glob("flows/flow-*.npz"))) == 2


def test_progress_reports_the_time_left(capsys):
    seconds = iter([0.0, 1.0, 4.0, 5.0])
    progress = initial_flows._Progress(10.0, clock=lambda: next(seconds))
    progress.show(1.0)  # too early for a message
    assert capsys.readouterr().err == ""
    progress.show(5.0)
    assert "50%, about 4 s left" in capsys.readouterr().err
    progress.show(6.0)
    assert capsys.readouterr().err == ""

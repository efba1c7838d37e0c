"""Velocity profiles on inflow sides: exact channel flow, batches, time, restarts, and what is refused."""

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, Simulation
from flowsim.grid import GHOSTS as G
from flowsim.io import read_restart, write_restart

CHANNEL = Sides("inflow", "outflow", "no_slip", "no_slip", left_profile="parabolic")


def poiseuille(y, height=1.0):
    return 6 * y * (height - y) / height**2


def test_poiseuille_flow_is_steady_with_its_pressure_gradient():
    sim = Simulation(Grid(64, 16, 1 / 16), CHANNEL, viscosity=0.05, dtype="float64")
    _, y = sim.grid.u_faces()
    sim.set_velocity(0, poiseuille(y), np.zeros_like(y))
    sim.advance(8.0)
    _, y = sim.grid.centres()
    u = sim.velocity_at_centres(0)[..., 0]
    np.testing.assert_allclose(u[8:56], poiseuille(y[8:56]), atol=0.01)
    gradient = (sim.pressure[0, 48].mean() - sim.pressure[0, 16].mean()) / 2.0
    assert gradient == pytest.approx(-12 * 0.05, rel=0.01)


def test_a_uniform_start_develops_into_the_same_flow():
    sim = Simulation(Grid(64, 16, 1 / 16), CHANNEL, viscosity=0.05)
    sim.advance(8.0)
    _, y = sim.grid.centres()
    u = sim.velocity_at_centres(0)[48, :, 0]
    np.testing.assert_allclose(u, poiseuille(y[48]), atol=0.01)
    assert sim.u[0, G, G:-G].mean() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("wall", ["no_slip", "slip"])
def test_no_velocity_can_be_added_through_walls_and_inflows(wall, turned):
    """Fluid enters at the low side only; what is added anywhere neither crosses the walls nor changes the inflow."""
    n = 24
    if turned:
        sides = Sides(wall, wall, "inflow", "outflow", bottom_profile="parabolic")
    else:
        sides = Sides("inflow", "outflow", wall, wall, left_profile="parabolic")
    stream = (0.0, 1.0) if turned else (1.0, 0.0)
    sim = Simulation(
        Grid(n, n, 1 / n), sides, viscosity=0.01, stream=stream, batch=3, dtype="float64"
    )
    y = (np.arange(n) + 0.5) / n
    for write in (sim.add_velocity, sim.set_velocity):
        write([2, 0], 0.7, -0.4)
        for _ in range(4):
            for b in range(3):
                u, v = (sim.v[b].T, sim.u[b].T) if turned else (sim.u[b], sim.v[b])
                np.testing.assert_allclose(u[G, G:-G], poiseuille(y), atol=0.01)
                np.testing.assert_array_equal(v[G : G + n, [G, G + n]], 0.0)
            sim.step()


def test_each_flow_keeps_its_own_profile_after_a_reset():
    grid, sides = Grid(32, 16, 1 / 16), Sides("inflow", "outflow", "slip", "slip")
    y = (np.arange(16) + 0.5) / 16
    profiles = np.stack([1 + 0.5 * np.sin(2 * np.pi * y), 0.5 + y])
    both = Simulation(grid, sides, viscosity=0.02, batch=2, dtype="float64")
    both.set_inflow("left", profiles)
    both.reset()
    both.advance(0.5)
    for b in (0, 1):
        np.testing.assert_allclose(both.u[b, G, G:-G], profiles[b], rtol=1e-12)
        one = Simulation(grid, sides, viscosity=0.02, dtype="float64")
        one.set_inflow("left", lambda s, b=b: (1 + 0.5 * np.sin(2 * np.pi * s), 0.5 + s)[b])
        one.reset()
        one.advance(0.5)
        np.testing.assert_allclose(one.u[0, :, G:-G], both.u[b, :, G:-G], atol=1e-12)
    assert both.max_divergence().max() < 1e-10


def test_time_dependent_profile_and_its_restart(tmp_path):
    grid, sides = Grid(32, 16, 1 / 16), Sides("inflow", "outflow", "slip", "slip")

    def gust(s, t):
        return np.stack([np.ones_like(s) + 0.2 * np.sin(t), 0.1 * np.sin(t) + 0 * s], axis=-1)

    def flow():
        sim = Simulation(grid, sides, viscosity=0.02, dtype="float64")
        sim.set_inflow("left", gust)
        return sim

    sim, again = flow(), flow()
    sim.advance(0.4)
    np.testing.assert_allclose(sim.u[0, G, G:-G], 1 + 0.2 * np.sin(0.4), rtol=1e-12)
    sim.fill_ghosts()
    wall = 0.5 * (sim.v[0, G - 1, G:-G] + sim.v[0, G, G:-G])
    np.testing.assert_allclose(wall, 0.1 * np.sin(0.4), atol=1e-12)
    write_restart(tmp_path / "r.h5", sim)
    read_restart(tmp_path / "r.h5", again)
    sim.advance(0.3)
    again.advance(0.3)
    np.testing.assert_array_equal(sim.u, again.u)


@pytest.mark.parametrize(
    ("side", "profile", "words"),
    [
        ("top", "parabolic", "only an inflow side"),
        ("left", "cubic", "by name it is parabolic"),
        ("left", np.ones(15), r"must be \(16,\)"),
        ("left", np.full(16, np.nan), "not finite"),
    ],
)
def test_profiles_of_the_wrong_shape_are_refused(side, profile, words):
    sim = Simulation(
        Grid(32, 16, 1 / 16), Sides("inflow", "outflow", "slip", "slip"), viscosity=0.02
    )
    with pytest.raises(ValueError, match=words):
        sim.set_inflow(side, profile)


def test_a_profile_on_a_wall_is_refused():
    with pytest.raises(ValueError, match="only an inflow side has a profile"):
        Sides(bottom="no_slip", bottom_profile="parabolic")


def test_perturbation_breaks_the_symmetry_and_is_off_by_default():
    grid, body = Grid(64, 64, 1 / 16), Disk(center=(1.5, 2.0))
    plain = Simulation(grid, bodies=[body], viscosity=0.01, dtype="float64")
    pushed = Simulation(grid, bodies=[body], viscosity=0.01, dtype="float64", perturbation=0.5)
    for sim in (plain, pushed):
        sim.advance(0.5)
    lifts = [abs(sim.body_state.force[0, 0, 1]) for sim in (plain, pushed)]
    assert lifts[0] < 1e-3 < 0.05 < lifts[1]
    assert pushed.max_divergence().max() < 1e-10


def test_profiles_that_vary_in_time_are_used_by_the_chosen_flows_only():
    grid, sides = Grid(32, 16, 1 / 16), Sides("inflow", "outflow", "slip", "slip")
    sim = Simulation(grid, sides, viscosity=0.02, batch=3, dtype="float64")
    sim.advance(0.1)
    sim.set_inflow("left", lambda s, t: 1.5 + t + 0 * s, which=np.array([True, False, False]))
    sim.set_inflow("left", lambda s: 0.5 + 0 * s, which=np.array([False, False, True]))
    sim.advance([0.3, 0.2, 0.1])
    expected = [1.5 + 0.4, 1.0, 0.5]
    np.testing.assert_allclose(sim.u[:, G, G], expected, rtol=1e-12)
    np.testing.assert_allclose(sim.inflow_profiles()["left"][:, 0, G], expected, rtol=1e-12)
    assert (sim.inflow_profiles()["left"][:, 1] == 0.0).all()
    # each flow uses the newest profile from its reset on
    sim.reset(np.array([True, True, False]))
    sim.advance(0.1)
    np.testing.assert_allclose(sim.u[:, G, G], 0.5)


def test_profiles_are_those_at_the_time_of_each_flow():
    grid, sides = Grid(32, 16, 1 / 16), Sides("inflow", "outflow", "slip", "slip")
    sim = Simulation(grid, sides, viscosity=0.02, batch=2, dtype="float64")
    sim.set_inflow("left", lambda s, t: 1.0 + t + 0 * s)
    sim.reset()
    sim.advance([1.0, 0.5])
    profiles = sim.inflow_profiles()["left"]
    assert profiles.shape == (2, 2, 16 + 2 * G)
    np.testing.assert_allclose(profiles[:, 0, G], [2.0, 1.5], rtol=1e-12)

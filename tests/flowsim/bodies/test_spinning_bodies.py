"""Held bodies with a prescribed spin: torque, angle, and the same motion as a function of time."""

import numpy as np
import pytest

from flowsim import Disk, Grid, HalfDisk, Sides, Simulation
from flowsim.bodies.motions import rotation


def still(bodies: list, side: float, cells: int, viscosity: float, batch: int = 1) -> Simulation:
    """Bodies in still fluid, in a square box."""
    grid = Grid(round(side * cells), round(side * cells), 1 / cells)
    return Simulation(
        grid,
        Sides.all("slip"),
        bodies,
        viscosity=viscosity,
        batch=batch,
        stream=(0.0, 0.0),
        dtype="float64",
    )


@pytest.mark.slow
def test_spinning_disk_in_still_fluid_has_the_stokes_torque() -> None:
    """4 pi mu R^2 omega against the spin, once the swirl omega R^2 / r has spread (R^2 << nu t)."""
    sim = still([Disk(center=(6.0, 6.0))], 12.0, 12, 1.0)
    spin = 0.7
    sim.body_state.target_angular_velocity[:] = spin
    sim.body_state.angular_acceleration[:] = np.inf
    sim.advance(3.0)
    expected = 4 * np.pi * 1.0 * 0.25 * spin
    assert sim.body_state.torque[0, 0] == pytest.approx(-expected, rel=0.02)
    # the swirl nearby; farther out it is still spreading
    swirl = sim.sample_velocity([[[6.8, 6.0]]])[0, 0, 1]
    assert swirl == pytest.approx(spin * 0.25 / 0.8, rel=0.05)


def test_angular_velocity_ramps_linearly_to_its_target() -> None:
    """Each flow of a batch has its own target, up or down; without a rate, angular velocity and angle do not change."""
    sim = still([Disk(center=(2.0, 2.0))], 4.0, 8, 0.1, batch=3)
    state = sim.body_state
    state.target_angular_velocity[:, 0] = 1.0, -2.0, 5.0
    state.angular_acceleration[:, 0] = 2.0, 4.0, 0.0
    sim.advance(0.25)
    np.testing.assert_allclose(state.angular_velocity[:, 0], [0.5, -1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(state.angle[:, 0], [0.0625, -0.125, 0.0], atol=1e-12)
    sim.advance(0.75)
    np.testing.assert_allclose(state.angular_velocity[:, 0], [1.0, -2.0, 0.0], atol=1e-12)
    # up to the one step in which the target is reached
    np.testing.assert_allclose(state.angle[:, 0], [0.75, -1.5, 0.0], atol=2 * sim.dt.max())
    np.testing.assert_array_equal(state.position[:, 0], 2.0)
    assert sim.u[2].any() == 0.0


def test_spin_equals_the_same_motion_as_a_function_of_time() -> None:
    """To round-off, including forces and torque, for a reference point other than the centre of mass."""
    place, spin = (2.1, 1.9), 1.5
    told, driven = (
        still([HalfDisk(center=place, motion=motion)], 4.0, 8, 0.05)
        for motion in ("fixed", rotation(place, spin))
    )
    for sim in (told, driven):
        sim.set_velocity(0, 0.0, 0.0)
        sim.body_state.angular_velocity[:] = spin
        sim.settle()
    told.body_state.target_angular_velocity[:] = spin
    told.body_state.angular_acceleration[:] = 1.0
    for sim in (told, driven):
        sim.advance_steps(20)
    for name in ("angle", "position", "velocity", "angular_velocity", "force", "torque"):
        one, other = (getattr(sim.body_state, name) for sim in (told, driven))
        np.testing.assert_allclose(one, other, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(told.u, driven.u, atol=1e-10)

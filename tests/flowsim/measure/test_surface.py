"""Loads along a surface: exact fields, closed curves, and the force that they add up to."""

import numpy as np
import pytest

from flowsim import Disk, Grid, HalfDisk, Sides, Simulation, Union, polygon, surface_loads
from flowsim.bodies.swimmers import carangiform
from flowsim.measure.surface import stream_pressure

SQUARE = polygon([(-0.4, -0.4), (0.4, -0.4), (0.4, 0.4), (-0.4, 0.4)], center=(2.0, 2.0), angle=0.3)
DUMBBELL = Union(
    parts=[Disk(diameter=0.6, center=(-0.6, 0.0)), Disk(diameter=0.6, center=(0.6, 0.0))],
    center=(2.0, 2.0),
)


def still(body, cells=32, **options):
    grid = Grid(4 * cells, 4 * cells, 1 / cells)
    options = {"viscosity": 0.02, "stream": (0.0, 0.0), "dtype": "float64"} | options
    return Simulation(grid, Sides.all("slip"), [body], **options)


@pytest.mark.parametrize(
    "body", [Disk(center=(2.0, 2.0)), HalfDisk(center=(2.1, 2.0), angle=0.4), SQUARE, DUMBBELL]
)
def test_linear_pressure_gives_archimedes_force_and_torque(body):
    sim = still(body)
    x, y = sim.grid.centres()
    sim.pressure[:] = 3.0 + 0.5 * x - 0.2 * y
    sim.u[:], sim.v[:] = 0.0, 0.0
    loads = surface_loads(sim, reference_pressure=0.0)
    np.testing.assert_allclose(loads.force, np.array([-0.5, 0.2]) * body.area, rtol=0.01, atol=1e-4)
    c, s = np.cos(body.angle), np.sin(body.angle)
    arm = np.array([[c, -s], [s, c]]) @ body.centroid
    torque = arm[0] * loads.force[1] - arm[1] * loads.force[0]
    assert loads.torque == pytest.approx(torque, abs=2e-3)
    level = surface_loads(sim, reference_pressure=7.0)
    np.testing.assert_allclose(level.force, loads.force, atol=1e-9)
    assert level.pressure == pytest.approx(loads.pressure - 7.0)


def test_friction_on_a_spinning_disk_is_exact():
    rate, nu, radius = 1.5, 0.02, 0.5
    for cells, allowed in ((16, 0.06), (32, 0.03), (64, 0.015)):
        sim = still(Disk(center=(2.0, 2.0)), cells, viscosity=nu)
        sim.body_state.angular_velocity[:] = rate
        xu, yu = sim.grid.u_faces()
        xv, yv = sim.grid.v_faces()
        u = -rate * radius**2 * (yu - 2) / ((xu - 2) ** 2 + (yu - 2) ** 2 + 1e-9)
        v = rate * radius**2 * (xv - 2) / ((xv - 2) ** 2 + (yv - 2) ** 2 + 1e-9)
        sim.set_velocity(0, u, v)
        loads = surface_loads(sim)
        # r d(u_theta / r) / dr = -2 Omega on the surface; the torque is -4 pi mu R^2 Omega
        np.testing.assert_allclose(loads.friction, -2 * nu * rate, rtol=allowed)
        assert loads.torque == pytest.approx(-4 * np.pi * nu * radius**2 * rate, rel=allowed)


def test_reference_pressures():
    sim = Simulation(
        Grid(64, 32, 1 / 16), bodies=[Disk(center=(1.0, 1.0), diameter=0.5)], viscosity=0.1
    )
    sim.u[:], sim.v[:] = 1.5, 0.0
    sim.pressure[:] = 2.0
    # Bernoulli: p + 1.5^2 / 2 = p_ref + 1 / 2
    assert stream_pressure(sim) == pytest.approx(2.0 + 0.5 * (1.5**2 - 1.0), abs=0.01)
    x, y = sim.grid.centres()
    sim.pressure[0] = x + 2 * y
    assert surface_loads(sim, reference_pressure=(3.0, 1.0)).reference_pressure == pytest.approx(5)
    with pytest.raises(ValueError, match="outside the box"):
        surface_loads(sim, reference_pressure=(9.0, 0.0))
    with pytest.raises(ValueError, match="whole number of at least 8"):
        surface_loads(sim, points=3)


def test_stagnation_at_the_front_and_separation_behind_a_cylinder():
    sim = Simulation(Grid(144, 96, 1 / 16), bodies=[Disk(center=(3.01, 3.0))], viscosity=1 / 40)
    sim.advance(12.0)
    loads = surface_loads(sim, points=120)
    assert len(loads.points) == 120
    assert loads.length.sum() == pytest.approx(np.pi, rel=1e-3)
    away = loads.separation() - loads.center
    angles = np.sort(np.degrees(np.arctan2(away[:, 1], away[:, 0])))
    np.testing.assert_allclose(angles, [-50, 50], atol=8)
    front = loads.attachment()[:, 0].min()
    assert front == pytest.approx(3.01 - 0.5, abs=0.01)
    np.testing.assert_allclose(loads.force, sim.body_state.force[0, 0], atol=0.03)


def test_swimmers_are_refused():
    sim = Simulation(
        Grid(64, 32, 1 / 16),
        Sides.all("periodic"),
        [carangiform(center=(1.0, 1.0))],
        viscosity=1e-3,
        stream=(0.0, 0.0),
    )
    with pytest.raises(ValueError, match="body 0 is a swimmer"):
        surface_loads(sim)

"""Divergence, Q and streamfunction of flows for which they are known."""

import numpy as np
import pytest

from flowsim import Grid, Sides, Simulation
from flowsim.measure.fields import divergence, q_criterion, streamfunction


def box(n: int, sides: Sides) -> Simulation:
    return Simulation(
        Grid(n, n, 2 * np.pi / n), sides, viscosity=0.1, stream=(0.0, 0.0), dtype="float64"
    )


def test_taylor_green_vortex_at_second_order():
    """u = sin x cos y, v = -cos x sin y: psi = sin x sin y, Q = sin^2 x sin^2 y - cos^2 x cos^2 y."""
    errors = []
    for n in (32, 64):
        sim = box(n, Sides.all("periodic"))
        (xu, yu), (xv, yv) = sim.grid.u_faces(), sim.grid.v_faces()
        sim.set_velocity(0, np.sin(xu) * np.cos(yu), -np.cos(xv) * np.sin(yv))
        x, y = sim.grid.centres()
        exact = (
            np.zeros_like(x),
            (np.sin(x) * np.sin(y)) ** 2 - (np.cos(x) * np.cos(y)) ** 2,
            np.sin(x) * np.sin(y),
        )
        found = divergence(sim), q_criterion(sim), streamfunction(sim)
        errors.append([np.abs(a - b).max() for a, b in zip(found, exact, strict=True)])
    (no_flow, coarse_q, coarse_psi), (none_either, fine_q, fine_psi) = errors
    assert max(no_flow, none_either) < 1e-12
    assert fine_q < 0.006
    assert fine_psi < 0.005
    assert np.log2(coarse_q / fine_q) == pytest.approx(2.0, abs=0.05)
    assert np.log2(coarse_psi / fine_psi) == pytest.approx(2.0, abs=0.05)


def test_solid_body_rotation_is_exact():
    """u = -w y, v = w x: Q = w^2, psi = -w r^2 / 2 but for a constant; away from the sides, whose ghosts differ."""
    sim, rate = box(16, Sides.all("open")), 1.5
    sim.set_velocity(0, -rate * sim.grid.u_faces()[1], rate * sim.grid.v_faces()[0])
    x, y = sim.grid.centres()
    inner = slice(1, -1), slice(1, -1)
    np.testing.assert_allclose(q_criterion(sim)[inner], rate**2, rtol=1e-12)
    np.testing.assert_allclose(divergence(sim)[inner], 0.0, atol=1e-12)
    away = streamfunction(sim) + 0.5 * rate * (x**2 + y**2)
    np.testing.assert_allclose(away[inner], away[1, 1], atol=1e-10)


def test_plane_strain_and_a_field_with_divergence():
    """u = a x, v = -a y: Q = -a^2. And u = x, v = y: divergence 2."""
    sim = box(16, Sides.all("open"))
    xu, yv = sim.grid.u_faces()[0], sim.grid.v_faces()[1]
    sim.set_velocity(0, 0.7 * xu, -0.7 * yv)
    inner = slice(1, -1), slice(1, -1)
    np.testing.assert_allclose(q_criterion(sim)[inner], -0.49, rtol=1e-12)
    sim.set_velocity(0, xu, yv)
    np.testing.assert_allclose(divergence(sim)[inner], 2.0, rtol=1e-12)


def test_one_flow_of_a_batch_in_single_precision():
    sim = Simulation(Grid(32, 16, 1 / 8), viscosity=0.01, batch=2)
    sim.set_velocity(1, 2.0 * np.ones(sim.grid.padded_shape), np.zeros(sim.grid.padded_shape))
    _, y = sim.grid.centres()
    np.testing.assert_allclose(streamfunction(sim, 0), y, atol=1e-6)
    np.testing.assert_allclose(streamfunction(sim, 1), 2 * y, atol=1e-6)

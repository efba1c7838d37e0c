"""Flows driven by a body force against exact solutions: channel, Kolmogorov flow, prescribed mean velocity."""

from pathlib import Path

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, Simulation
from flowsim.grid import GHOSTS as G
from flowsim.io import read_restart, write_restart

WALLS = Sides("periodic", "periodic", "no_slip", "no_slip")


def channel(**options) -> Simulation:
    given = {"viscosity": 0.2, "stream": (0.0, 0.0), "dtype": "float64"} | options
    return Simulation(Grid(8, 16, 1 / 16), WALLS, **given)


def test_body_force_drives_poiseuille_flow_in_each_flow() -> None:
    sim = channel(batch=2, body_force=[(1.0, 0.0), (-0.5, 0.0)])
    sim.advance(4.0)
    _, y = sim.grid.centres()
    for b, force in enumerate((1.0, -0.5)):
        exact = force / (2 * 0.2) * y[0] * (1 - y[0])
        error = np.abs(sim.velocity_at_centres(b)[..., 0] - exact).max()
        assert error < 0.01 * np.abs(exact).max()  # the wall is half a cell from the first face
    sim.body_force[:] = (0.0, 0.7)  # across the channel: the pressure takes all of it
    sim.advance(6.0)
    assert np.abs(sim.velocity_at_centres()).max() < 1e-3
    gradient = np.diff(sim.to_host(sim.pressure)[0], axis=1) * 16
    assert gradient == pytest.approx(0.7, abs=1e-3)


def test_periodic_flow_accelerates_at_the_force() -> None:
    """Without walls du/dt = f, exactly."""
    sim = Simulation(Grid(16, 16, 1 / 8), Sides.all("periodic"), viscosity=0.01, dtype="float64",
                     stream=(0.1, 0.0), body_force=(0.2, -0.1))  # fmt: skip
    sim.advance(3.0)
    assert sim.velocity_at_centres()[0] == pytest.approx(
        np.broadcast_to((0.7, -0.3), (16, 16, 2)), abs=1e-12
    )


def test_mean_velocity_is_held_by_the_poiseuille_force() -> None:
    sim = channel(batch=2, viscosity=[0.1, 0.2], mean_velocity=[(1.0, None), (0.5, None)])
    sim.advance(5.0)
    for b, (nu, mean) in enumerate(((0.1, 1.0), (0.2, 0.5))):
        assert sim.velocity_at_centres(b)[..., 0].mean() == pytest.approx(mean, abs=1e-6)
        assert sim.body_force[b] == pytest.approx([12 * nu * mean, 0.0], rel=0.01)
    sim.target_mean_velocity[:, 0] = (0.3, np.nan)
    force = sim.body_force[1, 0]
    sim.advance(0.5)
    assert sim.velocity_at_centres(0)[..., 0].mean() == pytest.approx(0.3, abs=1e-3)
    assert sim.body_force[1, 0] == force, "it stays where nothing is held any more"


def test_mean_velocity_past_a_body_is_held() -> None:
    """With changing time steps; the force on disk and walls equals the driving force on the whole box."""
    sim = Simulation(Grid(48, 32, 1 / 16), Sides("periodic", "periodic", "slip", "slip"), [Disk(center=(1.5, 1.0))],
                     viscosity=1 / 40, dtype="float64", mean_velocity=(0.8, None))  # fmt: skip
    sim.advance(8.0)
    u = sim.to_host(sim.u[0, G:-G, G:-G])
    assert u.mean() == pytest.approx(0.8, abs=1e-3)
    assert sim.body_state.force[0, 0, 0] == pytest.approx(sim.body_force[0, 0] * 6.0, rel=0.01)


def test_kolmogorov_flow() -> None:
    """F sin(k y) keeps U sin(k y) with U = F / (nu k^2), on the grid with its own k^2."""
    n, nu, amplitude = 32, 0.1, 0.1
    grid = Grid(n, n, 2 * np.pi / n)
    sim = Simulation(grid, Sides.all("periodic"), viscosity=nu, stream=(0.0, 0.0), dtype="float64",
                     force_field=lambda x, y: (amplitude * np.sin(2 * y), 0 * x))  # fmt: skip
    sim.advance(15.0)
    _, y = grid.u_faces()
    k2 = 2 * (1 - np.cos(2 * grid.h)) / grid.h**2
    expected = amplitude / (nu * k2) * np.sin(2 * y) * (1 - np.exp(-nu * k2 * 15.0))
    here = np.s_[G:-G, G:-G]
    assert np.abs(sim.to_host(sim.u[0]) - expected)[here].max() < 2e-3 * np.abs(expected).max()
    assert np.abs(sim.to_host(sim.v[0]))[here].max() < 1e-12


def test_both_force_measures_include_the_driving_gradient() -> None:
    sim = Simulation(Grid(64, 48, 1 / 16), Sides("periodic", "periodic", "slip", "slip"), [Disk(center=(2.0, 1.4))],
                     viscosity=1 / 40, dtype="float64", body_force=(0.3, 0.1), stream=(0.5, 0.0),
                     force_field=lambda x, y: (0.1 * np.sin(np.pi * y), 0.05 * np.cos(np.pi * x / 2)))  # fmt: skip
    volumes = sim.measure_control_volumes()
    sim.advance(1.0)
    for _ in range(5):
        sim.step()
        assert volumes.force[0, 0] == pytest.approx(sim.body_state.force[0, 0], rel=2e-3, abs=2e-4)
        assert volumes.torque[0, 0] == pytest.approx(sim.body_state.torque[0, 0], abs=2e-4)


def test_restart_continues_bit_for_bit(tmp_path: Path) -> None:
    def made() -> Simulation:
        return Simulation(Grid(24, 16, 1 / 8), WALLS, [Disk(center=(1.5, 1.0))], viscosity=0.05, batch=2,
                          mean_velocity=[(1.0, None), (None, None)], body_force=(0.0, 0.1),
                          force_field=lambda x, y: (np.sin(y), 0 * y))  # fmt: skip

    first, second = made(), made()
    first.body_force[1] = (0.4, 0.0)
    first.advance(0.5)
    write_restart(tmp_path / "restart.h5", first)
    read_restart(tmp_path / "restart.h5", second)
    for sim in (first, second):
        sim.advance(0.4)
    for name, array in first.get_state(1).items():
        np.testing.assert_array_equal(second.get_state(1)[name], array, err_msg=name)
    np.testing.assert_array_equal(second.body_force, first.body_force)


def test_reset_restores_the_initial_force() -> None:
    sim = channel(body_force=(0.3, 0.0))
    sim.advance(0.5)
    before = sim.get_state(0)
    sim.body_force[:] = 7.0
    sim.reset()
    sim.advance(0.5)
    for name, array in sim.get_state(0).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"body_force": (1.0, np.nan)}, "body_force = .* must be two finite numbers"),
        ({"body_force": (1.0, 0.0, 0.0)}, "body_force = .* must be two finite numbers"),
        ({"body_force": "fast"}, "body_force = 'fast': it must be two finite numbers"),
        ({"mean_velocity": (None, 1.0)}, "along y it can be held only between periodic sides"),
        ({"mean_velocity": (np.inf, None)}, "mean_velocity = .* finite numbers or None"),
        ({"force_field": lambda x, y: (x[:3], y)}, "force_field returns an array of the shape"),
        ({"force_field": lambda x, y: (x / 0.0, y)}, "force_field is not finite everywhere"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*divide|invalid.*:RuntimeWarning")
def test_bad_forces_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        channel(**options)


def test_changing_the_force_of_a_flow_without_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"body_force=\(0, 0\)"):
        channel().body_force[:] = 1.0

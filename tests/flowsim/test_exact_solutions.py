"""The solver against exact solutions of the Navier-Stokes equations and of potential flow."""

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, Simulation


@pytest.mark.parametrize("sides", [Sides(), Sides(bottom="open", top="open"), Sides.all("open"),
                                   Sides("periodic", "periodic", "open", "open"),
                                   Sides.all("slip"), Sides.all("no_slip"),
                                   Sides.all("periodic"), Sides("periodic", "periodic", "slip", "no_slip"),
                                   Sides("inflow", "open", "periodic", "periodic")])  # fmt: skip
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-11), ("float32", 2e-4)])
def test_velocity_is_divergence_free_to_round_off(sides: Sides, dtype: str, bound: float) -> None:
    stream = (0.0, 0.0) if sides.left in ("slip", "no_slip") else (1.0, 0.0)
    disk = Disk(center=(1.9, 2.1), motion="free")
    sim = Simulation(Grid(48, 32, 1 / 8), sides, [disk], viscosity=0.01, stream=stream, dtype=dtype)
    sim.body_state.applied_force[:] = (0.3, 0.2)
    for _ in range(20):
        sim.step()
    assert np.abs(sim.u).max() > 0.1
    assert sim.max_divergence()[0] < bound


@pytest.mark.parametrize("density", [1.0, 2.0, 10.0])
def test_added_mass_of_a_disk(density: float) -> None:
    """A disk released from rest: (M + M_fluid) a = F, its added mass being the mass of the fluid it displaces."""
    side, cells, duration = 10, 24, 0.1
    disk = Disk(center=(side / 2, side / 2), density=density, motion="free")
    sim = Simulation(Grid(side * cells, side * cells, 1 / cells), Sides.all("slip"), [disk], viscosity=1e-4,
                     stream=(0.0, 0.0))  # fmt: skip
    sim.body_state.applied_force[0, 0] = (0.0, disk.area)
    sim.advance(duration)
    acceleration = sim.body_state.velocity[0, 0] / duration
    # 2 % for the walls at 5 D and the boundary layer, the rest for the cells at the surface that move along
    assert acceleration[1] == pytest.approx(1 / (density + 1), rel=0.08)
    assert abs(acceleration[0]) < 1e-3


def test_free_disk_of_the_fluids_density_drifts_with_the_stream() -> None:
    """Released at the speed of the stream it disturbs nothing, and must neither lag nor oscillate."""
    disk = Disk(center=(2.0, 2.0), motion="free")
    sim = Simulation(Grid(128, 64, 1 / 16), Sides(), [disk], viscosity=0.0025)
    sim.u[:], sim.v[:] = 1.0, 0.0
    sim.body_state.velocity[:, 0] = (1.0, 0.0)
    sim.settle()
    sim.advance(3.0)
    assert sim.body_state.velocity[0, 0] == pytest.approx([1.0, 0.0], abs=1e-4)
    assert sim.body_state.position[0, 0] == pytest.approx([5.0, 2.0], abs=1e-3)
    assert sim.u[0, 2:-2, 2:-2] == pytest.approx(1.0, abs=1e-3)


def test_rotational_added_mass_of_an_ellipse_from_its_torque() -> None:
    """Potential flow: an ellipse turning about its centre has the added inertia pi/8 (a^2 - b^2)^2."""
    from flowsim import Ellipse

    body = Ellipse(center=(3.0, 3.0), motion="free", density=10.0)
    sim = Simulation(
        Grid(192, 192, 1 / 32), Sides.all("slip"), [body], viscosity=1e-4, stream=(0.0, 0.0)
    )
    sim.body_state.applied_torque[:] = 0.05
    sim.advance(0.1)
    a, b = body.semi_axes
    inertia = body.inertia + np.pi / 8 * (a**2 - b**2) ** 2
    assert sim.body_state.angular_velocity[0, 0] == pytest.approx(0.05 * 0.1 / inertia, rel=0.08)

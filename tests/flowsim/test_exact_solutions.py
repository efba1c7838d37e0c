"""The solver against exact solutions of the Navier-Stokes equations and of potential flow."""

import numpy as np
import pytest

from flowsim import Disk, Grid, Sides, Simulation


def taylor_green(n: int, *, integrator: str = "ab2", cfl: float = 0.5, dtype: str = "float64") -> tuple:
    """Run a Taylor-Green vortex that drifts with a uniform stream to t = 0.5 (nu = 0.05): (u, v), exact (u, v)."""
    nu, stream, end = 0.05, (1.0, 0.5), 0.5
    grid = Grid(n, n, 2 * np.pi / n)
    sim = Simulation(grid, Sides.all("periodic"), viscosity=nu, stream=stream, integrator=integrator, cfl=cfl,
                     dtype=dtype)  # fmt: skip

    def exact(t: float) -> np.ndarray:
        decay = np.exp(-2 * nu * t)
        (ux, uy), (vx, vy) = grid.u_faces(), grid.v_faces()
        u = stream[0] + np.cos(ux - stream[0] * t) * np.sin(uy - stream[1] * t) * decay
        v = stream[1] - np.sin(vx - stream[0] * t) * np.cos(vy - stream[1] * t) * decay
        return np.stack([u, v])

    sim.u[0], sim.v[0] = exact(0.0)
    sim.settle()
    sim.advance(end)
    inner = (slice(None), slice(2, -2), slice(2, -2))
    return np.stack([sim.u[0], sim.v[0]])[inner], exact(end)[inner]


def taylor_green_error(n: int, dtype: str = "float64") -> float:
    computed, exact = taylor_green(n, dtype=dtype)
    return float(np.abs(computed - exact).max())


def test_taylor_green_converges_with_second_order() -> None:
    errors = [taylor_green_error(n) for n in (16, 32, 64)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 2e-4
    assert (orders > 1.9).all(), f"errors {errors}, orders {orders}"


@pytest.mark.parametrize(("integrator", "cfl", "order"), [("euler", 0.2, 1), ("ab2", 0.4, 2)])
def test_integrators_have_their_order_in_time(integrator: str, cfl: float, order: int) -> None:
    """Against the same grid at a very small step, so that only the error in time is left."""
    reference, _ = taylor_green(32, integrator=integrator, cfl=cfl / 64)
    errors = [
        np.abs(taylor_green(32, integrator=integrator, cfl=c)[0] - reference).max() for c in (cfl, cfl / 2, cfl / 4)
    ]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx([order, order], abs=0.25)


def test_single_precision_agrees_with_double() -> None:
    assert abs(taylor_green_error(32, dtype="float32") - taylor_green_error(32)) < 1e-5


def lamb_oseen_error(n: int) -> float:
    """Largest error of u_theta within r < 1.5, relative to its maximum, as the vortex doubles its age."""
    side, nu, circulation, born = 10.0, 0.01, 2 * np.pi, 4.0
    grid = Grid(n, n, side / n)
    sim = Simulation(grid, Sides.all("slip"), viscosity=nu, stream=(0.0, 0.0), dtype="float64")

    def u_theta(r: np.ndarray, t: float) -> np.ndarray:
        return circulation / (2 * np.pi * r) * (1 - np.exp(-(r**2) / (4 * nu * t)))

    (ux, uy), (vx, vy) = grid.u_faces(), grid.v_faces()
    centre = side / 2
    r = np.hypot(ux - centre, uy - centre) + 1e-12
    sim.u[0] = -u_theta(r, born) * (uy - centre) / r
    r = np.hypot(vx - centre, vy - centre) + 1e-12
    sim.v[0] = u_theta(r, born) * (vx - centre) / r
    sim.u[0, [2, 2 + n]] = 0.0  # nothing passes the walls
    sim.v[0, :, [2, 2 + n]] = 0.0
    sim.settle()
    sim.advance(born)
    r = np.linspace(0.1, 1.5, 30)
    sampled = sim.sample_velocity(np.stack([centre + r, np.full_like(r, centre)], axis=-1)[None])[0, :, 1]
    return float(np.abs(sampled - u_theta(r, 2 * born)).max() / u_theta(r, 2 * born).max())


def test_lamb_oseen_vortex() -> None:
    """Coarse for its core (2 cells per radius at n = 64), so the error falls faster than second order."""
    coarse, fine = lamb_oseen_error(64), lamb_oseen_error(128)
    assert fine < 0.02
    assert coarse / fine > 4


@pytest.mark.parametrize("sides", [Sides(), Sides.all("open"), Sides.all("slip"), Sides.all("no_slip"),
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


def test_long_sides_are_solved_by_fft_as_exactly() -> None:
    for sides in (Sides(), Sides.all("periodic")):
        sim = Simulation(Grid(16, 300, 1 / 8), sides, [Disk(center=(1.0, 18.0))], viscosity=0.01, dtype="float64")
        assert not sim._plan.by_matrix
        for _ in range(5):
            sim.step()
        assert sim.max_divergence()[0] < 1e-11


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
    """Set free at the speed of the stream it disturbs nothing, and must neither lag nor shake."""
    disk = Disk(center=(2.0, 2.0), motion="free")
    sim = Simulation(Grid(128, 64, 1 / 16), Sides(), [disk], viscosity=0.0025)
    sim.u[:], sim.v[:] = 1.0, 0.0
    sim.body_state.velocity[:, 0] = (1.0, 0.0)
    sim.settle()
    sim.advance(3.0)
    assert sim.body_state.velocity[0, 0] == pytest.approx([1.0, 0.0], abs=1e-4)
    assert sim.body_state.position[0, 0] == pytest.approx([5.0, 2.0], abs=1e-3)
    assert sim.u[0, 2:-2, 2:-2] == pytest.approx(1.0, abs=1e-3)


def test_added_mass_in_rotation_of_an_ellipse_is_found_from_its_torque() -> None:
    """Potential flow: an ellipse turning about its centre has the added inertia pi/8 (a^2 - b^2)^2."""
    from flowsim import Ellipse

    body = Ellipse(center=(3.0, 3.0), motion="free", density=10.0)
    sim = Simulation(Grid(192, 192, 1 / 32), Sides.all("slip"), [body], viscosity=1e-4, stream=(0.0, 0.0))
    sim.body_state.applied_torque[:] = 0.05
    sim.advance(0.1)
    a, b = body.semi_axes
    inertia = body.inertia + np.pi / 8 * (a**2 - b**2) ** 2
    assert sim.body_state.angular_velocity[0, 0] == pytest.approx(0.05 * 0.1 / inertia, rel=0.08)


def test_cylinder_drag_at_reynolds_40() -> None:
    """Unbounded flow has C_D 1.50 to 1.57; the box of 40 D x 40 D (blockage 2.5 %) adds a few per cent."""
    cells, side = 12, 40
    disk = Disk(center=(14.02, side / 2 + 0.01))
    sim = Simulation(Grid(cells * side, cells * side, 1 / cells), Sides(), [disk], viscosity=1 / 40)
    sim.advance(25.0)
    drag = []
    for _ in range(5):
        sim.advance(1.0)
        drag.append(2 * sim.body_state.force[0, 0, 0])
    assert 1.50 < np.mean(drag) < 1.57 * 1.04
    assert abs(2 * sim.body_state.force[0, 0, 1]) < 0.02

import math

import numpy as np
import pytest

from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, Simulation, Union
from flowsim.validation.cylinder import disturb_wake, drag_and_lift
from flowsim.validation.result import Effort, follow

STREAM = Sides(bottom="slip", top="slip")


def both_measures(sim: Simulation, duration: float, after: float) -> tuple[np.ndarray, np.ndarray]:
    """Record (fx, fy, torque) of the first body by penalty and by control volume in every step after a time."""
    volumes = sim.measure_control_volumes()
    rows: list[tuple[list[float], list[float]]] = []

    def record(sim: Simulation) -> np.ndarray:
        state = sim.body_state
        if sim.time[0] > after:
            rows.append(
                (
                    [*state.force[0, 0], state.torque[0, 0]],
                    [*volumes.force[0, 0], volumes.torque[0, 0]],
                ),
            )
        return np.zeros(1, bool)

    sim.advance(duration, stop=record)
    penalty, balance = np.array(rows).transpose(1, 0, 2)
    return penalty, balance


def oscillation(t: float) -> tuple[float, float, float, float, float, float]:
    return (
        2 + 0.2 * math.sin(2 * t),
        2.03,
        0.3 * math.sin(t),
        0.4 * math.cos(2 * t),
        0.0,
        0.3 * math.cos(t),
    )


def pitching(t: float) -> tuple[float, float, float, float, float, float]:
    return 2, 2.03, 0.8 * math.sin(2 * t), 0.0, 0.0, 1.6 * math.cos(2 * t)


@pytest.mark.parametrize(
    "body",
    [
        Disk(center=(2, 2.05)),
        HalfDisk(center=(2, 2.05)),
        Ellipse(center=(2, 2.05), angle=0.4),
        Ellipse(motion=oscillation),
        Ellipse(center=(2, 2.05), angle=0.4, motion="free", density=5),
        HalfDisk(motion=oscillation),
        HalfDisk(motion=pitching),
        Union(parts=[Disk(center=(-0.4, 0), diameter=0.6)], motion=oscillation),
    ],
    ids=[
        "disk",
        "half disk",
        "ellipse",
        "driven ellipse",
        "free ellipse",
        "driven half disk",
        "pitching",
        "about a point aside",
    ],
)
def test_both_measures_of_the_force_agree_within_one_per_cent(body) -> None:
    sim = Simulation(Grid(128, 96, 1 / 24), STREAM, [body], viscosity=1 / 100)
    penalty, balance = both_measures(sim, 1.5, after=0.75)
    scale = np.abs(penalty[:, :2]).max()
    difference = (penalty - balance).mean(axis=0)
    assert np.abs(difference[:2]).max() < 0.01 * scale
    assert abs(difference[2]) < 0.01 * scale


def test_control_volume_that_cuts_another_body_gives_no_force() -> None:
    bodies = [Disk(center=(2, 2)), Ellipse(center=(2.8, 2.0), angle=1.5), Disk(center=(6, 2))]
    sim = Simulation(Grid(128, 64, 1 / 16), STREAM, bodies, viscosity=1 / 100)
    volumes = sim.measure_control_volumes()
    sim.advance_steps(2)
    assert np.isnan(volumes.force[0, :2]).all()
    assert np.isfinite(volumes.force[0, 2]).all()


def test_control_volume_that_cuts_the_image_of_a_body_gives_no_force() -> None:
    """The body is beyond the periodic side, where one that crossed it is, or at its image in the box."""
    forces = []
    for x in (0.6, 8.6):
        bodies = [Disk(center=(2, 2)), Disk(center=(x, 2)), Disk(center=(5, 2))]
        sim = Simulation(
            Grid(128, 64, 1 / 16),
            Sides("periodic", "periodic", "slip", "slip"),
            bodies,
            viscosity=1 / 100,
            mean_velocity=(1.0, None),
        )
        volumes = sim.measure_control_volumes(margin=0.5)
        sim.advance_steps(2)
        forces.append(volumes.force[0, [0, 2]])
        assert np.isnan(volumes.force[0, :2]).all()
    np.testing.assert_array_equal(*forces)
    assert np.isfinite(forces[0][1]).all()


def test_body_that_is_nowhere_has_no_control_volume() -> None:
    bodies = [Disk(center=(2, 2)), Disk(center=(6, 2))]
    sim = Simulation(Grid(128, 64, 1 / 16), STREAM, bodies, viscosity=1 / 100)
    volumes = sim.measure_control_volumes()
    sim.body_state.position[0, 1] = np.nan
    sim.advance_steps(2)
    assert np.isfinite(volumes.force[0, 0]).all()
    assert np.isnan(volumes.force[0, 1]).all()


def test_power_over_time_is_the_work_of_the_impulses() -> None:
    """At a constant velocity V and spin w the work is V . (integral of the force) + w (integral of the torque)."""
    ellipse = Ellipse(motion=lambda t: (2 + 0.2 * t, 2.03 - 0.1 * t, 0.3 + 0.5 * t, 0.2, -0.1, 0.5))
    sim = Simulation(Grid(96, 96, 1 / 24), STREAM, [ellipse], viscosity=1 / 100)
    volumes = sim.measure_control_volumes()
    sim.advance_steps(20)  # the impulsive start
    sim.body_state.impulse[:] = 0.0
    work, balance = 0.0, 0.0
    for _ in range(20):
        sim.step()
        work += sim.power()[0, 0] * sim.dt[0]
        balance += volumes.power()[0, 0] * sim.dt[0]
    expected = np.dot([0.2, -0.1, 0.5], sim.body_state.impulse[0, 0])
    assert work == pytest.approx(expected, rel=1e-9)
    assert balance == pytest.approx(expected, rel=0.05)


def test_advection_conserves_momentum_to_round_off() -> None:
    sim = Simulation(
        Grid(48, 32, 1 / 16),
        Sides.all("periodic"),
        viscosity=1e-3,
        stream=(0.3, 0.2),
        dtype="float64",
    )
    rng = np.random.default_rng(1)
    sim.u[0, 2:-2, 2:-2] += rng.normal(size=(48, 32))
    sim.v[0, 2:-2, 2:-2] += rng.normal(size=(48, 32))
    sim.settle()
    before = [field[0, 2:-2, 2:-2].sum() for field in (sim.u, sim.v)]
    sim.advance_steps(20)
    after = [field[0, 2:-2, 2:-2].sum() for field in (sim.u, sim.v)]
    assert after == pytest.approx(before, abs=1e-10)
    assert np.abs(sim.u - 0.3).max() > 0.1  # the fluid did move


# --- the far field -------------------------------------------------------------------------------------------------


def test_initial_far_field_of_a_disk_is_its_dipole() -> None:
    size, n = 4.0, 32
    sides = Sides.all("far_field")
    sim = Simulation(
        Grid(int(size * n), int(size * n), 1 / n), sides, [Disk(center=(2, 2))], viscosity=1e-3
    )
    x, y = sim.grid.v_faces()
    edge = (0, slice(2, -2), 2 + sim.grid.ny)  # v on the upper side
    rx, ry = x[edge[1:]] - 2, y[edge[1:]] - 2
    # potential flow about a disk of radius 1/2: v = -2 R^2 x y / r^4
    expected = -2 * 0.25 * rx * ry / (rx**2 + ry**2) ** 2
    assert np.abs(sim.v[edge] - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cells", [64, 160])
def test_far_field_matches_direct_biot_savart_sum(cells: int, dtype: str) -> None:
    """Direct Biot-Savart sum over all corners; the sides use blocks of corners, at a point every few cells."""
    nx, ny, h = cells, cells // 2, 8 / cells
    sim = Simulation(
        Grid(nx, ny, h), Sides.all("far_field"), viscosity=1e-3, stream=(0.0, 0.0), dtype=dtype
    )
    (ux, uy), (vx, vy) = sim.grid.u_faces(), sim.grid.v_faces()
    u, v = np.zeros(sim.grid.padded_shape), np.zeros(sim.grid.padded_shape)
    for x, y, strength in ((2.0, 2.5, 1.0), (5.5, 1.4, -1.0), (4.0, 2.0, 0.5)):
        of_u, of_v = (
            strength * -np.expm1(-r2 / 0.1) / r2
            for r2 in ((ux - x) ** 2 + (uy - y) ** 2, (vx - x) ** 2 + (vy - y) ** 2)
        )
        u -= (uy - y) * of_u
        v += (vx - x) * of_v
    sim.add_velocity(0, u, v)
    sim.settle()
    u, v = (np.float64(sim.to_host(field)[0]) for field in (sim.u, sim.v))
    i, j = (part.ravel() for part in np.mgrid[1:nx, 1:ny])
    g = (v[i + 2, j + 2] - v[i + 1, j + 2] - u[i + 2, j + 2] + u[i + 2, j + 1]) * h

    def induced(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return u - iv of point vortices."""
        return (g / (x[:, None] + 1j * y[:, None] - (i + 1j * j) * h)).sum(axis=1) / (2j * np.pi)

    along_x, along_y = (np.arange(nx) + 0.5) * h, (np.arange(ny) + 0.5) * h
    zero_x, zero_y = np.zeros(nx), np.zeros(ny)
    sides = [
        (u[2, 2:-2], induced(zero_y, along_y).real),
        (u[nx + 2, 2:-2], induced(zero_y + nx * h, along_y).real),
        (v[2:-2, 2], -induced(along_x, zero_x).imag),
        (v[2:-2, ny + 2], -induced(along_x, zero_x + ny * h).imag),
    ]
    for found, expected in sides:
        assert found == pytest.approx(expected, abs=0.01 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("parts", "counts"),
    [([0.5], True), ([0.02] * 10, True), ([0.002], False), ([0.0002] * 10, False)],
    ids=["half", "ten of 1/50", "1/500", "ten of 1/5000"],
)
def test_drag_after_steps_of_any_length(parts: list[float], counts: bool) -> None:
    """Far-field sides and the pressure lag behind the flow by a step, which a shorter one must not make up at once.

    The drag in the short steps themselves counts down to a fiftieth of a step.
    """
    sim = Simulation(Grid(128, 64, 1 / 12), bodies=[Disk(center=(3.0, 2.7))], viscosity=0.02)
    sim.advance(2.0)
    sim.advance_steps(3)
    expected, dt = sim.body_state.force[0, 0, 0], sim.dt.copy()
    drag = []
    for part in parts:
        sim.step(until=sim.time + part * dt)
        drag.append(sim.body_state.force[0, 0, 0])
    after = []
    for _ in range(5):
        sim.advance_steps(1)
        after.append(sim.body_state.force[0, 0, 0])
    assert np.array(after) == pytest.approx(expected, rel=0.04)
    if counts:
        assert np.array(drag) == pytest.approx(expected, rel=0.04)


def test_drag_with_far_field_depends_little_on_the_box() -> None:
    def drag(width: float, height: float, kind: str) -> float:
        n, left = 8, "far_field" if kind == "far_field" else "inflow"
        disk = Disk(center=(0.4 * width + 0.01, height / 2))
        grid = Grid(int(width * n), int(height * n), 1 / n)
        sim = Simulation(grid, Sides(left, "outflow", kind, kind), [disk], viscosity=1 / 40)
        sim.advance(12.0)
        return float(sim.body_state.force[0, 0, 0])

    small, large = drag(12, 6, "far_field"), drag(24, 16, "far_field")
    assert abs(small / large - 1) < 0.025
    assert drag(12, 6, "slip") / large - 1 > 0.15


def drag_of_half_disk(width: float, height: float, end: float) -> np.ndarray:
    """Mean C_D over each 10 D/U of a half disk at Re 400 in far-field sides, its flat side 1.8 D or more behind one."""
    n = 16
    body = HalfDisk(center=(1.8 if width < 10 else 3.0, height / 2))
    sim = Simulation(
        Grid(int(width * n), int(height * n), 1 / n),
        Sides(),
        [body],
        viscosity=1 / 400,
        dtype="float32",
    )
    disturb_wake(sim)
    history = follow(sim, end, Effort(), drag_and_lift)
    parts = (history[:, 0] // 10.0).astype(int)
    return np.array([history[parts == part, 1].mean() for part in range(int(end // 10))])


def test_drag_of_a_wide_wake_in_a_short_box_matches_a_long_one() -> None:
    """C_D is 1.90 to 1.93 in boxes of 40 x 24 and 24 x 12 D (docs/studies/boxes.md), and here within 5 %, steadily.

    It was 1.75, and drifted, when the wake was assumed to continue beyond the side with its deficit at the side.
    """
    late = drag_of_half_disk(8, 4, 140.0)[10:]
    assert late == pytest.approx(1.93, rel=0.05)


def test_vortices_that_leave_do_not_come_back() -> None:
    """Before, strong vortices turned back at the outflow side, grew and closed the wake: C_D fell to 0.35."""
    assert drag_of_half_disk(12, 8, 80.0)[2:].min() > 1.7

"""The state of a batch: independence, restarts, driven bodies, and what is refused."""

import tracemalloc

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from flowsim import Disk, Ellipse, Grid, HalfDisk, Sides, Simulation, polygon
from flowsim.kernels.layout import (
    CLOCK_COLUMNS,
    DT,
    RATIO,
    SPEED,
    STATE_COLUMNS,
    UNTIL,
    VISCOSITY,
)
from flowsim.kernels.time import begin


def wake(batch: int = 1, **options) -> Simulation:
    bodies = [HalfDisk(center=(1.8, 2.0)), Ellipse(center=(3.6, 2.0), motion="free")]
    return Simulation(Grid(64, 32, 1 / 8), Sides(bottom="slip", top="slip"), bodies, viscosity=1 / 400, batch=batch,
                      **options)  # fmt: skip


STARTS = [(3.6, 2.0), (3.3, 2.2), (3.8, 1.8)]


def test_batch_equals_single_simulations_bit_for_bit() -> None:
    viscosities = [1 / 100, 1 / 200, 1 / 400]
    batch = wake(3)
    batch.viscosity[:] = viscosities
    batch.body_state.position[:, 1] = STARTS
    batch.settle()
    batch.body_state.applied_torque[:, 1] = 0.01
    batch.advance(2.0)
    assert len(set(batch.steps.tolist())) > 1  # each used its own time step
    for k in range(3):
        single = wake()
        single.viscosity[:] = viscosities[k]
        single.body_state.position[0, 1] = STARTS[k]
        single.settle()
        single.body_state.applied_torque[:, 1] = 0.01
        single.advance(2.0)
        for name, array in single.get_state().items():
            np.testing.assert_array_equal(array, batch.get_state(k)[name], err_msg=name)


def test_inactive_simulation_is_not_changed() -> None:
    sim = wake(2)
    sim.advance(0.5)
    before = sim.get_state(1)
    sim.advance(0.5, active=np.array([True, False]))
    assert sim.time == pytest.approx([1.0, 0.5])
    for name, array in sim.get_state(1).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_diverged_simulation_does_not_affect_others() -> None:
    sim, alone = wake(2), wake()
    sim.u[0, 30, 16] = np.inf
    sim.advance(1.0)
    alone.advance(1.0)
    assert sim.diverged.tolist() == [True, False]
    np.testing.assert_array_equal(sim.u[1], alone.u[0])
    sim.reset(np.array([True, False]))
    sim.advance(0.5, active=np.array([True, False]))
    assert not sim.diverged.any()


def test_restart_continues_bit_for_bit() -> None:
    first, second = wake(), wake()
    first.advance(1.0)
    second.set_state(0, first.get_state(0))
    first.advance(1.0)
    second.advance(1.0)
    np.testing.assert_array_equal(first.u, second.u)
    np.testing.assert_array_equal(first.body_state.angle, second.body_state.angle)


@pytest.mark.parametrize("cells", [4_000_000, 10**300])
def test_grids_that_exceed_the_memory_are_refused(cells: int) -> None:
    with pytest.raises(
        MemoryError, match=r"cells in float32 need .* GiB of memory, but this machine has .*"
    ):
        Simulation(Grid(cells, cells, 1.0 / cells), Sides(), viscosity=1e-2)


def test_a_state_of_another_grid_is_refused() -> None:
    other = Simulation(
        Grid(32, 32, 1 / 8),
        Sides(bottom="slip", top="slip"),
        [Disk(center=(2.0, 2.0)), Disk(center=(3.0, 2.0))],
        viscosity=0.1,
    )
    with pytest.raises(ValueError, match="the state's u is"):
        wake().set_state(0, other.get_state(0))


def test_advance_ends_on_time_or_at_the_stop_condition() -> None:
    sim = wake(2)
    stopped = sim.advance(1.0, stop=lambda s: np.array([False, s.time[1] > 0.4]))
    assert stopped.tolist() == [False, True]
    assert sim.time[0] == pytest.approx(1.0, abs=1e-12)
    assert 0.4 < sim.time[1] < 0.5


def test_drag_of_a_towed_disk_equals_that_of_a_fixed_one_in_a_stream() -> None:
    """The drag is the same in the fixed and in the moving frame, within the discretisation error."""
    cells, side, end = 16, 12, 2.0
    grid = Grid(side * cells, side * cells, 1 / cells)

    def drag(sim: Simulation) -> float:
        values = []
        sim.advance(end)
        for _ in range(20):
            sim.advance(0.05)
            values.append(sim.body_state.force[0, 0, 0])
        return 2 * float(np.mean(values))

    sides = Sides(right="open", bottom="slip", top="slip")
    fixed = drag(Simulation(grid, sides, [Disk(center=(5.0, 6.0))], viscosity=1 / 40))
    driven = Disk(center=(8.0, 6.0), motion=lambda t: (8.0 - t, 6.0, 0.0, -1.0, 0.0, 0.0))
    moving = drag(Simulation(grid, sides, [driven], viscosity=1 / 40, stream=(0.0, 0.0)))
    # it moves to the left and is pushed to the right
    assert moving == pytest.approx(fixed, rel=0.06)


def test_sampling_is_exact_for_a_linear_field() -> None:
    sim = Simulation(
        Grid(32, 16, 1 / 8), Sides("periodic", "periodic", "slip", "slip"), viscosity=0.1
    )
    (ux, uy), (vx, vy) = sim.grid.u_faces(), sim.grid.v_faces()
    sim.u[0], sim.v[0] = 1 + 2 * ux - 3 * uy, 0.5 - vx + 2 * vy
    points = np.array([[[1.03, 0.77], [2.5, 1.111], [0.7, 1.4]]])
    x, y = points[..., 0], points[..., 1]
    expected = np.stack([1 + 2 * x - 3 * y, 0.5 - x + 2 * y], axis=-1)
    np.testing.assert_allclose(sim.sample_velocity(points), expected, atol=1e-5)


def test_the_pressure_at_points_is_exact_for_a_linear_field() -> None:
    """Each simulation has its own; beyond the outermost centres it is the edge value."""
    grid = Grid(32, 16, 1 / 8)
    sim = Simulation(grid, Sides(), viscosity=0.1, batch=2)
    x, y = np.meshgrid((np.arange(32) + 0.5) / 8, (np.arange(16) + 0.5) / 8, indexing="ij")
    sim.pressure[0], sim.pressure[1] = 1 + 2 * x - 3 * y, x
    points = np.array([[1.03, 0.77], [2.5, 1.111], [3.9375, 1.9375], [9.0, -1.0]])
    inside = np.clip(points, 1 / 16, [4 - 1 / 16, 2 - 1 / 16])
    expected = [1 + 2 * inside[:, 0] - 3 * inside[:, 1], inside[:, 0]]
    np.testing.assert_allclose(sim.sample_pressure(points), expected, atol=1e-5)


def test_vorticity_of_rigid_rotation_is_twice_its_rate() -> None:
    sim = Simulation(Grid(32, 32, 1 / 16), Sides.all("no_slip"), viscosity=0.1, stream=(0.0, 0.0))
    (_, uy), (vx, _) = sim.grid.u_faces(), sim.grid.v_faces()
    sim.u[0], sim.v[0] = -0.7 * (uy - 1), 0.7 * (vx - 1)
    np.testing.assert_allclose(sim.vorticity()[0, 2:-2, 2:-2], 1.4, rtol=1e-4)


@pytest.mark.parametrize(("body", "area", "second_moment"), [
    (Ellipse(major=1.0, aspect=0.2), 0.157080, 0.010210),
    (Disk(diameter=1.0), 0.785398, 0.098175),
    (HalfDisk(diameter=1.0), 0.392699, 0.049087),
])  # fmt: skip
def test_masses_of_bodies(body, area: float, second_moment: float) -> None:
    """Closed forms, and the sum over the cells that the mask covers."""
    assert body.area == pytest.approx(area, rel=1e-4)
    assert body.second_moment == pytest.approx(second_moment, rel=1e-4)
    placed = type(body)(center=(1.0, 1.0), angle=0.3)
    sim = Simulation(Grid(256, 256, 1 / 128), Sides.all("open"), [placed], viscosity=0.1)
    assert sim.solid().sum() / 128**2 == pytest.approx(area, rel=0.01)


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: Grid(63, 32, 0.1), "nx = 63: the number of cells per side must be an even integer"),
    (lambda: Grid(64, 4, 0.1), "ny = 4"),
    (lambda: Grid(64, 32, -0.1), "h = -0.1: the grid spacing must be positive"),
    (lambda: Sides(left="wall"), "left = 'wall': a side is one of periodic, inflow"),
    (lambda: Sides(left="periodic"), "left and right must both be periodic"),
    (lambda: Sides(top="slip", top_velocity=1.0), "top_velocity = 1.0: only a no_slip side can move"),
    (lambda: Disk(diameter=-1.0), "the size of a body must be positive"),
    (lambda: Disk(density=0.0), "density = 0.0"),
    (lambda: Simulation(Grid(16, 16, 0.1), viscosity=-0.01), "viscosity = -0.01: it must be positive"),
    (lambda: Simulation(Grid(16, 16, 0.1), viscosity=0.01, cfl=2.0), "cfl = 2.0: the CFL number must lie in"),
    (lambda: Simulation(Grid(16, 16, 0.1), viscosity=0.01, dtype="float16"), "dtype = 'float16'"),
    (lambda: Simulation(Grid(16, 16, 0.1), viscosity=0.01, integrator="rk4"), "integrator = 'rk4'"),
    (lambda: Simulation(Grid(16, 16, 0.1), viscosity=0.01, threads=1000), "threads = 1000"),
    (lambda: Simulation(Grid(16, 16, 0.1), Sides("inflow", "slip", "slip", "slip"), viscosity=0.1), "cannot leave it"),
])  # fmt: skip
def test_invalid_values_are_refused_in_one_sentence(make, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_step_allocates_nothing_that_grows_with_grid_or_batch() -> None:
    _nrt_python.memsys_enable_stats()

    def allocations(n: int, batch: int) -> tuple[int, int]:
        """Count what compiled code allocates in ten steps, and the bytes that Python and NumPy add at most."""
        bodies = [HalfDisk(center=(1.8, 2.0)), Ellipse(center=(3.8, 2.0), motion="free")]
        sim = Simulation(
            Grid(8 * n, 4 * n, 1 / n),
            Sides(bottom="slip", top="slip"),
            bodies,
            viscosity=1 / 400,
            batch=batch,
        )
        sim.advance_steps(5)
        before = rtsys.get_allocation_stats().alloc
        sim.advance_steps(10)
        counted = rtsys.get_allocation_stats().alloc - before
        tracemalloc.start()
        sim.advance_steps(5)
        tracemalloc.reset_peak()
        held = tracemalloc.get_traced_memory()[0]
        sim.advance_steps(10)
        peak = tracemalloc.get_traced_memory()[1] - held
        tracemalloc.stop()
        return counted, peak

    few, small = allocations(8, 1)
    many, large = allocations(16, 8)
    # numba keeps a record of every array that is passed to it, whatever its size
    assert many == few
    assert small < 16_000
    assert large < 16_000 < 8 * 128 * 64 * 4


def wake_of_disk(**options) -> Simulation:
    options = {"viscosity": 1 / 50, "dtype": "float64"} | options
    return Simulation(Grid(48, 32, 1 / 8), Sides(), [Disk(center=(2.0, 2.01))], **options)


def test_flows_that_have_reached_their_end_take_no_step() -> None:
    sim = wake_of_disk(batch=2)
    sim.advance(0.5)
    before = [sim.get_state(b) for b in range(2)]
    sim.advance(0.0)
    sim.advance([1e-12, 0.0])
    sim.step(until=sim.time - 0.1)
    for b in range(2):
        for name, array in sim.get_state(b).items():
            np.testing.assert_array_equal(array, before[b][name], err_msg=name)
    sim.advance(np.array([0.3, 0.0]))
    np.testing.assert_allclose(sim.time, [0.8, 0.5])
    assert not sim.diverged.any()
    with pytest.raises(ValueError, match="a time to end at is a number, not NaN"):
        sim.step(until=np.array([1.0, np.nan]))


def test_advancing_in_parts_with_a_rest_of_round_off_ends_on_time() -> None:
    sim, end = wake_of_disk(), 0.7
    while sim.time[0] < end:
        sim.advance(min(0.1, end - sim.time[0]))
        if end - sim.time[0] < 1e-9:
            break
    assert not sim.diverged[0]
    assert np.isfinite(sim.body_state.force).all()
    sim.advance(max(0.0, end - sim.time[0]))
    assert sim.time[0] == pytest.approx(end, abs=1e-9)


@pytest.mark.parametrize(
    ("last", "ratio"), [(0.04, 0.5), (0.0021, 0.02 / 0.0021), (1e-3, 0.0), (1e-6, 0.0)]
)
def test_a_step_after_a_much_shorter_one_is_an_euler_step(last: float, ratio: float) -> None:
    clock = np.zeros(CLOCK_COLUMNS)
    clock[[DT, UNTIL, SPEED, VISCOSITY]] = last, 0.02, 1.0, 0.001
    begin(clock, np.zeros((0, STATE_COLUMNS)), 0.1, 0.5, 1.0, True)
    assert clock[DT] == pytest.approx(0.02)
    assert clock[RATIO] == pytest.approx(ratio)


def test_bodies_on_a_side_have_the_same_force_after_a_restart() -> None:
    """The faces on a side are not predicted, but the force on a body that covers a part of it counts them."""
    step = polygon([(-1, -0.5), (1, -0.5), (1, 0.5), (-1, 0.5)], center=(1.0, 0.5))
    sides = Sides("inflow", "outflow", "no_slip", "no_slip")
    sim, again = (
        Simulation(Grid(48, 16, 1 / 8), sides, [step], viscosity=1 / 100) for _ in range(2)
    )
    for flow in (sim, again):
        flow.set_inflow("left", lambda s: np.maximum(s - 1.0, 0.0))
        flow.reset()
    sim.advance(1.0)
    again.set_state(0, sim.get_state())
    for flow in (sim, again):
        flow.step()
    np.testing.assert_array_equal(again.body_state.force, sim.body_state.force)

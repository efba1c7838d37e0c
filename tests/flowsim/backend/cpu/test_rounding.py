"""Rounding does not depend on the addresses of arrays."""

import math

import numpy as np
import pytest

from flowsim import Disk, Ellipse, Grid, Simulation
from flowsim.backend import cpu
from flowsim.backend.cpu.device import CACHE_LINE, MARGIN
from flowsim.backend.cpu.room import PLACE_COLUMNS, ROW_SUMS, Room
from flowsim.boundary import Side
from flowsim.grid import GHOSTS
from flowsim.kernels.layout import CLOCK_COLUMNS, DT, FLAGS, RATIO, SPEED, VISCOSITY
from flowsim.kernels.records import Box, Clock, Fields

NX, NY = 24, 32
FACES, CELLS = (1, NX + 2 * GHOSTS, NY + 2 * GHOSTS), (1, NX, NY)
SHAPES = {
    "u": FACES, "v": FACES, "new_u": FACES, "new_v": FACES, "old_u": FACES, "old_v": FACES, "p": CELLS, "phi": CELLS,
    "rows": (1, 5, NY + 16), "given": (1, 4, 2, NY + 2 * GHOSTS),
}  # fmt: skip
SIDES = {
    "wake": [Side.INFLOW, Side.OUTFLOW, Side.SLIP, Side.SLIP],
    "open": [Side.INFLOW, Side.OUTFLOW, Side.OPEN, Side.OPEN],
    "periodic": [Side.PERIODIC] * 4,
}


def side_by_side(order, dtype) -> dict[str, np.ndarray]:
    """Return arrays with given values in one piece of memory, a margin apart, in this order."""
    values = np.random.default_rng(0)
    numbers = {name: values.standard_normal(shape).astype(dtype) for name, shape in SHAPES.items()}
    size = np.dtype(dtype).itemsize
    memory = np.zeros(
        sum(MARGIN + 64 + math.prod(shape) * size for shape in SHAPES.values()), np.uint8
    )
    arrays, start = {}, -memory.ctypes.data % 64
    for name, gap in order:
        start += gap
        stop = start + numbers[name].nbytes
        arrays[name] = memory[start:stop].view(dtype).reshape(SHAPES[name])
        arrays[name][...] = numbers[name]
        start = stop + MARGIN
    return arrays


def a_step(a: dict[str, np.ndarray], sides: np.ndarray) -> dict[str, np.ndarray]:
    active, clock, h = np.ones(1, np.bool_), np.zeros((1, CLOCK_COLUMNS)), 0.1
    clock[0, [DT, VISCOSITY, RATIO]] = 0.01, 0.01, 0.9
    names = ("u", "v", "new_u", "new_v", "old_u", "old_v", "p", "phi")
    under_bodies = np.zeros((2, 1, 0, 0), a["u"].dtype)
    fields = Fields(*(a[name] for name in names), under_bodies, under_bodies)
    time = Clock(clock, np.zeros(1, np.int64), np.ones((FLAGS, 1), np.bool_))
    box = Box(h, sides, a["given"], np.zeros(2), np.zeros(2))
    cpu.fill_ghosts(active, fields, box)
    room = Room(a["rows"], np.zeros((0, PLACE_COLUMNS)), np.zeros((0, NX, ROW_SUMS)))
    cpu.predict(active, fields, time, box, room)
    cpu.predict_open_sides(active, fields, time, box)
    cpu.update_sides(active, fields, time, box)
    cpu.divergence(active, fields.new_u, fields.new_v, fields.phi, sides)
    speeds = np.zeros((1, 1), a["u"].dtype)
    cpu.correct(active, fields, time, box, True, speeds)
    cpu.find_speed(active, fields, time, box, speeds)
    return {"speed": clock[0, SPEED]} | {name: a[name].copy() for name in SHAPES}


@pytest.mark.timeout(1800)  # a busy machine may take long to compile
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", SIDES)
def test_step_does_not_depend_on_the_placement_of_arrays(sides, dtype) -> None:
    places, kinds = np.random.default_rng(1), np.array([int(side) for side in SIDES[sides]])
    first = a_step(side_by_side([(name, 0) for name in SHAPES], dtype), kinds)
    for _ in range(100):
        gaps = 16 * places.integers(0, 4, len(SHAPES))
        order = zip(places.permutation(list(SHAPES)).tolist(), gaps.tolist(), strict=True)
        for name, array in a_step(side_by_side(order, dtype), kinds).items():
            np.testing.assert_array_equal(array, first[name], err_msg=name)


def test_sweep_arrays_are_aligned_and_a_margin_apart() -> None:
    arrays = [cpu.Device().zeros((3, 5), np.float32) for _ in range(100)]
    starts = sorted(array.ctypes.data for array in arrays)
    assert min(np.diff(starts)) >= arrays[0].nbytes + MARGIN
    assert not any(start % CACHE_LINE for start in starts)


def end_at_different_times(threads: int, who: list[int]) -> Simulation:
    bodies = [Disk(center=(1.0, 1.5)), Ellipse(center=(2.0, 1.6), motion="free")]
    viscosity = np.array([0.01, 0.02, 0.005, 0.01, 0.03])[who]
    grid = Grid(48, 48, 1 / 16)
    sim = Simulation(grid, bodies=bodies, viscosity=viscosity, batch=len(who), threads=threads)
    sim.advance(np.linspace(0.1, 0.3, 5)[who])
    sim.settle(np.array([True, False, True, False, True])[who])
    sim.advance_steps(4)
    sim.advance(0.05, stop=lambda flows: flows.steps % 7 == 0)
    return sim


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_batch_on_any_number_of_threads_equals_single_simulations(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there are fewer simulations than threads, and threads share the rows of the last one."""
    monkeypatch.setattr("flowsim.backend.cpu.program.CELLS_AT_ONCE", 3 * 48 * 48)
    monkeypatch.setattr("flowsim.backend.cpu.program.TURN", 1e-3)
    monkeypatch.setattr("flowsim.backend.cpu.program.TRY_AGAIN", 2)
    everyone = list(range(5))
    batch = end_at_different_times(threads, everyone)
    for b in everyone:
        alone, shared = (end_at_different_times(n, [b])._state_arrays() for n in (1, threads))
        for name, array in batch._state_arrays().items():
            np.testing.assert_array_equal(array[b], alone[name][0], err_msg=name)
            np.testing.assert_array_equal(shared[name][0], alone[name][0], err_msg=name)

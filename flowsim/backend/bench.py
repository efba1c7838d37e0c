"""Benchmark of the solver: cell updates per second and share of each sweep, compared with jax-cfd if it is installed.

The lower bound ("floor") of the time of a step is its memory traffic. In float32 a step reads and writes u, v, p, the
rates and the predicted velocity about once each, some 88 bytes per cell. Bandwidth depends on the cache level that
holds the state, so each row measures it with a triad a = b + s c over arrays of the state's size, with the same threads
in the same run.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from flowsim.backend.cpu import cores, penalty
from flowsim.backend.cpu.compiling import Task, divided, rows_of
from flowsim.backend.cpu.program import Program
from flowsim.bodies import Ellipse, HalfDisk
from flowsim.bodies.swimmers import carangiform
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation

CASES: tuple[tuple[int, int, int], ...] = (
    (128, 64, 1),
    (128, 64, 24),
    (256, 128, 1),
    (512, 256, 1),
    (1024, 512, 1),
)
"""Rows: cells along x and y, and number of simulations in the batch."""
WAKE_BODIES = "D-section and ellipse"
"""Bodies in the flows of those rows."""
BUSY_CASES: tuple[tuple[int, int, int], ...] = ((128, 64, 24), (256, 128, 1), (1024, 512, 1))
"""Rows that are also measured on several threads next to one busy process."""
SWIMMERS = (0, 1, 4, 20)
"""Numbers of swimmers in the rows that measure the cost of many bodies."""
SCHOOL_CELLS = 640, 320
"""Grid of those rows: 64 cells per body length in a box of 10 x 5 lengths, as in the preset swimmer_school/default."""
THREADS = (1, 2)
PEER_CELLS = 256 * 128
"""Cells of the smallest single simulation that is compared with jax-cfd."""
BYTES_PER_CELL = 88
"""Memory traffic of a step that reads and writes every array about once."""
STATE_BYTES_PER_CELL = 44
"""Memory of a float32 simulation: velocities old and new, rates, pressure, its change and modes, shares of bodies."""
MEMORY_BYTES = 192 * 2**20
"""Size of arrays that do not fit into any cache."""


def bench_solver(
    say: Callable[[str], None],
    *,
    full: bool = False,
    seconds: float = 2.0,
    threads: tuple[int, ...] = THREADS,
) -> list[dict[str, Any]]:
    """Measure whole float32 steps: the wake of a D-section with a free ellipse in it, and schools of swimmers.

    Parameters
    ----------
    say
        Called with a progress message before each row.
    full
        Measure every number of threads, not only the largest.
    seconds
        Time spent on each measurement.
    threads
        Numbers of threads; those larger than the number of cores of this process are skipped.

    Returns
    -------
    list of dict
        One row per measurement, with ``nx``, ``ny``, ``batch``, ``threads``, ``backend``, ``dtype``, ``ms_per_step``,
        ``cells_per_second``, ``peer``, ``peer_cells_per_second`` and ``ratio``. The last three are None without a peer
        (jax-cfd), which chooses its own number of threads and is only compared with our largest one. Both times are
        medians over blocks of steps, measured alternately in the same run. ``bandwidth`` and ``memory_bandwidth``, in
        bytes per second, are those of arrays of the state's size and of arrays that fit into no cache; ``floor_ms`` is
        the time for ``bytes_per_cell`` at ``bandwidth``, ``times_floor`` the time of a step relative to it, and
        ``stages`` the share of each sweep in the time of a step on one thread. ``bodies`` describes the bodies, and
        ``busy`` is 1 next to one busy process, else 0. Rows of swimmers also have ``ms_per_swimmer``, the additional
        time of a step per swimmer.
    """
    counts = [n for n in threads if n <= cores()]
    counts = counts if full else counts[-1:]
    rows: list[dict[str, Any]] = []
    total = len(counts) * (len(CASES) + len(SWIMMERS)) + sum(n > 1 for n in counts) * len(
        BUSY_CASES
    )
    for count in counts:
        memory = _bandwidth(MEMORY_BYTES, count)
        for nx, ny, batch in CASES:
            say(f"{len(rows) + 1}/{total}: {batch} x {nx}x{ny}, {count} threads")
            sim = _wake(nx, ny, batch, count)
            run = _wake_steps(sim)
            with_peer = count == counts[-1] and batch == 1 and nx * ny >= PEER_CELLS
            seconds_each = _medians(run, _peer_step(nx, ny) if with_peer else None, seconds)
            row = _row((nx, ny, batch), count, memory, seconds_each)
            rows.append(row | {"bodies": WAKE_BODIES, "stages": stages(sim)})
        for nx, ny, batch in BUSY_CASES if count > 1 else ():
            say(f"{len(rows) + 1}/{total}: {batch} x {nx}x{ny}, {count} threads, one busy process")
            sim = _wake(nx, ny, batch, count)
            with _busy_process():
                row = _row(
                    (nx, ny, batch), count, memory, _medians(_wake_steps(sim), None, seconds)
                )
            rows.append(row | {"bodies": WAKE_BODIES, "stages": stages(sim), "busy": 1})
        alone = 0.0
        for swimmers in SWIMMERS:
            say(f"{len(rows) + 1}/{total}: {swimmers} swimmers, {count} threads")
            sim = _school(swimmers, count)
            row = _row(
                (*SCHOOL_CELLS, 1), count, memory, _medians(sim.advance_steps, None, seconds)
            )
            row |= {"bodies": f"{swimmers} swimmers", "stages": stages(sim)}
            if swimmers == 0:
                alone = row["ms_per_step"]
            else:
                row["ms_per_swimmer"] = (row["ms_per_step"] - alone) / swimmers
            rows.append(row)
    return rows


def _row(
    sizes: tuple[int, int, int], threads: int, memory: float, seconds: tuple[float, float | None]
) -> dict[str, Any]:
    """Return the row of a case from the seconds per step of this solver and of the peer, if there is one."""
    (nx, ny, batch), (ours, theirs) = sizes, seconds
    cells = nx * ny * batch
    bandwidth = _bandwidth(STATE_BYTES_PER_CELL * cells, threads)
    floor = BYTES_PER_CELL * cells / bandwidth
    peer = None if theirs is None else f"jax-cfd {importlib.metadata.version('jax-cfd')}"
    return {
        "nx": nx,
        "ny": ny,
        "batch": batch,
        "threads": threads,
        "backend": "cpu",
        "dtype": "float32",
        "busy": 0,
        "ms_per_step": 1e3 * ours,
        "cells_per_second": cells / ours,
        "peer": peer,
        "peer_cells_per_second": None if theirs is None else cells / theirs,
        "ratio": None if theirs is None else theirs / ours,
        "bytes_per_cell": BYTES_PER_CELL,
        "bandwidth": bandwidth,
        "memory_bandwidth": memory,
        "floor_ms": 1e3 * floor,
        "times_floor": ours / floor,
    }


def printed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row formatted for printing."""
    ratio, peer = row["ratio"], row["peer_cells_per_second"]
    return {
        "grid": f"{row['batch']} x {row['nx']}x{row['ny']}",
        "bodies": row.get("bodies", WAKE_BODIES),
        "threads": row["threads"],
        "beside": "a busy process" if row.get("busy") else "",
        "ms per step": f"{row['ms_per_step']:.3f}",
        "M cells/s": f"{row['cells_per_second'] / 1e6:.0f}",
        "jax-cfd": "" if peer is None else f"{peer / 1e6:.0f}",
        "ratio": "" if ratio is None else f"{ratio:.2f}",
        "GB/s": f"{row['bandwidth'] / 1e9:.0f}",
        "times floor": f"{row['times_floor']:.1f}",
        "ms per swimmer": f"{row['ms_per_swimmer']:.3f}" if "ms_per_swimmer" in row else "",
        "stages": ", ".join(f"{name} {100 * share:.0f} %" for name, share in row["stages"].items()),
    }


@contextmanager
def _busy_process() -> Iterator[None]:
    """Keep one core busy inside the context."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@divided
def _triad(task: Task, a: Any, b: Any, c: Any, s: float) -> None:
    factor = a.dtype.type(s)
    start, stop = rows_of(task, 0, len(a))
    for i in range(start, stop):
        a[i] = b[i] + factor * c[i]


def _bandwidth(total: int, threads: int) -> float:
    """Return the best bandwidth, in bytes per second, of a triad over three arrays of ``total`` bytes together."""
    n = total // 12
    arrays = [np.ones(n, np.float32) for _ in range(3)]
    one = np.ones(1, np.bool_)
    program = Program(lambda: _triad(one, *arrays, 0.5), lambda: None, n, threads)
    best = np.inf
    for _ in range(20):
        repeats = max(1, 2**23 // n)  # long enough for the clock
        begin = time.perf_counter()
        program.repeat(repeats)
        best = min(best, (time.perf_counter() - begin) / repeats)
    return 12 * n / best


@contextmanager
def timed_programs(spent: dict[str, float]) -> Iterator[None]:
    """Add the run time of every CPU program, in seconds, to ``spent`` under the name of its sequence."""
    repeat = Program.repeat

    def timed(program: Program, steps: int | None) -> None:
        begin = time.perf_counter()
        repeat(program, steps)
        name = program.name
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin

    try:
        Program.repeat = timed  # type: ignore[assignment, method-assign]
        yield
    finally:
        Program.repeat = repeat  # type: ignore[method-assign]


def stages(sim: Simulation, steps: int = 20) -> dict[str, float]:
    """Return the share of every sweep in the time of a step on one thread; all sweeps of the penalty count as one.

    This advances the simulation by ``steps`` steps.
    """
    spent: dict[str, float] = {}
    running, sim._until[:] = np.flatnonzero(~sim.diverged), np.inf
    for _ in range(steps):
        for call in sim._step.calls():
            begin = time.perf_counter()
            for b in running:
                call.run(Task(int(b), 0, 1, 0))
            sweep = call.sweep
            name = "penalize" if sweep.__module__ == penalty.__name__ else sweep.name
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin
    whole = sum(spent.values())
    return {name: seconds / whole for name, seconds in spent.items()}


def _wake(nx: int, ny: int, batch: int, threads: int) -> Simulation:
    bodies = [HalfDisk(center=(1.8, 2.0)), Ellipse(center=(3.8, 2.0), motion="free")]
    grid, sides = Grid(nx, ny, 8.0 / nx), Sides(bottom="slip", top="slip")
    return Simulation(grid, sides, bodies, viscosity=1 / 400, batch=batch, threads=threads)


def _wake_steps(sim: Simulation) -> Callable[[int], None]:
    def run(steps: int) -> None:
        # reset the position, so that the free body stays in the box however long the measurement takes
        sim.body_state.position[:, 1] = (3.8, 2.0)
        sim.advance_steps(steps)

    return run


def _school(swimmers: int, threads: int) -> Simulation:
    """Return a school of swimmers in columns of four, as dense as in the preset, in a periodic box."""
    nx, ny = SCHOOL_CELLS
    columns = [divmod(k, 4) for k in range(swimmers)]
    places = [(2.5 + 1.2 * i, 1.6 + 0.5 * j + 0.25 * (i % 2)) for i, j in columns]
    bodies = [carangiform(center=place) for place in places]
    return Simulation(
        Grid(nx, ny, 10.0 / nx),
        Sides.all("periodic"),
        bodies,
        viscosity=1 / 5000,
        stream=(0.0, 0.0),
        threads=threads,
    )


def _peer_step(nx: int, ny: int) -> Callable[[int], None] | None:
    """Return jax-cfd's semi-implicit step on a periodic box (it has no bodies), or None if it is not installed."""
    if importlib.util.find_spec("jax_cfd") is None:
        return None
    import jax
    import jax_cfd.base as cfd

    grid = cfd.grids.Grid((nx, ny), domain=((0.0, 8.0), (0.0, 8.0 * ny / nx)))
    velocity = cfd.initial_conditions.filtered_velocity_field(jax.random.PRNGKey(0), grid, 1.0, 4)
    step = cfd.equations.semi_implicit_navier_stokes(
        density=1.0, viscosity=1 / 400, dt=0.1 * 8.0 / nx, grid=grid
    )
    state = [velocity]
    compiled = jax.jit(cfd.funcutils.repeated(step, 10))

    def run(steps: int) -> None:
        for _ in range(steps // 10):
            state[0] = compiled(state[0])
        jax.block_until_ready(state[0])

    return run


def _medians(
    ours: Callable[[int], Any], peer: Callable[[int], Any] | None, seconds: float
) -> tuple[float, float | None]:
    """Return the median seconds per step over blocks of ten steps, measured alternately."""
    runs = [ours] if peer is None else [ours, peer]
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run(20)  # compiles and warms up
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(times[0]) < 5:
        for run, taken in zip(runs, times, strict=True):
            begin = time.perf_counter()
            run(10)
            taken.append((time.perf_counter() - begin) / 10)
    medians = [float(np.median(taken)) for taken in times]
    return medians[0], medians[1] if peer is not None else None

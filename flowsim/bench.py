"""Speed of the solver: cell-updates per second, beside jax-cfd where it is installed.

The floor of a step is memory traffic. In float32 a step reads and writes u, v, p, the rates and the predicted velocity
about once each, some 88 bytes per cell; at 20 GB/s that is 230 million cells per second and core. The transform
along y adds 4 ny operations per cell (a matrix product up to ny = 256).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from flowsim.backend.cpu import most_threads
from flowsim.bodies import Ellipse, HalfDisk
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation

CASES: tuple[tuple[int, int, int], ...] = ((128, 64, 1), (128, 64, 24), (256, 128, 1), (512, 256, 1))
"""Cells along x and y, and simulations in the batch, of the rows."""
PEER_CELLS = 256 * 128
"""Smallest single simulation that is measured beside jax-cfd."""


def bench_solver(seconds: float = 2.0, threads: int = 2) -> list[dict[str, Any]]:
    """Measure whole steps of the wake of a D-section with a free ellipse in it, float32.

    Parameters
    ----------
    seconds
        Time spent on each measurement.
    threads
        Threads of the sweeps; fewer when numba has fewer.

    Returns
    -------
    list of dict
        ``nx``, ``ny``, ``batch``, ``threads``, ``backend``, ``dtype``, ``ms_per_step``, ``cells_per_second``, ``peer``,
        ``peer_cells_per_second``, ``ratio``; the last three are None without a peer. Both sides are the median of
        blocks of steps, taken by turns in the same run.
    """
    threads = min(threads, most_threads())
    rows = []
    for nx, ny, batch in CASES:
        step = _our_step(nx, ny, batch, threads)
        peer = _peer_step(nx, ny) if batch == 1 and nx * ny >= PEER_CELLS else None
        ours, theirs = _medians(step, peer, seconds)
        cells = nx * ny * batch
        rows.append(
            {
                "nx": nx,
                "ny": ny,
                "batch": batch,
                "threads": threads,
                "backend": "cpu",
                "dtype": "float32",
                "ms_per_step": 1e3 * ours,
                "cells_per_second": cells / ours,
                "peer": None if theirs is None else f"jax-cfd {importlib.metadata.version('jax-cfd')}",
                "peer_cells_per_second": None if theirs is None else cells / theirs,
                "ratio": None if theirs is None else theirs / ours,
            }
        )
    return rows


def _our_step(nx: int, ny: int, batch: int, threads: int) -> Callable[[int], None]:
    h = 8.0 / nx
    bodies = [HalfDisk(center=(1.8, 2.0)), Ellipse(center=(3.8, 2.0), motion="free")]
    sim = Simulation(Grid(nx, ny, h), Sides(bottom="slip", top="slip"), bodies, viscosity=1 / 400, batch=batch,
                     threads=threads)  # fmt: skip

    def run(steps: int) -> None:
        # held near its place, so that the body stays in the box however long the measurement
        sim.body_state.position[:, 1] = (3.8, 2.0)
        sim.advance_steps(steps)

    return run


def _peer_step(nx: int, ny: int) -> Callable[[int], None] | None:
    """Return jax-cfd's semi-implicit step on a periodic box (it has no bodies), or None where it is missing."""
    if importlib.util.find_spec("jax_cfd") is None:
        return None
    import jax
    import jax_cfd.base as cfd

    grid = cfd.grids.Grid((nx, ny), domain=((0.0, 8.0), (0.0, 8.0 * ny / nx)))
    velocity = cfd.initial_conditions.filtered_velocity_field(jax.random.PRNGKey(0), grid, 1.0, 4)
    step = cfd.equations.semi_implicit_navier_stokes(density=1.0, viscosity=1 / 400, dt=0.1 * 8.0 / nx, grid=grid)
    state = [velocity]
    compiled = jax.jit(cfd.funcutils.repeated(step, 10))

    def run(steps: int) -> None:
        for _ in range(steps // 10):
            state[0] = compiled(state[0])
        jax.block_until_ready(state[0])

    return run


def _medians(
    ours: Callable[[int], None], peer: Callable[[int], None] | None, seconds: float
) -> tuple[float, float | None]:
    """Median seconds per step of blocks of ten steps, by turns."""
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

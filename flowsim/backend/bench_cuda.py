"""Benchmark of the CUDA backend: whole steps for several grids and batches, and the time of every kernel of a step.

The floor of a step is the same memory traffic as on the CPU (:mod:`flowsim.backend.bench`), divided by the bandwidth of
a device-to-device copy in the same run.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from flowsim.backend.bench import BYTES_PER_CELL
from flowsim.backend.host.arrays import memory_needed
from flowsim.bodies import Ellipse, HalfDisk
from flowsim.boundary import Sides
from flowsim.grid import Grid
from flowsim.simulation import Simulation

CASES: tuple[tuple[int, int, int], ...] = (
    (128, 64, 1), (128, 64, 24), (128, 64, 256), (256, 128, 1), (256, 128, 24), (256, 128, 256), (512, 256, 1),
    (512, 256, 24), (512, 256, 256), (1024, 512, 1), (1024, 512, 24), (2048, 1024, 1), (4096, 2048, 1), (8192, 4096, 1),
)  # fmt: skip
"""Rows: cells along x and y, and number of simulations in the batch."""
TRAFFIC = {
    "_predict": 36, "_transformable_divergence": 12, "forward": 8, "_solve_systems": 8,
    "solve_long_systems": 8, "backward": 8, "_correct": 28,
}  # fmt: skip
"""Minimum memory traffic of each sweep over all cells in float32, in bytes per cell."""
REPEATS = 20
COPY_BYTES = 2**30


def bench_cuda(
    cases: tuple[tuple[int, int, int], ...] = CASES, dtype: str = "float32", seconds: float = 0.5
) -> list[dict[str, Any]]:
    """Measure whole steps of the wake of a D-section with a free ellipse in it; one row per case.

    Parameters
    ----------
    cases
        Cells along x and y, and number of simulations.
    dtype
        Precision.
    seconds
        Time spent on each case, after compilation.

    Returns
    -------
    list of dict
        The keys of :func:`flowsim.backend.bench.bench_solver` without a peer, ``us_per_step``, ``gib`` (memory of the
        batch) and ``of_bandwidth`` (bytes of the floor per second over the bandwidth of a copy).
    """
    bandwidth = copy_bandwidth()
    rows: list[dict[str, Any]] = []
    for nx, ny, batch in cases:
        sim = wake(nx, ny, batch, dtype)
        per_step = _seconds_per_step(sim, seconds)
        cells = nx * ny * batch
        floor = BYTES_PER_CELL * np.dtype(dtype).itemsize / 4 * cells / bandwidth
        rows.append(
            {
                "nx": nx,
                "ny": ny,
                "batch": batch,
                "threads": None,
                "backend": "cuda",
                "dtype": dtype,
                "ms_per_step": 1e3 * per_step,
                "us_per_step": 1e6 * per_step,
                "cells_per_second": cells / per_step,
                "peer": None,
                "peer_cells_per_second": None,
                "ratio": None,
                "bytes_per_cell": BYTES_PER_CELL,
                "bandwidth": bandwidth,
                "floor_ms": 1e3 * floor,
                "times_floor": per_step / floor,
                "of_bandwidth": floor / per_step,
                "gib": memory_needed(sim.grid, batch, dtype) / 2**30,
                "stages": {},
            }
        )
    return rows


def kernel_times(sim: Simulation) -> list[dict[str, Any]]:
    """Measure every launch of a step separately, in the order of the step; the simulation cannot be used afterwards.

    Parameters
    ----------
    sim
        Simulation on the backend ``cuda``, without bodies driven by a function.

    Returns
    -------
    list of dict
        ``kernel``, ``us``, ``share`` of the sum, and for sweeps over all cells ``bytes_per_cell`` and
        ``of_bandwidth``.
    """
    sim.advance_steps(3)
    bandwidth, cells = copy_bandwidth(), sim.grid.nx * sim.grid.ny * sim.batch
    rows: list[dict[str, Any]] = []
    for name, call in _launches(sim):
        taken = _graph_seconds(sim._device, call)
        traffic = TRAFFIC.get(name, 0) * sim.dtype.itemsize / 4
        row = {"kernel": name.lstrip("_"), "us": 1e6 * taken, "bytes_per_cell": traffic or None}
        rows.append(
            row | {"of_bandwidth": traffic * cells / taken / bandwidth if traffic else None}
        )
    whole = sum(row["us"] for row in rows)
    return [row | {"share": row["us"] / whole} for row in rows]


def systems_times(
    nx: int, ny: int, batch: int, dtype: str = "float32"
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """Measure the solution of the systems along x for every division into pieces and blocks that fits.

    Returns
    -------
    list of dict
        ``rows`` per piece, ``entries`` per block, ``us``, and ``difference``, the largest deviation from the solution
        with the division in use, relative to its largest value; the fastest first.
    (int, int)
        The division in use.
    """
    import cupy

    from flowsim.backend.cuda import Device
    from flowsim.backend.cuda.poisson import Systems
    from flowsim.backend.cuda.systems import cut, threads_of

    device, real = Device(), np.dtype(dtype)
    box = nx, ny, (False, False), (False, True, False, False)
    active = device.array(np.ones(batch, bool))
    values = np.random.default_rng(0).normal(size=(batch, nx, ny // 2 + 1, 2)).astype(real)

    def solution(systems: Systems) -> Any:
        spectrum = device.array(values)
        with device._stream:
            systems.solve(active, spectrum)
        device._stream.synchronize()
        return spectrum

    right = solution(Systems(*box, real, device))
    scale = float(cupy.abs(right).max())
    rows: list[dict[str, Any]] = []
    for length in (4, 8, 16, 32):
        for entries in (2, 4, 8, 16, 32):
            if -(-nx // length) * entries > threads_of(length, entries, real)[0]:
                continue
            systems = Systems(*box, real, device, (length, entries))
            difference = float(cupy.abs(solution(systems) - right).max()) / scale
            spectrum = cupy.zeros_like(right)  # solved repeatedly
            taken = _graph_seconds(device, functools.partial(systems.solve, active, spectrum))
            rows.append(
                {"rows": length, "entries": entries, "us": 1e6 * taken, "difference": difference}
            )
    return sorted(rows, key=lambda row: float(row["us"])), cut(nx, real)


def wake(nx: int, ny: int, batch: int, dtype: str = "float32") -> Simulation:
    """Return the flow that is measured: a box of length 8, a fixed D-section and a free ellipse."""
    bodies = [HalfDisk(center=(1.8, 2.0)), Ellipse(center=(3.8, 2.0), motion="free")]
    grid, sides = Grid(nx, ny, 8.0 / nx), Sides(bottom="slip", top="slip")
    return Simulation(
        grid, sides, bodies, viscosity=1 / 400, batch=batch, dtype=dtype, backend="cuda"
    )


def copy_bandwidth(size: int = COPY_BYTES) -> float:
    """Return the bytes per second that a copy of ``size`` bytes on the device reads and writes, the best of ten."""
    import cupy

    source = cupy.random.random(size // 4, dtype=cupy.float32)
    target = cupy.empty_like(source)
    best = np.inf
    for _ in range(10):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        cupy.copyto(target, source)
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(begin, end) * 1e-3)
    return float(2 * source.nbytes / best)


def _seconds_per_step(sim: Simulation, seconds: float) -> float:
    """Return the median seconds per step over blocks of steps, each ended by a transfer to the host."""
    sim.advance_steps(32)  # compiles and captures
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        # reset the position, so that the free body stays in the box however long the measurement takes
        sim.body_state.position[:, 1] = (3.8, 2.0)
        begin = time.perf_counter()
        sim.advance_steps(64)
        taken.append((time.perf_counter() - begin) / 64)
    return float(np.median(taken))


def _launches(sim: Simulation) -> list[tuple[str, Callable[[], Any]]]:
    """Take one step and return everything that it launched, by name."""
    calls: list[tuple[str, Callable[[], Any]]] = []
    with _recorded(calls), sim._device._stream:
        sim._running[:] = True
        sim._until[:] = np.inf
        sim._device.send_state()
        sim._take_step()
        sim._device.fetch_state()
    return calls


@contextmanager
def _recorded(calls: list[tuple[str, Callable[[], Any]]]) -> Iterator[None]:
    """Record every launch of a kernel or a transform in ``calls``."""
    from flowsim.backend.cuda.device import Transform
    from flowsim.backend.cuda.launching import Kernel

    originals = [(Kernel, "launch"), (Transform, "forward"), (Transform, "backward")]
    kept = [getattr(owner, name) for owner, name in originals]

    def noting(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            calls.append(
                (getattr(self, "name", name), functools.partial(original, self, *arguments))
            )
            return original(self, *arguments)

        return call

    try:
        for (owner, name), original in zip(originals, kept, strict=True):
            setattr(owner, name, noting(original, name))
        yield
    finally:
        for (owner, name), original in zip(originals, kept, strict=True):
            setattr(owner, name, original)


def _graph_seconds(device: Any, call: Callable[[], Any]) -> float:
    """Return the seconds of one launch among many in a graph, the best of five runs."""
    import cupy

    stream = device._stream
    with stream:
        call()
        stream.begin_capture()
        for _ in range(REPEATS):
            call()
        graph = stream.end_capture()
        best = np.inf
        for _ in range(5):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            best = min(best, cupy.cuda.get_elapsed_time(begin, end) * 1e-3 / REPEATS)
    return float(best)

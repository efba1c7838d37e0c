"""Memory and execution on the CPU: arrays of the host, and one thread per simulation."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flowsim.backend.cpu.compiling import recording
from flowsim.backend.cpu.far_field import FarField
from flowsim.backend.cpu.loops import BLOCKS_A_THREAD, LOOPS
from flowsim.backend.cpu.precompile import compile_ahead
from flowsim.backend.cpu.program import MOST_THREADS, Program
from flowsim.backend.cpu.room import PLACE_COLUMNS, ROW_SUMS, Room
from flowsim.bodies.table import BodyTable
from flowsim.grid import Grid
from flowsim.kernels.far_field import (
    BLOCK_COLUMNS,
    DEPARTED,
    blocks_in,
    forget_departed,
    points_along,
)

Array = Any
Layout = dict[str, tuple[tuple[int, ...], DTypeLike]]

MARGIN = 512
"""Unused bytes before and behind every array of the sweeps.

A compiled loop is vectorized, unless the row it writes lies too close to one that it reads (up to four vectors of 64
bytes). The two versions round differently: without a margin, a run would depend on where the heap puts its arrays.
"""
CACHE_LINE = 64
"""Alignment of every array of the sweeps in bytes, so that vectors of modes lie in one cache line."""


class Device:
    """The CPU.

    Parameters
    ----------
    threads : int
        Threads of the sweeps.

    Raises
    ------
    ValueError
        For a number of threads out of range.
    """

    def __init__(self, threads: int = 1) -> None:
        if not 1 <= threads <= MOST_THREADS:
            raise ValueError(
                f"threads = {threads!r}: a simulation can have 1 to {MOST_THREADS} threads"
            )
        self.threads, self._cells = threads, 1

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array of zeros for the sweeps, aligned to a cache line, with a :data:`MARGIN` on either side."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        room = np.zeros(size + 2 * MARGIN + CACHE_LINE, np.uint8)
        first = MARGIN + -(room.ctypes.data + MARGIN) % CACHE_LINE
        return room[first : first + size].view(dtype).reshape(shape)

    def array(self, values: NDArray[Any]) -> Array:
        """Return host values as an array that the sweeps can read."""
        return np.ascontiguousarray(values)

    def if_any(self, values: NDArray[Any]) -> Array | None:
        """Return host values, or None instead of an empty array, so that the code that needs them is not compiled."""
        return self.array(values) if values.size else None

    def to_host(self, array: Array) -> NDArray[Any]:
        """Return an array of the sweeps as a NumPy array."""
        return np.asarray(array)

    def state(self, layout: Layout) -> tuple[dict[str, NDArray[Any]], dict[str, Array]]:
        """Allocate small arrays; return the host's and the sweeps' views of them, which are the same here."""
        arrays = {name: self.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}
        return arrays, arrays

    def send_state(self) -> None:
        """Do nothing: host and sweeps share the small arrays."""

    def fetch_state(self) -> None:
        """Do nothing: host and sweeps share the small arrays."""

    def reserve(self, batch: int, grid: Grid, dtype: str, needed: int) -> None:
        """Note the size of a simulation, and raise an error if a batch exceeds the total memory of the host.

        How much of it is free is left to the operating system.

        Raises
        ------
        MemoryError
            If there is too little memory; the message says for what, how much is needed and how much there is.
        """
        self._cells = grid.nx * grid.ny
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > there:
            gib = min(needed, 2**999) / 2**30  # a float cannot be larger
            raise MemoryError(
                f"{batch} x {grid.nx} x {grid.ny} cells in {dtype} need {gib:.4g} GiB of memory, but this machine has "
                f"{there / 2**30:.4g} GiB: take fewer simulations at once, or a coarser grid"
            )

    def speeds(self, batch: int, grid: Grid, dtype: DTypeLike) -> Array:
        """Return the work array for the largest speed of each block."""
        return self.zeros((batch, BLOCKS_A_THREAD * self.threads), dtype)

    def room(self, batch: int, grid: Grid, table: BodyTable, dtype: DTypeLike) -> Room:
        """Return the work arrays: a few rows for each thread, and the places and sums of the bodies."""
        bodies = batch if len(table.order) else 0
        return Room(
            rows=self.zeros((self.threads, 5, grid.ny + 16), dtype),
            places=self.zeros((bodies, PLACE_COLUMNS), np.float64),
            sums=self.zeros((bodies, grid.nx, ROW_SUMS), np.float64),
        )

    def far_field(self, batch: int, grid: Grid, spacing: int, dtype: DTypeLike) -> FarField:
        """Return the work arrays of the far field, with points ``spacing`` cells apart."""
        blocks = blocks_in(grid.nx, grid.ny, spacing) + DEPARTED
        points = points_along(max(grid.nx, grid.ny), spacing)
        room = FarField(
            vortices=self.zeros((batch, BLOCK_COLUMNS, blocks), np.float64),
            excess=self.zeros((batch,), np.float64),
            sums=self.zeros((batch, 3, grid.ny), dtype),
            lacks=self.zeros((batch, 4, 2), np.float64),
            points=self.zeros((batch, points), np.float64),
        )
        forget_departed(room.vortices, room.excess)
        return room

    def beside(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Call a function now: sweeps of a simulation run one after the other."""
        launch()
        return _nothing

    def prepare(self, sweeps: Callable[[], None]) -> None:
        """Compile everything that a sequence of sweeps calls, before anything is computed."""
        with recording() as calls:
            sweeps()
        compile_ahead([call.need for call in calls] + [loop.need for loop in LOOPS])

    def program(self, sweeps: Callable[[], None], settings: Callable[[], Any]) -> Program:
        """Return a function that runs a sequence of sweeps."""
        return Program(sweeps, settings, self._cells, self.threads)

    def host_call(self, sweeps: Callable[[], None]) -> Program:
        """Return a function that calls sweeps with the same numbers each time.

        The calls are recorded, because preparing a call takes longer than a small sweep.
        """
        return Program(sweeps, _nothing, self._cells, threads=1)

    def repeat(self, step: Program, running: NDArray[np.bool_], steps: int | None) -> None:
        """Run a program a number of times, or until no simulation is running."""
        step.repeat(steps)


def _nothing() -> None:
    """Do nothing."""

"""Where arrays live and how sequences of sweeps run: in the memory of the host, a simulation a thread."""

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
"""Bytes that are left free before and behind every array of the sweeps.

A compiled loop goes in vectors, or number by number where the row it writes lies too close to one that it reads: up to
four vectors of 64 bytes. The two round differently: without a margin, a run depends on where the heap puts its arrays.
"""
CACHE_LINE = 64
"""Bytes that every array of the sweeps starts at a multiple of: vectors of modes then lie in one line of the caches."""


class Device:
    """The CPU.

    Parameters
    ----------
    threads : int
        Threads of the sweeps.

    Raises
    ------
    ValueError
        For a number of threads that cannot be had.
    """

    def __init__(self, threads: int = 1) -> None:
        if not 1 <= threads <= MOST_THREADS:
            raise ValueError(
                f"threads = {threads!r}: a simulation can have 1 to {MOST_THREADS} threads"
            )
        self.threads, self._cells = threads, 1

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array for the sweeps, from the start of a cache line on, with a :data:`MARGIN` on either side."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        room = np.zeros(size + 2 * MARGIN + CACHE_LINE, np.uint8)
        first = MARGIN + -(room.ctypes.data + MARGIN) % CACHE_LINE
        return room[first : first + size].view(dtype).reshape(shape)

    def array(self, values: NDArray[Any]) -> Array:
        """Return values of the host as the sweeps can read them."""
        return np.ascontiguousarray(values)

    def if_any(self, values: NDArray[Any]) -> Array | None:
        """Return values of the host, or None instead of an empty array: what needs them is not compiled then."""
        return self.array(values) if values.size else None

    def to_host(self, array: Array) -> NDArray[Any]:
        """Return an array of the sweeps as one of the host."""
        return np.asarray(array)

    def state(self, layout: Layout) -> tuple[dict[str, NDArray[Any]], dict[str, Array]]:
        """Return small arrays as the host sees them, and as the sweeps do: here the same ones."""
        arrays = {name: self.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}
        return arrays, arrays

    def send_state(self) -> None:
        """Let the sweeps see what the host wrote to the small arrays."""

    def fetch_state(self) -> None:
        """Let the host see what the sweeps wrote to the small arrays."""

    def reserve(self, batch: int, grid: Grid, dtype: str, needed: int) -> None:
        """Note the size of a simulation; refuse one that the memory of the host can never hold.

        How much of it is free is left to the operating system.

        Raises
        ------
        MemoryError
            Naming what the bytes are for, how many are needed and how many there are.
        """
        self._cells = grid.nx * grid.ny
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > there:
            gib = min(needed, 2**999) / 2**30  # more is beyond what a float can be
            raise MemoryError(
                f"{batch} x {grid.nx} x {grid.ny} cells in {dtype} need {gib:.4g} GiB of memory, but this machine has "
                f"{there / 2**30:.4g} GiB: take fewer simulations at once, or a coarser grid"
            )

    def speeds(self, batch: int, grid: Grid, dtype: DTypeLike) -> Array:
        """Return room for the largest speed of each block."""
        return self.zeros((batch, BLOCKS_A_THREAD * self.threads), dtype)

    def room(self, batch: int, grid: Grid, table: BodyTable, dtype: DTypeLike) -> Room:
        """Return room for a few rows of each thread, and for what is found of the bodies."""
        bodies = batch if len(table.order) else 0
        return Room(
            rows=self.zeros((self.threads, 5, grid.ny + 16), dtype),
            places=self.zeros((bodies, PLACE_COLUMNS), np.float64),
            sums=self.zeros((bodies, grid.nx, ROW_SUMS), np.float64),
        )

    def far_field(self, batch: int, grid: Grid, spacing: int, dtype: DTypeLike) -> FarField:
        """Return room for what the far field needs, with points ``spacing`` cells apart."""
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
        """Call a function now: sweeps of a simulation come one after the other."""
        launch()
        return _nothing

    def prepare(self, sweeps: Callable[[], None]) -> None:
        """Have compiled, before anything is computed, all that a sequence of sweeps calls."""
        with recording() as calls:
            sweeps()
        compile_ahead([call.need for call in calls] + [loop.need for loop in LOOPS])

    def program(self, sweeps: Callable[[], None], settings: Callable[[], Any]) -> Program:
        """Return a function that runs a sequence of sweeps."""
        return Program(sweeps, settings, self._cells, self.threads)

    def host_call(self, sweeps: Callable[[], None]) -> Program:
        """Return a function that calls sweeps with the same numbers each time.

        They are recorded: to find out what to call takes longer than a small sweep.
        """
        return Program(sweeps, _nothing, self._cells, threads=1)

    def repeat(self, step: Program, running: NDArray[np.bool_], steps: int | None) -> None:
        """Run a program a number of times, or until no simulation is running."""
        step.repeat(steps)


def _nothing() -> None:
    """Wait for nothing."""

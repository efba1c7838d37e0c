"""Where arrays live and how sequences of sweeps run: in the memory of the host, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flowsim.backend.cpu.compiling import noting_needs, use_threads
from flowsim.backend.cpu.far_field import FarField
from flowsim.backend.cpu.precompile import compile_ahead
from flowsim.bodies.table import BodyTable
from flowsim.grid import Grid
from flowsim.kernels.far_field import blocks_in, points_along

Array = Any
Layout = dict[str, tuple[tuple[int, ...], DTypeLike]]

MARGIN = 512
"""Bytes that are left free before and behind every array of the sweeps.

A compiled loop goes in vectors, or number by number where the row it writes lies too close to one that it reads: up to
four vectors of 64 bytes. The two round differently: without a margin, a run depends on where the heap puts its arrays.
"""
CACHE_LINE = 64
"""Bytes that every array of the sweeps starts at a multiple of: vectors of modes then lie in one line of the caches."""

NEAR = 2**23
"""Bytes of simulations that are taken through all steps of a program together, so that they stay in the caches."""


class Device:
    """The CPU.

    Parameters
    ----------
    threads : int
        Threads of the sweeps.
    size : int
        Bytes of one simulation.

    Raises
    ------
    ValueError
        For a number of threads that cannot be had.
    """

    def __init__(self, threads: int = 1, size: int = 0) -> None:
        use_threads(threads)
        self.threads = threads
        self._together = max(threads, NEAR // max(size, 1))
        self._group: NDArray[np.int64] | None = None

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

    def active(self, running: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return what tells the sweeps which simulations take part: the numbers of those of the group at work."""
        use_threads(self.threads)  # another simulation of this process may have others
        return np.flatnonzero(running) if self._group is None else self._group[running[self._group]]

    def blocks(self, active: NDArray[np.int64]) -> int:
        """Return in how many blocks of rows each simulation is cut, to occupy all threads."""
        return 1 if len(active) >= self.threads else self.threads

    def reserve(self, batch: int, grid: Grid, dtype: str, needed: int) -> None:
        """Make sure that the bytes of a batch can be had: the memory of the host is left to the operating system."""

    def speeds(self, batch: int, grid: Grid, dtype: DTypeLike, flags: Array) -> Array:
        """Return room for the largest speed of each block."""
        return self.zeros((batch, self.threads), dtype)

    def room(self, batch: int, grid: Grid, table: BodyTable, dtype: DTypeLike) -> Array:
        """Return room for a few rows of each task, which the sweeps need beside the fields."""
        return self.zeros((max(batch, self.threads), 5, grid.ny + 16), dtype)

    def far_field(self, batch: int, grid: Grid, spacing: int, dtype: DTypeLike) -> FarField:
        """Return room for what the far field needs, with points ``spacing`` cells apart."""
        blocks = blocks_in(grid.nx, grid.ny, spacing)
        points = points_along(max(grid.nx, grid.ny), spacing)
        return FarField(
            vortices=self.zeros((batch, 7, blocks), np.float64),
            sums=self.zeros((batch, 3, grid.ny), dtype),
            lacks=self.zeros((batch, 4, 2), np.float64),
            points=self.zeros((batch, points), np.float64),
        )

    def prepare(self, sweeps: Callable[[], None]) -> None:
        """Have compiled, before anything is computed, all that a sequence of sweeps calls."""
        use_threads(self.threads)
        with noting_needs() as needs:
            sweeps()
        compile_ahead(needs)

    def program(
        self, sweeps: Callable[[], None], settings: Callable[[], Any]
    ) -> Callable[[], None]:
        """Return a function that runs a sequence of sweeps."""
        return sweeps

    def repeat(
        self, step: Callable[[], None], running: NDArray[np.bool_], steps: int | None
    ) -> None:
        """Run a program a number of times, or until no simulation is running, group by group."""
        members = np.flatnonzero(running)
        try:
            for first in range(0, len(members), self._together):
                self._group = members[first : first + self._together]
                done = 0
                while running[self._group].any() if steps is None else done < steps:
                    step()
                    done += 1
        finally:
            self._group = None

"""Compilation and launch of kernels, on a device or in numba's simulator.

With ``NUMBA_ENABLE_CUDASIM=1`` in the environment when numba is imported, kernels run on the CPU over NumPy arrays,
with one Python thread for each thread of the device: far too slow for use, but it tests every kernel without a GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda

Array = Any

SIMULATED = bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
THREADS = 8 if SIMULATED else 256
"""Threads per block, unless a sweep has its own number."""
WARP = 1 if SIMULATED else 32
"""Threads that run in lockstep and can add up without a barrier; the simulator has no warps."""
TILE = (4, 2) if SIMULATED else (64, 4)
"""Threads of a block along y and x in sweeps over all cells."""
ROWS = 3 if SIMULATED else 8
"""Most rows that a thread of a sweep over all cells goes through."""
FULL = 32 if SIMULATED else 2**17
"""Threads that occupy a device: a thread goes through more than one row only if there are at least as many."""


def as_taken(argument: Any) -> Any:
    """Convert an argument of a kernel to one that numba takes.

    A CuPy array becomes a view, without the synchronization of numba's own conversion; None, with which a kernel cannot
    be launched, becomes an empty tuple.
    """
    if argument is None:
        return ()
    if isinstance(argument, tuple):
        parts = [as_taken(part) for part in argument]
        return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
    if not hasattr(argument, "__cuda_array_interface__"):
        return argument
    return cuda.as_cuda_array(argument, sync=False)


def _in_place(argument: Any) -> Any:
    """Mark an array as being on the device for the simulator.

    The simulator writes a copy of any other array back at the end, over what the kernel wrote to the same array as part
    of a record.
    """
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(argument) if isinstance(argument, np.ndarray) else argument


def _stream() -> Any:
    import cupy

    return cuda.external_stream(cupy.cuda.get_current_stream().ptr)


class Kernel:
    """A kernel that is launched on CuPy's current stream.

    Parameters
    ----------
    function : callable
        The kernel.
    **options
        Options of ``cuda.jit``, such as ``launch_bounds``; the simulator ignores them.
    """

    def __init__(self, function: Callable[..., None], **options: Any) -> None:
        self.__doc__ = function.__doc__
        self.name = function.__name__
        self.function = function
        self.options = {} if SIMULATED else options
        self._compiled = cuda.jit(**self.options)(function)

    def launch(self, blocks: tuple[int, ...], threads: tuple[int, ...], *arguments: Any) -> None:
        """Launch the kernel with the given numbers of blocks and of threads per block."""
        # numba warns of small grids, but sweeps over the sides need no larger ones
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Grid size")
            if SIMULATED:
                self._compiled[blocks, threads](*map(_in_place, arguments))
            else:
                self._compiled[blocks, threads, _stream()](*as_taken(arguments))


class Sweep(NamedTuple):
    """A sweep over all cells: number of cells along x and y, and most rows along x that a thread goes through."""

    nx: int
    ny: int
    rows: int


def sweep_over(shape: tuple[int, int, int], most: int = ROWS) -> tuple[Sweep, tuple[int, int, int]]:
    """Return a sweep over the cells of a batch, shape (B, nx, ny), and its blocks.

    A thread takes as many rows, at most ``most``, as leave enough threads to occupy the device.
    """
    batch, nx, ny = shape
    rows = min(max(nx * ny * batch // FULL, 1), most)
    return Sweep(nx, ny, rows), cell_blocks(nx, ny, batch, rows)


def cell_blocks(nx: int, ny: int, batch: int, rows: int = 1) -> tuple[int, int, int]:
    """Return the number of blocks along y, x and the batch that cover nx by ny cells, with ``rows`` per thread."""
    return -(-ny // TILE[0]), -(-nx // (TILE[1] * rows)), batch


@cuda.jit(device=True)
def warp_sum(value: float) -> float:
    """Return the sum of a value over the threads of a warp, to each thread, added in a fixed order."""
    away = WARP // 2
    while away > 0:
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, away)
        away //= 2
    return value


@cuda.jit(device=True)
def warp_max(value: Any) -> Any:
    """Return the maximum of a value, which must not be NaN, over the threads of a warp, to each thread."""
    away = WARP // 2
    while away > 0:
        value = max(value, cuda.shfl_xor_sync(0xFFFFFFFF, value, away))
        away //= 2
    return value


@cuda.jit(device=True)
def block_sums(values: Any, scratch: Array) -> None:
    """Sum values over all threads of a block into column 0 of ``scratch`` (values, threads), in a fixed order.

    Each value is summed by one warp, so that one barrier suffices instead of one for each halving.
    """
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    cuda.syncthreads()
    for n in range(len(values)):
        scratch[n, t] = values[n]
    cuda.syncthreads()
    lane = t % WARP
    for n in range(t // WARP, len(values), threads // WARP):
        total = 0.0
        for other in range(lane, threads, WARP):
            total += scratch[n, other]
        total = warp_sum(total)
        if lane == 0:
            scratch[n, 0] = total
    cuda.syncthreads()

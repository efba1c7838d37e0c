"""Where arrays live and how sequences of sweeps run: on one GPU, captured once as a CUDA graph and then replayed.

Everything happens on one stream. Small arrays, a few numbers for each simulation or body, lie together in one buffer
on the host and one on the device, so that one transfer brings all of them over.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flowsim.backend.cuda.far_field import FarField
from flowsim.backend.cuda.launching import ROWS, SIMULATED, cell_blocks
from flowsim.grid import Grid
from flowsim.kernels.far_field import blocks_in, points_along

cupy: Any = None
if not SIMULATED:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise RuntimeError(
            f'backend = "cuda": CuPy cannot be imported ({error}): install flowsim-rl[cuda12] or flowsim-rl[cuda13]'
        ) from None

Array = Any
Layout = dict[str, tuple[tuple[int, ...], DTypeLike]]

STEPS_AT_ONCE = 8
"""Steps in a graph. Fewer waste less after the last step of an action, more cost less to launch."""
LOOK_AHEAD = 2
"""Graphs that are queued before the host looks whether anything is still running."""


class Device:
    """One GPU: the first that CUDA shows (``CUDA_VISIBLE_DEVICES`` chooses it).

    Raises
    ------
    RuntimeError
        Where there is none.
    """

    def __init__(self, threads: int = 1, size: int = 0) -> None:
        self._host: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._near: Any = self._host
        if SIMULATED:
            return
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(
                f'backend = "cuda": CuPy found no usable CUDA device ({error})'
            ) from None
        if count == 0:
            raise RuntimeError(
                'backend = "cuda": CUDA shows no device (CUDA_VISIBLE_DEVICES may hide it)'
            )
        # One that the null stream waits for, and that waits for it: fields are written and looked at there, and a body
        # that a function drives is moved by launches there.
        self._stream = cupy.cuda.Stream()

    def reserve(self, needed: int, what: str) -> None:
        """Make sure that so many bytes can be had.

        Raises
        ------
        MemoryError
            Naming what they are for, how many are needed and how many there are.
        """
        if SIMULATED:
            return
        cupy.get_default_memory_pool().free_all_blocks()
        free, total = cupy.cuda.runtime.memGetInfo()
        if needed > free:
            raise MemoryError(
                f"{what} need {needed / 2**30:.2f} GiB of GPU memory, but {free / 2**30:.2f} of {total / 2**30:.2f} "
                "GiB are free: take fewer simulations at once, or a coarser grid"
            )

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array for the sweeps."""
        return (np if SIMULATED else cupy).zeros(shape, dtype)

    def array(self, values: NDArray[Any]) -> Array:
        """Return a copy of values of the host for the sweeps."""
        return np.array(values, order="C") if SIMULATED else cupy.array(values, order="C")

    def if_any(self, values: NDArray[Any]) -> Array:
        """Return a copy of values of the host, also of an empty array: kernels take no None."""
        return self.array(values)

    def to_host(self, array: Array) -> NDArray[Any]:
        """Return an array of the sweeps as one of the host."""
        if SIMULATED:
            return np.asarray(array)
        self._stream.synchronize()
        return np.asarray(cupy.asnumpy(array))

    def state(self, layout: Layout) -> tuple[dict[str, NDArray[Any]], dict[str, Array]]:
        """Return small arrays as the host sees them, and as the sweeps do."""
        places, size = {}, 0
        for name, (shape, dtype) in layout.items():
            places[name] = size
            count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            size += -(-max(count, 1) // 8) * 8
        if SIMULATED:
            self._host, self._near = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        else:
            self._host = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
            self._host[:] = 0
            self._near = cupy.zeros(size, np.uint8)

        def views(buffer: Array) -> dict[str, Array]:
            arrays = {}
            for name, (shape, dtype) in layout.items():
                count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
                arrays[name] = (
                    buffer[places[name] : places[name] + count].view(dtype).reshape(shape)
                )
            return arrays

        return views(self._host), views(self._near)

    def send_state(self) -> None:
        """Let the sweeps see what the host wrote to the small arrays."""
        if SIMULATED:
            self._near[:] = self._host
            return
        self._near.data.copy_from_host_async(
            self._host.ctypes.data, self._host.nbytes, self._stream
        )

    def fetch_state(self) -> None:
        """Let the host see what the sweeps wrote to the small arrays, and wait for all that was launched."""
        if SIMULATED:
            self._host[:] = self._near
            return
        self._near.data.copy_to_host_async(self._host.ctypes.data, self._host.nbytes, self._stream)
        self._stream.synchronize()

    def active(self, running: Array) -> Array:
        """Return what tells the sweeps which simulations take part: a flag for each."""
        return running

    def blocks(self, active: Array) -> int:
        """Return 1: the sweeps see for themselves how to occupy the device."""
        return 1

    def speeds(self, batch: int, grid: Grid, dtype: DTypeLike) -> Array:
        """Return room for the largest speed of each block of threads."""
        across, along, _ = cell_blocks(grid.nx, grid.ny, batch, ROWS)
        return self.zeros((batch, across * along), dtype)

    def rows(self, batch: int, grid: Grid, dtype: DTypeLike) -> Array:
        """Return None: what a row needs stays in registers."""
        return None

    def far_field(self, batch: int, grid: Grid, spacing: int, dtype: DTypeLike) -> FarField:
        """Return room for what the far field is made of, with points ``spacing`` cells apart."""
        points = points_along(max(grid.nx, grid.ny), spacing)
        shapes = (batch, blocks_in(grid.nx, grid.ny, spacing), 7), (batch, 4, 2), (batch, 4, points)
        return FarField(*(self.zeros(shape, np.float64) for shape in shapes))

    def prepare(self, sweeps: Callable[[], None]) -> None:
        """Do nothing: kernels are compiled when they are first launched."""

    def program(self, sweeps: Callable[[], None]) -> Callable[[], None]:
        """Return a function that queues a sequence of sweeps."""
        return sweeps if SIMULATED else _Program(sweeps, self._stream)

    def repeat(self, step: Callable[[], None], running: Array, steps: int | None) -> None:
        """Run a program a number of times, or until no simulation is running.

        The host looks at the flags of a graph while the next ones run, so that the device never waits; steps after the
        last one find nothing to do.
        """
        if SIMULATED:
            while (steps is None and running.any()) or (steps is not None and steps > 0):
                step()
                steps = None if steps is None else steps - 1
            return
        assert isinstance(step, _Program)
        if steps is not None:
            for _ in range(steps // STEPS_AT_ONCE):
                step.several()
            for _ in range(steps % STEPS_AT_ONCE):
                step()
            return
        size = running.nbytes
        flags = [
            np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.bool_, size)
            for _ in range(LOOK_AHEAD + 1)
        ]
        pending: deque[tuple[Any, NDArray[np.bool_]]] = deque()
        while True:
            step.several()
            seen = flags[0]
            flags.append(flags.pop(0))
            running.data.copy_to_host_async(seen.ctypes.data, size, self._stream)
            done = cupy.cuda.Event(disable_timing=True)
            done.record(self._stream)
            pending.append((done, seen))
            if len(pending) > LOOK_AHEAD - 1:
                event, seen = pending.popleft()
                event.synchronize()
                if not seen.any():
                    return


class _Program:
    """A sequence of sweeps on a stream, captured as a graph after it has run once (and been compiled)."""

    def __init__(self, sweeps: Callable[[], None], stream: Any) -> None:
        self._sweeps, self._stream = sweeps, stream
        self._compiled = False
        self._graphs: dict[int, Any] = {}

    def __call__(self) -> None:
        """Queue the sequence once."""
        self._launch(1)

    def several(self) -> None:
        """Queue it STEPS_AT_ONCE times."""
        self._launch(STEPS_AT_ONCE)

    def _launch(self, times: int) -> None:
        with self._stream:
            if not self._compiled:  # a capture cannot load modules
                for _ in range(times):
                    self._sweeps()
                self._compiled = True
                return
            if times not in self._graphs:
                self._stream.begin_capture()
                try:
                    for _ in range(times):
                        self._sweeps()
                finally:
                    self._graphs[times] = self._stream.end_capture()
            self._graphs[times].launch(self._stream)


class Transform:
    """Real Fourier transforms of all rows of a batch of fields, planned once.

    Parameters
    ----------
    batch, nx, ny : int
        Fields, rows of each, and length of a row.
    dtype : numpy.dtype
        float32 or float64.
    """

    def __init__(self, batch: int, nx: int, ny: int, dtype: np.dtype) -> None:
        pairs = (batch, nx, ny // 2 + 1, 2)
        self._spectrum = (np if SIMULATED else cupy).zeros(pairs, dtype)
        if SIMULATED:
            return
        fft = cupy.cuda.cufft
        single = np.dtype(dtype) == np.float32
        self._forward = fft.Plan1d(ny, fft.CUFFT_R2C if single else fft.CUFFT_D2Z, batch * nx)
        self._backward = fft.Plan1d(ny, fft.CUFFT_C2R if single else fft.CUFFT_Z2D, batch * nx)

    def forward(self, rows: Array) -> Array:
        """Transform rows (B, nx, ny); return the spectrum as pairs of numbers (B, nx, ny // 2 + 1, 2)."""
        if SIMULATED:
            spectrum = np.fft.rfft(rows.astype(np.float64))
            self._spectrum[..., 0], self._spectrum[..., 1] = spectrum.real, spectrum.imag
        else:
            self._forward.fft(rows, self._spectrum, cupy.cuda.cufft.CUFFT_FORWARD)
        return self._spectrum

    def backward(self, rows: Array) -> None:
        """Transform that spectrum back into ``rows``, times ny; the spectrum is lost."""
        if SIMULATED:
            ny = rows.shape[-1]
            rows[:] = np.fft.irfft(self._spectrum[..., 0] + 1j * self._spectrum[..., 1], ny) * ny
        else:
            self._backward.fft(self._spectrum, rows, cupy.cuda.cufft.CUFFT_INVERSE)

"""Memory and execution on one GPU: sequences of sweeps are captured once as a CUDA graph and then replayed.

Sweeps run on one stream; those that the next ones do not depend on can run on a second one. Small arrays, a few numbers
for each simulation or body, share one buffer on the host and one on the device, so that one transfer copies all of
them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flowsim.backend.cuda.far_field import FarField
from flowsim.backend.cuda.flow import Speeds
from flowsim.backend.cuda.launching import SIMULATED, TILE
from flowsim.backend.cuda.windows import BodyRoom, body_room
from flowsim.bodies.table import BodyTable
from flowsim.grid import GHOSTS, Grid
from flowsim.kernels.far_field import BLOCK_COLUMNS, DEPARTED, blocks_in, forget_departed
from flowsim.kernels.layout import DT, RUNNING, TIME, UNTIL

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
"""Steps in a graph. Fewer waste less after the last step of an action, more have less launch overhead."""
LOOK_AHEAD = 2
"""Launches of a program that are queued before the host waits for the status after the first of them."""

MOST_BLOCKS = 2**16 - 1
"""Largest number of thread blocks of a CUDA grid along y or z, which are used for rows of cells and simulations."""
MOST_VALUES = 2**31 - 1
"""Largest number of values of a field of a batch, limited by cuFFT's plans and 32-bit indices."""


def check_size(batch: int, grid: Grid) -> None:
    """Check that the kernels can be launched for a batch and that their indices cover it.

    Raises
    ------
    ValueError
        If a limit is exceeded; the message names it.
    """
    if batch > MOST_BLOCKS:
        raise ValueError(
            f"batch = {batch}: the cuda backend takes at most {MOST_BLOCKS} simulations in one batch"
        )
    longest = MOST_BLOCKS * TILE[1] - 2 * GHOSTS
    if grid.nx > longest:
        raise ValueError(f"nx = {grid.nx}: the cuda backend takes at most {longest} cells along x")
    values = batch * math.prod(grid.padded_shape)
    if values > MOST_VALUES:
        raise ValueError(
            f"{batch} x {grid.nx} x {grid.ny} cells are {values} values of a field with its ghost points, and the "
            f"cuda backend takes at most {MOST_VALUES}: take fewer simulations at once, or a coarser grid"
        )


def steps_to_queue(clock: NDArray[np.float64], running: NDArray[np.bool_], queued: int) -> int:
    """Return how many steps to queue next, at most :data:`STEPS_AT_ONCE`.

    Whole steps fill the time to ``UNTIL``, and their size changes little from one to the next, so the last one gives an
    estimate of how many are left. One step too many costs the launch of its kernels, one too few a synchronization with
    the host.

    Parameters
    ----------
    clock : (B, CLOCK_COLUMNS)
        Last copy on the host.
    running : (B,)
        Last copy on the host; at least one simulation is running.
    queued : int
        Steps queued since that copy. If they should suffice, nothing is queued until the host has a new copy.
    """
    slow = clock[running]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = ((slow[:, UNTIL] - slow[:, TIME]) / slow[:, DT]).max() - 1e-6 - queued
    if not left < STEPS_AT_ONCE:  # also if it is unknown, before the first step
        return STEPS_AT_ONCE
    return max(math.ceil(left), 0 if queued else 1)


class Device:
    """One GPU: the first visible CUDA device (choose it with ``CUDA_VISIBLE_DEVICES``).

    Raises
    ------
    RuntimeError
        If there is no device.
    """

    def __init__(self, threads: int = 1) -> None:
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
        # A blocking stream, which synchronizes with the null stream: on the null stream fields are read and written,
        # and bodies driven by a function are moved.
        self._stream = cupy.cuda.Stream()
        # A non-blocking stream for captures, so that other threads (a learner) may use the null stream meanwhile. It
        # lives as long as the device, since the plans of transforms keep a reference to it.
        self._capturing = cupy.cuda.Stream(non_blocking=True)
        # A stream for kernels that may run concurrently with either.
        self._beside = cupy.cuda.Stream(non_blocking=True)

    def reserve(self, batch: int, grid: Grid, dtype: str, needed: int) -> None:
        """Check the size of a batch against the limits and against the free memory of the device.

        Raises
        ------
        ValueError
            If a limit is exceeded; the message names it.
        MemoryError
            If there is too little free memory; the message says for what, how much is needed and how much there is.
        """
        check_size(batch, grid)
        if SIMULATED:
            return
        what = f"{batch} x {grid.nx} x {grid.ny} cells in {dtype}"
        cupy.get_default_memory_pool().free_all_blocks()
        free, total = cupy.cuda.runtime.memGetInfo()
        if needed > free:
            raise MemoryError(
                f"{what} need {needed / 2**30:.2f} GiB of GPU memory, but {free / 2**30:.2f} of {total / 2**30:.2f} "
                "GiB are free: take fewer simulations at once, or a coarser grid"
            )

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array of zeros for the sweeps."""
        return (np if SIMULATED else cupy).zeros(shape, dtype)

    def array(self, values: NDArray[Any]) -> Array:
        """Return a copy of host values for the sweeps."""
        return np.array(values, order="C") if SIMULATED else cupy.array(values, order="C")

    def if_any(self, values: NDArray[Any]) -> Array:
        """Return a copy of host values, even of an empty array, because kernels do not take None."""
        return self.array(values)

    def to_host(self, array: Array) -> NDArray[Any]:
        """Return an array of the sweeps as a NumPy array."""
        if SIMULATED:
            return np.asarray(array)
        self._stream.synchronize()
        return np.asarray(cupy.asnumpy(array))

    def state(self, layout: Layout) -> tuple[dict[str, NDArray[Any]], dict[str, Array]]:
        """Allocate small arrays; return the host's and the sweeps' views of them."""
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

        host, near = views(self._host), views(self._near)
        self._clock, self._running = host["clock"], host["flags"][RUNNING]
        if not SIMULATED:
            parts = near["clock"], near["flags"][RUNNING]
            self._looks = [_Look(*parts, self._stream) for _ in range(LOOK_AHEAD)]
        return host, near

    def send_state(self) -> None:
        """Copy the small arrays from the host to the device."""
        if SIMULATED:
            self._near[:] = self._host
            return
        self._near.data.copy_from_host_async(
            self._host.ctypes.data, self._host.nbytes, self._stream
        )

    def fetch_state(self) -> None:
        """Copy the small arrays from the device to the host, and wait for everything that was launched."""
        if SIMULATED:
            self._host[:] = self._near
            return
        self._near.data.copy_to_host_async(self._host.ctypes.data, self._host.nbytes, self._stream)
        self._stream.synchronize()

    def speeds(self, batch: int, grid: Grid, dtype: DTypeLike) -> Speeds:
        """Return the work arrays for the largest speed of each simulation."""
        return Speeds(self.zeros((batch,), np.float64), self.zeros((batch,), np.int32))

    def room(self, batch: int, grid: Grid, table: BodyTable, dtype: DTypeLike) -> BodyRoom:
        """Return the work arrays that the sweeps over bodies share."""
        return body_room(table, batch, grid, self.zeros)

    def far_field(self, batch: int, grid: Grid, spacing: int, dtype: DTypeLike) -> FarField:
        """Return the work arrays of the far field, with points ``spacing`` cells apart."""
        blocks = blocks_in(grid.nx, grid.ny, spacing) + DEPARTED
        shapes = (batch, BLOCK_COLUMNS, blocks), (batch,), (batch, 4, 2)
        room = FarField(*(self.zeros(shape, np.float64) for shape in shapes))
        forget_departed(room.vortices, room.excess)
        return room

    def beside(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Call a function whose launches may run concurrently with the next ones.

        They begin after everything launched before; launches after a call of the returned function wait for them. In a
        graph they form a branch.
        """
        if SIMULATED:
            launch()
            return _nothing
        here, launched, ended = cupy.cuda.get_current_stream(), *_events(2)
        launched.record(here)
        self._beside.wait_event(launched)
        with self._beside:
            launch()
            ended.record(self._beside)
        return functools.partial(here.wait_event, ended)

    def prepare(self, sweeps: Callable[[], None]) -> None:
        """Do nothing: kernels are compiled when they are first launched."""

    def program(
        self, sweeps: Callable[[], None], settings: Callable[[], Any]
    ) -> Callable[[], None]:
        """Return a function that queues a sequence of sweeps.

        ``settings`` returns the numbers (other than arrays) that the sweeps are launched with and that may change.
        """
        return sweeps if SIMULATED else _Program(sweeps, settings, self._stream, self._capturing)

    def host_call(self, sweeps: Callable[[], None]) -> Callable[[], None]:
        """Return a function that calls the sweeps: here ``sweeps`` itself."""
        return sweeps

    def repeat(self, step: Callable[[], None], running: Array, steps: int | None) -> None:
        """Run a program a number of times, or until no simulation is running.

        The host checks the clocks and flags after a launch while the next one runs, so that the device never waits;
        steps after the last one do nothing.
        """
        if SIMULATED:
            while (steps is None and running.any()) or (steps is not None and steps > 0):
                step()
                steps = None if steps is None else steps - 1
            return
        assert isinstance(step, _Program)
        if steps is not None:
            step.queue(steps)
            return
        clock, is_running, seen, queued = self._clock, self._running, 0, 0
        spare: list[_Look] = list(self._looks)
        pending: deque[tuple[_Look, int]] = deque()
        while is_running.any():
            count = steps_to_queue(clock, is_running, queued - seen)
            if count > 0:
                step.queue(count)
                queued += count
                look = spare.pop()
                look.order()
                pending.append((look, queued))
            if count == 0 or not spare:
                look, seen = pending.popleft()
                clock, is_running = look.wait()
                spare.append(look)


def _nothing() -> None:
    """Do nothing."""


def _events(count: int) -> list[Any]:
    return [cupy.cuda.Event(disable_timing=True) for _ in range(count)]


class _Look:
    """Host copy of the clocks and of the running flags at one point of the stream."""

    def __init__(self, clock: Array, running: Array, stream: Any) -> None:
        self._near, self._stream = (clock, running), stream
        self._host = [
            np.frombuffer(cupy.cuda.alloc_pinned_memory(part.nbytes), part.dtype, part.size)
            for part in self._near
        ]
        self._done = cupy.cuda.Event(disable_timing=True)

    def order(self) -> None:
        """Queue the transfer."""
        for near, host in zip(self._near, self._host, strict=True):
            near.data.copy_to_host_async(host.ctypes.data, host.nbytes, self._stream)
        self._done.record(self._stream)

    def wait(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Wait until the stream has reached this point, and return clocks and flags."""
        self._done.synchronize()
        clock, running = self._host
        return clock.reshape(self._near[0].shape).copy(), running.copy()


class _Program:
    """A sequence of sweeps on a stream, captured as graphs after a first run, which compiles it.

    Parameters
    ----------
    sweeps : callable
        The sequence.
    settings : callable
        Returns the numbers that the launches contain. When they have changed, the sequence is compiled and captured
        again.
    stream, capturing : cupy.cuda.Stream
        Streams on which it runs and is captured.
    """

    def __init__(
        self, sweeps: Callable[[], None], settings: Callable[[], Any], stream: Any, capturing: Any
    ) -> None:
        self._sweeps, self._settings = sweeps, settings
        self._stream, self._capturing = stream, capturing
        self._compiled_for: Any = None
        self._graphs: dict[int, Any] = {}

    def __call__(self) -> None:
        """Queue the sequence once."""
        self.queue(1)

    def queue(self, times: int) -> None:
        """Queue the sequence a number of times, in graphs of STEPS_AT_ONCE or one by one."""
        settings = self._settings()
        if times > 0 and settings != self._compiled_for:
            self._graphs.clear()
            with self._stream:  # a capture cannot load modules
                self._sweeps()
            self._compiled_for, times = settings, times - 1
        for size, launches in (STEPS_AT_ONCE, times // STEPS_AT_ONCE), (1, times % STEPS_AT_ONCE):
            for _ in range(launches):
                if size not in self._graphs:
                    self._graphs[size] = self._capture(size)
                self._graphs[size].launch(self._stream)

    def _capture(self, times: int) -> Any:
        """Return a graph of the sequence, repeated ``times`` times; an interrupted capture leaves no graph.

        CuPy captures in relaxed mode, which does not restrict other threads.
        """
        stream = self._capturing
        with stream:
            try:
                stream.begin_capture()
                for _ in range(times):
                    self._sweeps()
                return stream.end_capture()
            except BaseException:
                with contextlib.suppress(Exception):
                    stream.end_capture()
                raise


class Transform:
    """Real Fourier transforms of all rows of a batch of fields, planned once.

    Parameters
    ----------
    batch, nx, ny : int
        Number of fields, rows of each, and length of a row.
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
        """Transform the spectrum back into ``rows``, multiplied by ny; this overwrites the spectrum."""
        if SIMULATED:
            ny = rows.shape[-1]
            rows[:] = np.fft.irfft(self._spectrum[..., 0] + 1j * self._spectrum[..., 1], ny) * ny
        else:
            self._backward.fft(self._spectrum, rows, cupy.cuda.cufft.CUFFT_INVERSE)

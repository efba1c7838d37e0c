"""Streams, graphs and polling by the host, with a stand-in for CuPy: no GPU is needed."""

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from flowsim import Grid, Simulation
from flowsim.kernels.layout import CLOCK_COLUMNS, DT, FLAGS, RUNNING, TIME, UNTIL

try:
    from flowsim.backend.cuda import device
except RuntimeError:  # no CuPy, and kernels are not simulated
    pytest.skip("needs a GPU or numba's simulator", allow_module_level=True)


class StandIn:
    """Stand-in for CuPy: streams whose work waits for a synchronization, and graphs."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.queue: list[Callable[[], None]] = []
        self.cuda = types.SimpleNamespace(
            Stream=lambda non_blocking=False: Stream(self, non_blocking),
            Event=lambda disable_timing: Event(self),
            alloc_pinned_memory=bytearray,
            runtime=types.SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError),
        )

    def zeros(self, shape: Any, dtype: Any) -> np.ndarray:
        return np.zeros(shape, dtype).view(Array)

    def launch(self, work: Callable[[], None]) -> None:
        """Queue work on the current stream, or record it where that is captured."""
        stream = self.streams[-1]
        (self.queue if stream.recorded is None else stream.recorded).append(work)

    def drain(self, until: int | None = None) -> None:
        for work in self.queue[:until]:
            work()
        del self.queue[:until]


class Stream:
    def __init__(self, cupy: StandIn, non_blocking: bool) -> None:
        self.cupy, self.non_blocking = cupy, non_blocking
        self.recorded: list[Callable[[], None]] | None = None

    def __enter__(self) -> None:
        self.cupy.streams.append(self)

    def __exit__(self, *error: object) -> None:
        self.cupy.streams.pop()

    def begin_capture(self) -> None:
        assert self.recorded is None, "captured twice at once"
        self.recorded = []

    def end_capture(self) -> Any:
        assert self.recorded is not None
        kept, self.recorded = self.recorded, None
        return types.SimpleNamespace(launch=lambda stream: self.cupy.queue.extend(kept))

    def synchronize(self) -> None:
        self.cupy.drain()


class Event:
    def __init__(self, cupy: StandIn) -> None:
        self.cupy, self.done = cupy, True

    def record(self, stream: Stream) -> None:
        self.done = False
        self.cupy.queue.append(lambda: setattr(self, "done", True))

    def synchronize(self) -> None:
        while not self.done:
            self.cupy.drain(1)


class Array(np.ndarray):
    """An array of the device, with the one method that NumPy's arrays lack."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(copy_to_host_async=self._copy)

    def _copy(self, address: int, size: int, stream: Stream) -> None:
        import ctypes

        stream.cupy.queue.append(lambda: ctypes.memmove(address, self.ctypes.data, size) and None)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(device, "cupy", stand_in)
    monkeypatch.setattr(device, "SIMULATED", False)
    return stand_in


def make_program(cupy: StandIn, done: list[Any], settings: dict[str, float]) -> Any:
    """Return a program of two sweeps, which record a number that they were launched with."""

    def sweeps() -> None:
        cfl = settings["cfl"]
        cupy.launch(lambda: done.append(("first", cfl)))
        if settings.pop("interrupted", None):
            raise KeyboardInterrupt
        cupy.launch(lambda: done.append(("second", cfl)))

    return device.Device().program(sweeps, lambda: settings["cfl"])


@contextmanager
def _fails(error: type[BaseException]) -> Iterator[None]:
    with pytest.raises(error):
        yield


@pytest.mark.parametrize("times", [1, device.STEPS_AT_ONCE])
def test_interrupted_capture_leaves_no_graph(cupy: StandIn, times: int) -> None:
    done: list[Any] = []
    settings: dict[str, float] = {"cfl": 0.5}
    program = make_program(cupy, done, settings)
    program()  # compiles
    settings["interrupted"] = True
    with _fails(KeyboardInterrupt):
        program.queue(times)
    cupy.drain()
    done.clear()
    program.queue(times)
    cupy.drain()
    assert done == [("first", 0.5), ("second", 0.5)] * times


def test_first_run_may_be_interrupted(cupy: StandIn) -> None:
    done: list[Any] = []
    settings: dict[str, float] = {"cfl": 0.5, "interrupted": True}
    program = make_program(cupy, done, settings)
    with _fails(KeyboardInterrupt):
        program()
    assert not cupy.streams
    cupy.drain()
    done.clear()
    program.queue(20)
    cupy.drain()
    assert done == [("first", 0.5), ("second", 0.5)] * 20


def test_changed_launch_arguments_are_captured_again(cupy: StandIn) -> None:
    done: list[Any] = []
    settings: dict[str, float] = {"cfl": 0.5}
    program = make_program(cupy, done, settings)
    program.queue(20)
    settings["cfl"] = 0.25
    program.queue(20)
    cupy.drain()
    assert [cfl for _, cfl in done] == [0.5] * 40 + [0.25] * 40


def test_capture_uses_a_non_blocking_stream(cupy: StandIn) -> None:
    """Otherwise a thread that uses the null stream meanwhile (a learner) gets an error."""
    captured_on = []

    def sweeps() -> None:
        if cupy.streams[-1].recorded is not None:
            captured_on.append(cupy.streams[-1])

    program = device.Device().program(sweeps, lambda: None)
    program.queue(device.STEPS_AT_ONCE + 2)
    assert captured_on
    assert all(stream.non_blocking for stream in captured_on)


def clocks(*left: float) -> tuple[np.ndarray, np.ndarray]:
    """Return clocks of simulations with the given numbers of steps left, and which are running."""
    clock = np.zeros((len(left), CLOCK_COLUMNS))
    clock[:, DT], clock[:, UNTIL] = 0.01, 0.01 * np.array(left)
    return clock, np.array(left) > 0


@pytest.mark.parametrize(
    ("left", "queued", "expected"),
    [
        ((100.0, 3.0), 0, 8),
        ((100.0, 3.0), 8, 8),
        ((13.0, 3.0), 8, 5),
        ((12.1,), 8, 5),
        ((8.0, 0.0), 8, 0),
        ((3.0,), 8, 0),
        ((1e-9,), 0, 1),
        ((np.inf,), 8, 8),
        ((np.nan, 1.0), 0, 1),  # has blown up, and is not running
    ],
)
def test_as_many_steps_are_queued_as_the_slowest_needs(
    left: tuple[float, ...], queued: int, expected: int
) -> None:
    assert device.steps_to_queue(*clocks(*left), queued) == expected


def test_maximum_number_of_steps_is_queued_before_the_first() -> None:
    clock, running = clocks(3.0, 5.0)
    clock[0, DT] = 0.0
    assert device.steps_to_queue(clock, running, 8) == device.STEPS_AT_ONCE


@pytest.mark.parametrize("first_dt", [0.0, 0.01])
@pytest.mark.parametrize("steps", [1, 7, 8, 9, 16, 17, 91, 157])
@pytest.mark.parametrize("growth", [1.0, 1.002])
def test_few_steps_are_idle(cupy: StandIn, steps: int, growth: float, first_dt: float) -> None:
    """Time is filled with whole steps as by kernels.time, of a speed that may grow, and ends exactly."""
    sized = {"clock": ((2, CLOCK_COLUMNS), np.float64), "flags": ((FLAGS, 2), np.bool_)}
    it = device.Device()
    host, near = it.state(sized)
    clock, running = near["clock"], near["flags"][RUNNING]
    clock[:, UNTIL], clock[:, DT], running[:] = (0.01 * steps, 0.0043), first_dt, True
    host["clock"][:], host["flags"][RUNNING] = clock, running
    counts = {"needed": 0, "idle": 0}
    largest = [0.01]

    def step() -> None:
        counts["needed" if running.any() else "idle"] += 1
        for b in np.flatnonzero(running):
            left = clock[b, UNTIL] - clock[b, TIME]
            clock[b, DT] = left / np.ceil(left / largest[0] - 1e-9)
            clock[b, TIME] += clock[b, DT]
            running[b] = clock[b, TIME] < clock[b, UNTIL] - 1e-9
        largest[0] /= growth

    program = it.program(lambda: cupy.launch(step), lambda: None)
    it.repeat(program, running, None)
    assert not running.any()
    cupy.drain()
    assert counts["needed"] >= steps
    # nothing is known before the host has polled once, and little about steps that become smaller
    unknown = max(2 * device.STEPS_AT_ONCE - steps, 0) if first_dt == 0.0 else 0
    assert counts["idle"] <= unknown + (1 if growth > 1.0 else 0)


def test_nothing_is_queued_if_no_simulation_runs(cupy: StandIn) -> None:
    it = device.Device()
    sized = {"clock": ((1, CLOCK_COLUMNS), np.float64), "flags": ((FLAGS, 1), np.bool_)}
    _, near = it.state(sized)
    program = it.program(lambda: cupy.launch(lambda: None), lambda: None)
    it.repeat(program, near["flags"][RUNNING], None)
    assert not cupy.queue


@pytest.mark.parametrize(
    ("batch", "nx", "ny", "words"),
    [
        (65_536, 8, 8, r"batch = 65536: the cuda backend takes at most 65535 simulations"),
        (1, 262_140, 8, r"nx = 262140: the cuda backend takes at most .* cells along x"),
        (300, 4096, 2048, r"2523.* values of a field .* at most 2147483647: take fewer"),
    ],
)
def test_sizes_beyond_kernel_limits_are_refused(
    monkeypatch: pytest.MonkeyPatch, batch: int, nx: int, ny: int, words: str
) -> None:
    monkeypatch.setattr(device, "TILE", (64, 4))  # as on a GPU
    with pytest.raises(ValueError, match=words):
        Simulation(Grid(nx, ny, 0.1), viscosity=0.1, batch=batch, backend="cuda")


def test_largest_batch_is_accepted() -> None:
    device.check_size(65_535, Grid(128, 64, 0.1))


@pytest.mark.parametrize("name", ["cfl", "penalty", "integrator"])
def test_settings_changed_between_steps_take_effect(name: str) -> None:
    """A program is captured again if its settings changed, so they must include all attributes that a user may set."""
    sim = Simulation(Grid(8, 8, 0.25), viscosity=0.1, backend="cuda")
    before = sim._settings()
    setattr(sim, name, {"cfl": 0.2, "penalty": 10.0, "integrator": "euler"}[name])
    assert sim._settings() != before

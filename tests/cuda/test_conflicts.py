"""Kernels have no data races: unordered accesses of two threads to an element, one of which is a write."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from kernels import all_kernels
from numba import config, cuda
from test_equality import CASES

import flowsim
from flowsim import Disk, Grid, Jet, Sides, Simulation
from flowsim.backend import step
from flowsim.stability.damping import SelectiveFrequencyDamping

if config.ENABLE_CUDASIM:
    import simulator
    from conflicts import Allowance, Recorder, recording

    ALLOWED = (
        # a ghost point beyond a corner belongs to two lines: both write what follows from the same faces, which no
        # thread writes, and each reads only what it has written
        Allowance("_fill_ghosts", "fields.u"),
        Allowance("_fill_ghosts", "fields.v"),
        # every far-field side adds up the same blocks of vorticity in the same order
        Allowance("_induce", "room.excess"),
        # every thread adds the one bit for "touches a body" to what the launch before has left: with or without it,
        # what is read makes the same byte, and a byte is written without its neighbours
        Allowance("_weigh", "bodies.contact", own_reads=False),
        Allowance("_take_turns", "bodies.contact", own_reads=False),
        # the block that finds by an atomic count, behind a fence, that all others have joined in is alone
        Allowance("_correct", "speeds.largest", one_value=False),
        Allowance("_correct", "speeds.arrived", one_value=False),
    )

pytestmark = pytest.mark.skipif(not config.ENABLE_CUDASIM, reason="needs numba's simulator")


def run_flow(
    sides: Sides, bodies: list[Any], options: dict[str, Any], dtype: str = "float32"
) -> None:
    """Take a step of two flows and one of the first alone, measured and damped."""
    sensors = [(len(bodies) - 1, (0.6, 0.1))] if bodies else []
    sim = Simulation(Grid(14, 10, 0.3), sides, bodies, viscosity=0.05, batch=2, dtype=dtype, backend="cuda",
                     sensors=sensors, **options)  # fmt: skip
    flowsim.Recorder(sim, probes=[(1.0, 1.0)])
    SelectiveFrequencyDamping(sim, damping=1.0, filter_width=2.0)
    sim.target_jet_flow_rates[:] = 0.2
    sim.advance_steps(1)
    sim.advance(0.001, active=np.array([True, False]))
    sim.max_divergence(), sim.solid(), sim.sample_velocity(np.zeros((2, 1, 2)))


def solve_for_pressure() -> None:
    """Solve in rows of one piece and of many, of even and odd lengths, and too long for a block."""
    from flowsim.backend.cuda import Device, PressureSolver

    device, active = Device(), np.array([True, False, True])
    for nx, ny in (3, 5), (16, 8), (13, 7), (67, 4):
        for around, held, name in (
            ((False, False), (False, False, False, False), "float32"),
            ((True, False), (False, False, True, True), "float64"),
            ((False, True), (True, False, False, False), "float32"),
        ):
            solver = PressureSolver(nx, ny, around, held, np.dtype(name), len(active), device)
            solver.solve(device.array(active), device.zeros((len(active), nx, ny), name))


def bodies_in_a_row() -> None:
    """Each body overlaps only the next one, so the later ones are processed in turn."""
    sides, _, options = CASES["wake"]
    bodies = [Disk(center=(0.5 + 1.06 * n, 1.5), diameter=0.6) for n in range(3)]
    run_flow(sides, [*bodies, Disk(center=(3.68, 1.5), diameter=0.6, motion="free")], options)


def four_swimmers() -> None:
    """Each overlaps all others."""
    sides, bodies, options = CASES["swimmers that meet"]
    run_flow(sides, 2 * bodies, options)


def with_jets() -> None:
    """Blow from two slots beside each other in the second of two bodies that meet, and from one in the first."""
    sides, bodies, options = CASES["jets"]
    beside = [Jet(body=1, angle=angle, width=0.6) for angle in (0.2, 0.7)]
    jets = [*beside, Jet(point=(0.0, 1.3), width=0.5)]
    run_flow(sides, bodies[:2], options | {"jets": jets})


def warm_bodies() -> None:
    """Hold two bodies that meet at temperatures of their own."""
    sides, _, options = CASES["convection"]
    bodies = [Disk(center=(x, 1.5), diameter=1.2) for x in (0.2, 1.3)]
    heat = dataclasses.replace(options["temperature"], diffusivity=0.05, bodies={0: 2.0, 1: 1.0})
    run_flow(sides, bodies, options | {"temperature": heat})


FLOWS = (
    "periodic, light, falling", "open, any shape", "far field, driven", "on springs, held, light",
    "driven by a force",
)  # fmt: skip
SCENARIOS: dict[str, Callable[[], None]] = {
    **{name: functools.partial(run_flow, *CASES[name]) for name in FLOWS},
    "bodies in a row": bodies_in_a_row,
    "four swimmers": four_swimmers,
    "jets": with_jets,
    "warm bodies": warm_bodies,
    "double precision": functools.partial(run_flow, *CASES["cavity"], dtype="float64"),
    "pressure": solve_for_pressure,
}


@functools.cache
def recorded(name: str) -> "Recorder":
    """Return the recorder of a scenario."""
    with pytest.MonkeyPatch.context() as patch, recording() as recorder:
        patch.setattr(step, "SETTLING_SWEEPS", 1)
        SCENARIOS[name]()
    return recorder


@pytest.mark.parametrize("name", SCENARIOS)
def test_threads_do_not_conflict(name: str) -> None:
    """Except for the intended conflicts."""
    conflicts = recorded(name).conflicts
    assert not [str(it) for it in conflicts if not any(allowed.covers(it) for allowed in ALLOWED)]


def test_every_kernel_was_launched() -> None:
    launched = set().union(*(recorded(name).launched for name in SCENARIOS))
    assert {kernel.name for kernel in all_kernels() if kernel.function not in launched} == set()
    assert "_solve_systems" in {function.__name__ for function in launched}


def test_every_allowance_is_needed() -> None:
    conflicts = [it for name in SCENARIOS for it in recorded(name).conflicts]
    assert [allowed for allowed in ALLOWED if not any(map(allowed.covers, conflicts))] == []


def test_concurrent_launches_were_recorded() -> None:
    assert ("_place", "_predict") in recorded("bodies in a row").beside
    assert {("_gather", "_weigh"), ("_induce", "_drag")} <= recorded("far field, driven").beside


def test_kernels_conflict_if_barriers_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """With barriers ignored, every kernel that has barriers is reported."""
    none = property(lambda _: 0, lambda *_: None)
    monkeypatch.setattr(simulator.Thread, "barriers", none, raising=False)
    with recording() as recorder:
        body = Disk(center=(1.6, 1.6))
        Simulation(Grid(8, 8, 0.4), Sides(), [body], viscosity=0.1, backend="cuda")
    kernels = {it.kernel for it in recorder.conflicts if it.array.startswith("shared")}
    expected = "_weigh", "_respond", "_induce", "_update_sides", "_solve_systems", "_correct"
    assert kernels == set(expected)


# --- the recorder itself ------------------------------------------------------------------------------------------


@cuda.jit
def turn_around(values: Any, barriers: int) -> None:
    """Turn four values around, twice, with so many of the two barriers that each time needs."""
    room, t = cuda.shared.array(4, np.float64), cuda.threadIdx.x
    for _ in range(2):
        room[t] = values[t]
        if barriers > 0:
            cuda.syncthreads()
        values[t] = room[3 - t]
        if barriers > 1:
            cuda.syncthreads()


@cuda.jit
def turn_around_in_place(values: Any, barriers: int) -> None:
    t = cuda.threadIdx.x
    value = values[3 - t]
    if barriers > 0:
        cuda.syncthreads()
    values[t] = value


@cuda.jit
def write_to_one(values: Any, per_block: int) -> None:
    values[0] = 1 + per_block * cuda.blockIdx.x


@cuda.jit
def pass_on(values: Any, distance: int) -> None:
    """Write to the element of the own block, pass a barrier, which does not order blocks, and read another element."""
    b = cuda.blockIdx.x
    values[b] = values[b] + 1.0
    cuda.syncthreads()
    values[b] += values[b - distance]


@cuda.jit
def write_or_read(values: Any, reader: int) -> None:
    if cuda.blockIdx.x != reader:
        values[0] = 1.0
    else:
        values[1] = values[0]


@cuda.jit
def count(values: Any, reads: bool) -> None:
    near = cuda.shared.array(1, np.int32)
    cuda.atomic.add(near, 0, 1)
    cuda.atomic.max(values, 0, cuda.threadIdx.x)
    if reads:
        values[1 + cuda.blockIdx.x] = values[0]


class Views(NamedTuple):
    """Two views of the same numbers."""

    flat: Any
    rows: Any


@cuda.jit
def write_through_views(views: Views, row: int) -> None:
    if cuda.blockIdx.x == 0:
        views.flat[5] = 1.0
    else:
        views.rows[row][1] = 2.0


def found(kernel: Any, blocks: int, threads: int, *arguments: Any) -> set[tuple[str, str]]:
    """Return arrays and kinds of the conflicts of a launch."""
    with recording() as recorder:
        kernel[blocks, threads](*arguments)
    return {(it.array.partition(":")[0], it.kind) for it in recorder.conflicts}


def test_missing_barriers_are_found() -> None:
    values = np.arange(4.0)
    for barriers in (0, 1):
        assert found(turn_around, 1, 4, values, barriers) == {("shared", "read-write")}
    assert found(turn_around, 1, 4, values, 2) == set()
    assert found(turn_around_in_place, 1, 4, values, 0) == {("values", "read-write")}
    assert found(turn_around_in_place, 1, 4, values, 1) == set()


def test_shared_memory_belongs_to_a_block() -> None:
    kinds = "read-write", "write-write"
    assert found(turn_around, 3, 4, np.zeros(4), 2) == {("values", kind) for kind in kinds}


def test_conflicts_between_blocks_are_found() -> None:
    for per_block in (0, 1):
        assert found(write_to_one, 2, 1, np.zeros(2), per_block) == {("values", "write-write")}
    assert found(write_to_one, 1, 1, np.zeros(2), 1) == set()
    assert found(pass_on, 3, 1, np.zeros(3), 1) == {("values", "read-write")}
    assert found(pass_on, 3, 1, np.zeros(3), 0) == set()


def test_atomic_operations_do_not_conflict_with_each_other() -> None:
    values = np.zeros(3, np.int64)
    assert found(count, 2, 3, values, False) == set()
    assert values[0] == 2
    assert ("values", "read-write") in found(count, 2, 1, values, True)


def test_elements_are_the_same_through_any_view() -> None:
    values = np.zeros(8)
    views = Views(values, values.reshape(2, 4))
    for row in (1, -1):
        assert found(write_through_views, 2, 1, views, row) == {("views.flat", "write-write")}
    assert found(write_through_views, 2, 1, views, 0) == set()


def test_allowances_depend_on_what_was_written() -> None:
    conflicts = []
    for kernel, argument in (write_to_one, 0), (write_to_one, 1), (write_or_read, 1):
        with recording() as recorder:
            kernel[2, 1](np.zeros(2), argument)
        conflicts += recorder.conflicts
    same, other, read = conflicts
    assert same.one_value
    assert not other.one_value
    assert read.one_value
    assert not read.own_reads
    allowed = Allowance("write_to_one", "values")
    assert [allowed.covers(it) for it in conflicts] == [True, False, False]
    assert allowed._replace(one_value=False).covers(other)
    assert not allowed._replace(array="others").covers(same)
    allowed = Allowance("write_or_read", "values")
    assert not allowed.covers(read)
    assert allowed._replace(own_reads=False).covers(read)


def test_concurrent_launches_that_conflict_are_found() -> None:
    from flowsim.backend.cuda import Device

    device, values, others = Device(), np.zeros(2), np.zeros(2)
    for first, second in (values, values), (values, others):
        with recording() as recorder:
            write_to_one[1, 1](values, 0)
            wait = device.beside(lambda it=first: write_to_one[1, 1](it, 0))
            pass_on[1, 1](second, 0)
            wait()
            pass_on[1, 1](first, 0)
            device.beside(lambda it=second: write_to_one[1, 1](it, 0))()
        kinds = {(it.kernel, it.array, it.kind) for it in recorder.conflicts}
        names = "write_to_one beside pass_on"
        meet = {(names, "values", "write-write"), (names, "values", "read-write")}
        assert kinds == (meet if first is second else set())
        assert recorder.beside == {("write_to_one", "pass_on")}


def test_concurrent_launch_without_a_wait_is_an_error() -> None:
    from flowsim.backend.cuda import Device

    with recording() as recorder:
        Device().beside(lambda: write_to_one[1, 1](np.zeros(1), 0))
    with pytest.raises(AssertionError, match="nobody waits"):
        assert not recorder.conflicts

"""The pressure solver: transform along y, tridiagonal systems along x."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.cpu.compiling import Task, divided, inner, rows_of
from flowsim.backend.cpu.device import Device
from flowsim.backend.cpu.flow import divergence
from flowsim.backend.cpu.jets import subtract_sources
from flowsim.backend.cpu.lanes import LANES, load, store
from flowsim.backend.cpu.transform import ROWS, TransformTables, buffer_size, change_rows
from flowsim.backend.poisson import PoissonPlan
from flowsim.kernels.cell import line_of_constants
from flowsim.kernels.records import Bodies, Box, Fields

Array = Any

GROUP = 4 * LANES
"""Systems that are solved together: enough to hide the latency of one, few enough for their rows to fit the
registers."""


class Systems(NamedTuple):
    """The systems along x: tables of :class:`flowsim.backend.poisson.PoissonPlan`, their rows padded, and the sides.

    Attributes
    ----------
    pivots, closure, closure_pivot : (rows, modes)
    periodic : bool
        Whether the box is periodic in x.
    constant : bool
        Whether mode 0 has no pivots.
    held_low, held_high : bool
        Whether phi is zero on the left and on the right side.
    """

    pivots: NDArray[np.floating]
    closure: NDArray[np.floating]
    closure_pivot: NDArray[np.floating]
    periodic: bool
    constant: bool
    held_low: bool
    held_high: bool


class PressureSolver:
    """Solves lap phi = d on unit spacing for the simulations of a batch.

    The solution of a simulation is the same bit for bit whatever else is in the batch: on one thread, and on any number
    of threads.

    Parameters
    ----------
    nx, ny : int
        Cells of the grid.
    periodic : (bool, bool)
        Whether the box is periodic in x and in y.
    held : (bool, bool, bool, bool)
        Whether phi is zero on the left, right, bottom and top side; the same for bottom and top.
    dtype : numpy.dtype
    batch : int
        Number of simulations for which work arrays are allocated.
    device : Device
        The number of its threads is that of the transforms that run at a time.
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        periodic: tuple[bool, bool],
        held: tuple[bool, bool, bool, bool],
        dtype: np.dtype,
        batch: int,
        device: Device,
    ) -> None:
        plan = PoissonPlan.build(nx, ny, periodic, held, dtype)
        self._tables = TransformTables.build(ny, periodic[1], held[2], dtype)
        self._systems = Systems(
            pivots=_pad(plan.pivots),
            closure=_pad(plan.closure),
            closure_pivot=_pad(plan.closure_pivot[None]),
            periodic=periodic[0],
            constant=plan.constant,
            held_low=held[0],
            held_high=held[1],
        )
        self._modes = device.zeros((batch, nx, _padded(ny)), dtype)
        self._mode_zero = device.zeros((batch, nx), np.float64)
        self._buffers = device.zeros((device.threads, buffer_size(ny)), dtype)

    def solve_divergence(self, active: Array, fields: Fields, bodies: Bodies, box: Box) -> None:
        """Write to phi the potential whose gradient, on unit spacing, has the divergence of the new velocity.

        The sources of jets are subtracted from the divergence.
        """
        divergence(active, fields.new_u, fields.new_v, fields.phi, box.sides)
        if bodies.jets is not None:
            subtract_sources(active, fields.phi, bodies, box)
        self.solve(active, fields.phi)

    def solve(self, active: Array, d: NDArray[np.floating]) -> None:
        """Replace ``d`` (B, nx, ny) by phi for the ``active`` simulations, both of zero mean if phi is held nowhere."""
        modes, room = self._modes, (self._buffers, self._tables)
        transform(active, d, modes, *room, False)
        solve_systems(active, modes, self._mode_zero, self._systems)
        transform(active, modes, d, *room, True)


def _padded(n: int) -> int:
    """Return the padded length of a row of n modes, in whole groups.

    One more vector is added, so that the rows of a column do not compete for the same cache lines.
    """
    return -(-n // GROUP) * GROUP + LANES


def _pad(columns: NDArray[np.floating]) -> NDArray[np.floating]:
    rows, n = columns.shape
    wide = np.zeros((rows, _padded(n)), columns.dtype)
    wide[:, :n] = columns
    return wide


@divided
def transform(
    task: Task,
    source: Array,
    target: Array,
    buffers: Array,
    tables: TransformTables,
    backward: bool,
) -> None:
    """Transform the rows of a field to modes along y, or with ``backward`` modes to rows.

    Only the last task can have an incomplete group of ROWS.
    """
    nx = source.shape[1]
    start, stop = rows_of(task, 0, (nx + ROWS - 1) // ROWS)
    start, stop = start * ROWS, min(stop * ROWS, nx)
    change_rows(source, target, task.b, start, stop, buffers[task.worker], tables, backward)


@inner
def _solve_mode_zero(
    x: Array, b: int, periodic: bool, held_low: bool, held_high: bool, phi: Array
) -> None:
    """Solve phi[i-1] - 2 phi[i] + phi[i+1] = d[i] in float64 by two summations; zero mean if phi is held nowhere."""
    nx = x.shape[1]
    free = not (held_low or held_high)
    mean = 0.0
    if free:
        for i in range(nx):
            mean += np.float64(x[b, i, 0])
        mean /= nx
    here, slope = 0.0, 0.0
    for i in range(nx):
        phi[b, i] = here
        slope += np.float64(x[b, i, 0]) - mean
        here += slope
    tilt, offset = line_of_constants(slope, here, nx, periodic, held_low, held_high)
    total = 0.0
    for i in range(nx):
        phi[b, i] += tilt * i + offset
        total += phi[b, i]
    if free:
        for i in range(nx):
            phi[b, i] -= total / nx


@inner
def _solve_columns(x: Array, at: int, n: int, pivots: Array, m: int) -> None:
    """Solve the first n equations of GROUP systems, from column m on; ``at`` is the index of the first one in x."""
    pitch = pivots.shape[1]
    second, third, fourth = LANES, 2 * LANES, 3 * LANES
    p, q = at, m
    a = load(x, p) * load(pivots, q)
    b = load(x, p + second) * load(pivots, q + second)
    c = load(x, p + third) * load(pivots, q + third)
    d = load(x, p + fourth) * load(pivots, q + fourth)
    store(x, p, a)
    store(x, p + second, b)
    store(x, p + third, c)
    store(x, p + fourth, d)
    for _ in range(1, n):
        p += pitch
        q += pitch
        a = (load(x, p) - a) * load(pivots, q)
        b = (load(x, p + second) - b) * load(pivots, q + second)
        c = (load(x, p + third) - c) * load(pivots, q + third)
        d = (load(x, p + fourth) - d) * load(pivots, q + fourth)
        store(x, p, a)
        store(x, p + second, b)
        store(x, p + third, c)
        store(x, p + fourth, d)
    for _ in range(1, n):
        p -= pitch
        q -= pitch
        a = load(x, p) - load(pivots, q) * a
        b = load(x, p + second) - load(pivots, q + second) * b
        c = load(x, p + third) - load(pivots, q + third) * c
        d = load(x, p + fourth) - load(pivots, q + fourth) * d
        store(x, p, a)
        store(x, p + second, b)
        store(x, p + third, c)
        store(x, p + fourth, d)


@divided
def solve_systems(task: Task, modes: Array, zero: Array, systems: Systems) -> None:
    """Solve the systems along x of :class:`flowsim.backend.poisson.PoissonPlan` in place, mode by mode.

    ``zero`` (B, nx) float64 is scratch memory for the mode that has no pivots, if it is ``constant``.
    """
    pivots, closure, closure_pivot, periodic, constant, held_low, held_high = systems
    nx, pitch = modes.shape[1], modes.shape[2]
    n = nx - 1 if periodic else nx
    s = task.b
    start, stop = rows_of(task, 0, pitch // GROUP)
    if constant and start == 0 and stop > 0:
        _solve_mode_zero(modes, s, periodic, held_low, held_high, zero)
    for group in range(start, stop):
        _solve_columns(modes, s * nx * pitch + GROUP * group, n, pivots, GROUP * group)
    if periodic:
        for m in range(GROUP * start, GROUP * stop):
            modes[s, n, m] = (modes[s, n, m] - modes[s, 0, m] - modes[s, n - 1, m]) * closure_pivot[
                0, m
            ]
        for i in range(n):
            for m in range(GROUP * start, GROUP * stop):
                modes[s, i, m] += closure[i, m] * modes[s, n, m]
    if constant and start == 0 and stop > 0:
        for i in range(nx):
            modes[s, i, 0] = zero[s, i]

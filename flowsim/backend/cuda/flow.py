"""Sweeps over the whole grid: advection and diffusion, divergence, correction.

Threads of a block lie along y, where memory is contiguous; each advances through a few rows along x and keeps the
neighbours in that direction in registers. Threads of an inactive simulation return at once. Sweeps over all cells use
flat arrays and unsigned indices, to which a row is added: numba lets negative indices count from the end, and that
check, in 64 bits for each access, costs more than all the arithmetic of a cell.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import (
    ROWS,
    THREADS,
    TILE,
    WARP,
    Kernel,
    Sweep,
    cell_blocks,
    sweep_over,
    warp_max,
)
from flowsim.boundary import BOTTOM, LEFT, RIGHT, TOP
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import (
    HALF,
    OPEN,
    PERIODIC,
    adams_bashforth,
    cell_speed,
    flux,
    net_outflow,
    velocity_at,
)
from flowsim.kernels.layout import CATCH_UP, DT, RATIO, VISCOSITY
from flowsim.kernels.records import Box, Clock, Fields
from flowsim.kernels.time import note_speed

Array = Any
WARPS = TILE[0] * TILE[1] // WARP
PREDICTING_BLOCKS = 5
"""Blocks of the prediction that a multiprocessor runs at once; the number of registers is limited accordingly."""
PREDICTED_ROWS = min(4, ROWS)
"""Most rows that a thread predicts: with more, there would be fewer blocks to hide memory latency."""


class Speeds(NamedTuple):
    """Work arrays in which the blocks of a sweep find the largest speed of each simulation.

    The largest speed so far, and how many blocks have contributed; both are zero between sweeps.
    """

    largest: Array
    arrived: Array


@cuda.jit(device=True)
def face_index(b: int, i: int, j: int, nx: int, ny: int) -> Any:
    """Return the flat index of face (i, j) of simulation b in a padded array."""
    return np.uint64((b * (nx + 2 * G) + i + G) * (ny + 2 * G) + j + G)


@cuda.jit(device=True)
def cell_index(b: int, i: int, j: int, nx: int, ny: int) -> Any:
    """Return the flat index of cell (i, j) of simulation b."""
    return np.uint64((b * nx + i) * ny + j)


@cuda.jit(device=True)
def rows_of_thread(sweep: Sweep) -> tuple[int, int]:
    """Return the range of rows [first, stop) of this thread."""
    first = (cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y) * sweep.rows
    return first, min(first + sweep.rows, sweep.nx)


def flattened(fields: Fields) -> Fields:
    """Return the fields as one-dimensional arrays, as sweeps over all cells take them."""
    return Fields(*(field.reshape(-1) for field in fields))


@functools.partial(Kernel, launch_bounds=(TILE[0] * TILE[1], PREDICTING_BLOCKS))
def _predict(
    active: Array, fields: Fields, time: Clock, box: Box, sweep: Sweep, over_h: float
) -> None:
    b, j = cuda.blockIdx.z, cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    (nx, ny, _), (first, stop) = sweep, rows_of_thread(sweep)
    if first >= nx or j >= ny or not active[b]:
        return
    u, v, new_u, new_v, old_u, old_v, p, _, _, _ = fields
    sides, clock, real = box.sides, time.columns, u.dtype.type
    dt = clock[b, DT]
    per_12, per_h, nu_per_h = real(1.0 / 12.0), real(over_h), real(clock[b, VISCOSITY] * over_h)
    step, r, dth = real(dt), real(clock[b, RATIO]), real(dt * over_h)
    o, one, two = face_index(b, first, j, nx, ny), np.uint64(1), np.uint64(2)
    e, ee = np.uint64(ny + 2 * G), np.uint64(2 * (ny + 2 * G))  # offsets of the next two rows
    cell, row = cell_index(b, first, j, nx, ny), np.uint64(ny)
    below = cell - one if j > 0 else cell + np.uint64(ny - 1)
    behind = p[cell - row if first > 0 else cell + np.uint64((nx - 1) * ny)]
    # the normal velocity on a side is not set here, unless the side is periodic
    changes_u = first > 0 or sides[LEFT] == PERIODIC
    changes_v = j > 0 or sides[BOTTOM] == PERIODIC
    uw, u0, ue, us, vnw = u[o - e], u[o], u[o + e], u[o - one], v[o - e + one]
    vw, v0, ve = v[o - e], v[o], v[o + e]
    # fluxes of u pass through cell centres, those of v through corners; what leaves a row enters the next
    u_west = flux(HALF * (uw + u0), u[o - ee], uw, u0, ue, per_12, nu_per_h)
    v_west = flux(HALF * (us + u0), v[o - ee], vw, v0, ve, per_12, nu_per_h)
    uee, vee, here, earlier_u, earlier_v = u[o + ee], v[o + ee], p[cell], old_u[o], old_v[o]
    for i in range(first, stop):
        # all reads come before all writes, because the compiler cannot move a read before a write that may alias it;
        # values that come from memory rather than from a cache are read one row ahead
        ahead, row_ahead = (e, row) if i < stop - 1 else (np.uint64(0), np.uint64(0))
        next_uee, next_vee, next_here = u[o + ahead + ee], v[o + ahead + ee], p[cell + row_ahead]
        next_earlier_u, next_earlier_v = old_u[o + ahead], old_v[o + ahead]
        use, uss, un, unn = u[o + e - one], u[o - two], u[o + one], u[o + two]
        vss, vs, vn, vnn, under = v[o - two], v[o - one], v[o + one], v[o + two], p[below]
        east_u = flux(HALF * (u0 + ue), uw, u0, ue, uee, per_12, nu_per_h)
        south = flux(HALF * (vw + v0), uss, us, u0, un, per_12, nu_per_h)
        north = flux(HALF * (vnw + vn), us, u0, un, unn, per_12, nu_per_h)
        rate_u = per_h * ((u_west - east_u) + (south - north))
        east_v = flux(HALF * (use + ue), vw, v0, ve, vee, per_12, nu_per_h)
        south = flux(HALF * (vs + v0), vss, vs, v0, vn, per_12, nu_per_h)
        north = flux(HALF * (v0 + vn), vs, v0, vn, vnn, per_12, nu_per_h)
        rate_v = per_h * ((v_west - east_v) + (south - north))
        if changes_u:
            new_u[o] = adams_bashforth(u0, rate_u, earlier_u, step, r) - dth * (here - behind)
            old_u[o] = rate_u
        if changes_v:
            new_v[o] = adams_bashforth(v0, rate_v, earlier_v, step, r) - dth * (here - under)
            old_v[o] = rate_v
        u_west, v_west, changes_u = east_u, east_v, True
        uw, u0, ue, us, vnw = u0, ue, uee, use, vn
        vw, v0, ve, behind = v0, ve, vee, here
        uee, vee, here = next_uee, next_vee, next_here
        earlier_u, earlier_v = next_earlier_u, next_earlier_v
        o, cell, below = o + e, cell + row, below + row


_predict_in_double = Kernel(_predict.function)
"""The same kernel with as many registers as double precision takes."""


def predict(active: Array, fields: Fields, clock: Clock, box: Box, room: Any) -> None:
    """Write the velocity after advection, diffusion and the last pressure gradient to new_u, new_v.

    The rates of this step replace those of the previous one. Fluxes along x are passed from row to row; those along y
    are computed on both sides of a face, which is cheaper than sharing them.
    """
    sweep, tiles = sweep_over(fields.pressure.shape, PREDICTED_ROWS)
    kernel = _predict if fields.u.itemsize == 4 else _predict_in_double
    kernel.launch(tiles, (*TILE, 1), active, flattened(fields), clock, box, sweep, 1.0 / box.h)


@cuda.jit(device=True)
def write_outflow(
    u: Array, v: Array, d: Array, j: int, place: int, sign: Any, sweep: Sweep, sides: Array
) -> None:
    """Write h div u of cells j of this thread's rows, multiplied by ``sign``, to entries ``place`` of d."""
    (nx, ny, _), (first, stop) = sweep, rows_of_thread(sweep)
    if first >= nx:
        return
    b = cuda.blockIdx.z
    o, one, e = face_index(b, first, j, nx, ny), np.uint64(1), np.uint64(ny + 2 * G)
    at, row = cell_index(b, first, place, nx, ny), np.uint64(ny)
    # on a periodic side the last face is the first one
    north = o - np.uint64(ny - 1) if sides[BOTTOM] == PERIODIC and j == ny - 1 else o + one
    last, back = nx - 1 if sides[LEFT] == PERIODIC else nx, np.uint64(nx - 1) * e
    west = u[o]
    for i in range(first, stop):
        east = u[o - back if i == last else o + e]
        d[at] = sign * net_outflow(west, east, v[o], v[north])
        west = east
        o, north, at = o + e, north + e, at + row


@Kernel
def _divergence(active: Array, u: Array, v: Array, d: Array, sides: Array, sweep: Sweep) -> None:
    j = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if j < sweep.ny and active[cuda.blockIdx.z]:
        write_outflow(u, v, d, j, j, u.dtype.type(1), sweep, sides)


def divergence(active: Array, u: Array, v: Array, d: Array, sides: Array) -> None:
    """Write h div u at the cell centres."""
    sweep, tiles = sweep_over(d.shape)
    flat = [field.reshape(-1) for field in (u, v, d)]
    _divergence.launch(tiles, (*TILE, 1), active, *flat, sides, sweep)


@cuda.jit(device=True)
def place_along_y(j: int, ny: int, sides: Array) -> int:
    """Return where the pressure solver stores entry j of a row.

    Between walls even entries come first, followed by the odd ones in reverse order: the Fourier transform of a row in
    this order is its cosine transform up to a factor for each mode (Makhoul 1980).
    """
    if sides[BOTTOM] == PERIODIC:
        return j
    return j // 2 if j % 2 == 0 else ny - 1 - j // 2


@cuda.jit(device=True)
def sign_along_y(j: int, sides: Array) -> int:
    """Return the sign with which the pressure solver stores entry j: between open sides it turns cosines into sines."""
    return -1 if sides[BOTTOM] == OPEN and j % 2 == 1 else 1


# one loop, so that values of a row stay in registers for the next one
@Kernel
def _correct(
    active: Array,
    fields: Fields,
    clock: Clock,
    box: Box,
    keep_pressure: bool,
    speeds: Speeds,
    sweep: Sweep,
) -> None:
    b, j = cuda.blockIdx.z, cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if not active[b]:
        return
    u, v, new_u, new_v, _, _, p, phi, _, _ = fields
    sides, real = box.sides, u.dtype.type
    (nx, ny, _), (first, stop) = sweep, rows_of_thread(sweep)
    fastest = real(0)
    if first < nx and j < ny:
        now = clock.columns[b]
        scale = real(box.h * now[CATCH_UP] / now[DT]) if keep_pressure else real(0)
        o, one, e = face_index(b, first, j, nx, ny), np.uint64(1), np.uint64(ny + 2 * G)
        corner, row = cell_index(b, first, 0, nx, ny), np.uint64(ny)
        cell, at = corner + np.uint64(j), corner + np.uint64(place_along_y(j, ny, sides))
        sign = real(sign_along_y(j, sides))
        # phi is continued oddly beyond an open side, and evenly beyond others that are not periodic
        low_x = real(-1 if sides[LEFT] == OPEN else 1)
        high_x = real(-1 if sides[RIGHT] == OPEN else 1)
        below, sign_below = at, sign * real(-1 if sides[BOTTOM] == OPEN else 1)
        above, sign_above = at, sign * real(-1 if sides[TOP] == OPEN else 1)
        if j > 0 or sides[BOTTOM] == PERIODIC:
            before = j - 1 if j > 0 else ny - 1
            below = corner + np.uint64(place_along_y(before, ny, sides))
            sign_below = real(sign_along_y(before, sides))
        # v above the cells is also computed by another thread, unless it lies on a side
        on_top = j == ny - 1 and sides[BOTTOM] != PERIODIC
        if not on_top:
            after = j + 1 if j < ny - 1 else 0
            above = corner + np.uint64(place_along_y(after, ny, sides))
            sign_above = real(sign_along_y(after, sides))
        up = o - np.uint64(ny - 1) if j == ny - 1 and not on_top else o + one
        around = sides[LEFT] == PERIODIC
        if first > 0:
            west = sign * phi[at - row]
        elif around:
            west = sign * phi[at + np.uint64((nx - 1) * ny)]
        else:
            west = low_x * sign * phi[at]
        here = sign * phi[at]
        across = new_u[o] - (here - west)
        for i in range(first, stop):
            next_o, next_at, turn = o + e, at + row, real(1)
            on_right = i == nx - 1 and not around
            if on_right:
                next_at, turn = at, high_x
            elif i == nx - 1:
                next_o, next_at = o - np.uint64(nx - 1) * e, at - np.uint64(nx - 1) * row
            # all reads come before all writes: see _predict
            new_east, ahead, new_south, new_north = new_u[next_o], phi[next_at], new_v[o], new_v[up]
            under, over, pressure = phi[below], phi[above], p[cell]
            beyond = turn * (sign * ahead)
            east = new_east - (beyond - here)
            along = new_south - (here - sign_below * under)
            north = new_north - (sign_above * over - here)
            u[o], v[o], p[cell] = across, along, pressure + scale * here
            if on_top:
                v[up] = north
            if on_right:
                u[next_o] = east
            s = cell_speed(across, east, along, north)
            if not s <= fastest:  # NaN included
                fastest = s if s == s else real(math.inf)
            across, here = east, beyond
            o, up, cell, at = o + e, up + e, cell + row, at + row
            below, above = below + row, above + row
    fastest = warp_max(fastest)
    largest = cuda.shared.array(WARPS, np.float64)
    t = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    if t % WARP == 0:
        largest[t // WARP] = fastest
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, WARPS):
            largest[0] = max(largest[0], largest[warp])
        _note_block(b, largest[0], cuda.gridDim.x * cuda.gridDim.y, speeds, clock)


@cuda.jit(device=True)
def _note_block(b: int, fastest: float, blocks: int, speeds: Speeds, clock: Clock) -> None:
    """Update the largest speed of a simulation; its last block stores the result and resets the work arrays."""
    cuda.atomic.max(speeds.largest, b, fastest)
    cuda.threadfence()
    if cuda.atomic.add(speeds.arrived, b, 1) == blocks - 1:
        cuda.threadfence()
        # an atomic read, so that the value does not come from a cache
        note_speed(b, cuda.atomic.max(speeds.largest, b, 0.0), clock)
        speeds.largest[b], speeds.arrived[b] = 0.0, 0


def correct(
    active: Array, fields: Fields, clock: Clock, box: Box, keep_pressure: bool, speeds: Speeds
) -> None:
    """Write the projected velocity to u, v, add phi to the pressure, and store the largest speed and blow-ups.

    ``phi`` is dt/h times the change of p, in the order of :func:`place_along_y`; that change is less in a very short
    step (:func:`flowsim.kernels.time.catch_up`) and zero without ``keep_pressure``. A velocity that is not finite
    counts as infinite speed.
    """
    sweep, tiles = sweep_over(fields.pressure.shape)
    records = flattened(fields), clock, box
    _correct.launch(tiles, (*TILE, 1), active, *records, keep_pressure, speeds, sweep)


def find_speed(active: Array, fields: Fields, clock: Clock, box: Box, speeds: Speeds) -> None:
    """Do nothing: :func:`correct` has stored the speed."""


@Kernel
def _copy_velocity(active: Array, u: Array, v: Array, new_u: Array, new_v: Array) -> None:
    j, i, b = cuda.grid(3)
    if i < u.shape[1] and j < u.shape[2] and active[b]:
        new_u[b, i, j] = u[b, i, j]
        new_v[b, i, j] = v[b, i, j]


def copy_velocity(active: Array, fields: Fields) -> None:
    """Copy u, v to new_u, new_v."""
    batch, wide, high = fields.u.shape
    blocks = cell_blocks(wide, high, batch)
    _copy_velocity.launch(blocks, (*TILE, 1), active, *fields[:4])


@Kernel
def _sample(active: Array, u: Array, v: Array, points: Array, h: float, velocity: Array) -> None:
    b = cuda.blockIdx.x
    if active[b]:
        for m in range(cuda.threadIdx.x, points.shape[1], cuda.blockDim.x):
            velocity[b, m, 0], velocity[b, m, 1] = velocity_at(
                u[b], v[b], points[b, m, 0], points[b, m, 1], h
            )


def sample(active: Array, u: Array, v: Array, points: Array, h: float, velocity: Array) -> None:
    """Write the velocity at ``points`` (B, n, 2) to ``velocity`` (B, n, 2)."""
    _sample.launch((len(active),), (THREADS,), active, u, v, points, h, velocity)

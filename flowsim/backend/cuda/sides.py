"""Sweeps over the sides of the box: ghost points, and the velocity normal to the sides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.flow import cell_index, flattened
from flowsim.backend.cuda.launching import SIMULATED, THREADS, Kernel, block_sums
from flowsim.boundary import BOTTOM, LEFT, RIGHT, SIDES, TOP, is_low, normal_to_x, outwards
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import HALF, OPEN, PERIODIC, adams_bashforth, flux, open_side_rate
from flowsim.kernels.ghosts import fill_normal, fill_tangential
from flowsim.kernels.layout import DT, RATIO, VISCOSITY
from flowsim.kernels.mass_balance import balanced_sides, faces_of, next_on_side
from flowsim.kernels.records import Box, Clock, Fields

Array = Any
LINES = 8 if SIMULATED else 64
"""Threads per block in sweeps with one line or face per thread: few, so that there are many blocks."""


@Kernel
def _fill_ghosts(active: Array, fields: Fields, box: Box, nx: int, ny: int, along_x: int) -> None:
    """Fill both ends of lines, with one thread per line; ``along_x`` blocks of a simulation take those along x.

    The result does not depend on the order of the blocks. Normal velocity is filled from faces that no thread writes.
    Tangential velocity in ghost lines needs the normal velocity there; each thread that needs it computes it, and
    others write the same values to the same entries.
    """
    b, block = cuda.blockIdx.x, cuda.blockIdx.y
    if not active[b]:
        return
    u, v, sides, given = fields.u, fields.v, box.sides, box.given
    wide, high = nx + 2 * G, ny + 2 * G
    start = b * wide * high
    if block < along_x:
        line = block * cuda.blockDim.x + cuda.threadIdx.x
        if line >= high:
            return
        if G <= line < G + ny:
            fill_normal(u, start + line, high, nx, sides[LEFT], sides[RIGHT])
        else:
            for end in range(2):
                for i in range(2):
                    column = start + (G + end * (nx - 2) + i) * high
                    fill_normal(v, column, 1, ny, sides[BOTTOM], sides[TOP])
        fill_tangential(v, u, start + line, high, nx, sides, LEFT, given, b, 1, line, 1, high)
        return
    line = (block - along_x) * cuda.blockDim.x + cuda.threadIdx.x
    if line >= wide:
        return
    first = start + line * high
    if G <= line < G + nx:
        fill_normal(v, first, 1, ny, sides[BOTTOM], sides[TOP])
    else:
        for end in range(2):
            for j in range(2):
                row = start + G + end * (ny - 2) + j
                fill_normal(u, row, high, nx, sides[LEFT], sides[RIGHT])
    fill_tangential(u, v, first, 1, ny, sides, BOTTOM, given, b, 0, line, high, wide)


def fill_ghosts(active: Array, fields: Fields, box: Box) -> None:
    """Fill the ghost points of u and v from the sides of the box."""
    batch, wide, high = fields.u.shape
    nx, ny = wide - 2 * G, high - 2 * G
    along_x, along_y = -(-high // LINES), -(-wide // LINES)
    blocks = batch, along_x + along_y
    _fill_ghosts.launch(blocks, (LINES,), active, flattened(fields), box, nx, ny, along_x)


@Kernel
def _predict_open_sides(
    active: Array, fields: Fields, time: Clock, box: Box, nx: int, ny: int, over_h: float
) -> None:
    b, side, m = (
        cuda.blockIdx.x,
        cuda.blockIdx.y,
        cuda.blockIdx.z * cuda.blockDim.x + cuda.threadIdx.x,
    )
    if box.sides[side] != OPEN or not active[b]:
        return
    u, v, new_u, new_v, old_u, old_v, p, _, _, _ = fields
    clock, real = time.columns, u.dtype.type
    per_12, per_h, nu_per_h = real(1.0 / 12.0), real(over_h), real(clock[b, VISCOSITY] * over_h)
    dt, r, two_dth = real(clock[b, DT]), real(clock[b, RATIO]), real(2.0 * clock[b, DT] * over_h)
    low, component = is_low(side), 0 if normal_to_x(side) else 1
    f, new, old, along = (u, new_u, old_u, v) if normal_to_x(side) else (v, new_v, old_v, u)
    start, step, inwards, cells = faces_of(side, nx, ny, b)
    outwards = real(-1 if low else 1)
    # the cells behind the side have the index of their lower faces
    behind = start if low else start + inwards
    up = inwards if low else -inwards
    first_cell = 0 if low else (nx - 1 if normal_to_x(side) else ny - 1)
    if m >= cells:
        return
    o, c = start + m * step, behind + m * step
    before = flux(along[c], f[o - 2 * step], f[o - step], f[o], f[o + step], per_12, nu_per_h)
    after = flux(along[c + step], f[o - step], f[o], f[o + step], f[o + 2 * step], per_12, nu_per_h)
    centre = flux(
        HALF * (f[c] + f[c + up]), f[c - up], f[c], f[c + up], f[c + 2 * up], per_12, nu_per_h
    )
    outside = box.given[b, side, component, m + G]
    rate = open_side_rate(outwards, f[o], centre, before, after, outside, per_h)
    i, j = (first_cell, m) if normal_to_x(side) else (m, first_cell)
    pressure = p[cell_index(b, i, j, nx, ny)]
    new[o] = adams_bashforth(f[o], rate, old[o], dt, r) + outwards * two_dth * pressure
    old[o] = rate


def predict_open_sides(active: Array, fields: Fields, clock: Clock, box: Box) -> None:
    """Do what :func:`predict` does, for the normal velocity on ``open`` sides, from the half cells behind them."""
    _, nx, ny = fields.pressure.shape
    blocks = (len(active), SIDES, -(-max(nx, ny) // LINES))
    records = flattened(fields), clock, box
    _predict_open_sides.launch(blocks, (LINES,), active, *records, nx, ny, 1.0 / box.h)


@Kernel
def _update_sides(active: Array, fields: Fields, clock: Clock, box: Box, nx: int, ny: int) -> None:
    """Set the faces on the sides, with a quarter of the threads for each side.

    Every block computes the flux out of all sides by itself, from velocities that no thread writes: that takes less
    time than waiting for the sums of other blocks.
    """
    b, t, quarter = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x // SIDES
    if not active[b]:
        return
    scratch = cuda.shared.array((1, THREADS), np.float64)
    u, v, new_u, new_v = fields.u, fields.v, fields.new_u, fields.new_v
    sides, given = box.sides, box.given
    side, first = t // quarter, t % quarter
    real, kind, sign = u.dtype.type, sides[side], outwards(side)
    old, new, component = (u, new_u, 0) if normal_to_x(side) else (v, new_v, 1)
    start, step, inwards, cells = faces_of(side, nx, ny, b)
    courant = real(max(sign * given[b, side, component, 0], 0.0) * clock.columns[b, DT] / box.h)
    balanced, faces = balanced_sides(nx, ny, sides)
    correction = 0.0
    if faces > 0:
        total = 0.0
        for m in range(first, cells if kind != PERIODIC else 0, quarter):
            outside, edge = given[b, side, component, m + G], start + m * step
            total += float(next_on_side(kind, real(sign), old, edge, inwards, outside, courant))
        block_sums((sign * total,), scratch)
        if kind == balanced:
            correction = sign * scratch[0, 0] / faces
    if kind == PERIODIC or kind == OPEN:
        return
    for m in range(first + cuda.blockIdx.y * quarter, cells, cuda.gridDim.y * quarter):
        outside, edge = given[b, side, component, m + G], start + m * step
        value = next_on_side(kind, real(sign), old, edge, inwards, outside, courant)
        new[edge] = value - real(correction)


def update_sides(active: Array, fields: Fields, clock: Clock, box: Box) -> None:
    """Set the normal velocity on all sides except ``open`` ones, without a net flux if there are no open sides."""
    nx, ny = fields.u.shape[1] - 2 * G, fields.u.shape[2] - 2 * G
    blocks = (len(active), -(-max(nx, ny) * SIDES // THREADS))
    _update_sides.launch(blocks, (THREADS,), active, flattened(fields), clock, box, nx, ny)

"""Velocity that the vorticity in the box induces on its sides, in two sweeps: gather, induce."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from flowsim.backend.cuda.flow import flattened
from flowsim.backend.cuda.launching import THREADS, WARP, Kernel, block_sums, warp_sum
from flowsim.boundary import SIDES, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import FAR_FIELD, OUTFLOW
from flowsim.kernels.far_field import (
    DEPARTED,
    block_range,
    block_size,
    blocks_along,
    carry_departed,
    cubic,
    first_face,
    followed,
    induced_at_outflow,
    induced_by,
    lack_at,
    outflows,
    outward,
    side_point,
    turn,
)
from flowsim.kernels.layout import CATCH_UP, DT
from flowsim.kernels.records import Box, Clock, Fields

Array = Any


SPACINGS = 5
"""Spacings between points in a piece of a side. With one point before and two after them there are eight points, as
many as there are warps in a block."""
POINTS = SPACINGS + 3


class FarField(NamedTuple):
    """Work arrays of the far field.

    Attributes
    ----------
    vortices
        Blocks of vortices, shape (B, 7, blocks). The last :data:`~flowsim.kernels.far_field.DEPARTED` have left the
        box.
    excess
        Total circulation of all blocks, shape (B,).
    lacks
        Flux deficits of the wakes that leave through the sides, there and far behind them, shape (B, 4, 2).
    """

    vortices: Array
    excess: Array
    lacks: Array


@cuda.jit(device=True)
def _find_lack(b: int, side: int, fields: Fields, box: Box, lacks: Array, scratch: Array) -> None:
    """Write the flux deficits of the wake that leaves through a side, if it is ``outflow``."""
    if box.sides[side] != OUTFLOW:
        return
    u, v, h, t = fields.u, fields.v, box.h, cuda.threadIdx.x
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    lack, kept = 0.0, 0.0
    for m in range(1 + t, ny if normal_to_x(side) else nx, cuda.blockDim.x):
        flux, momentum = lack_at(u[b], v[b], nx, ny, h, side, m, outward(box.stream, side))
        lack += flux
        kept += momentum
    block_sums((lack, kept), scratch)
    if t == 0:
        lacks[b, side, 0], lacks[b, side, 1] = scratch[0, 0], scratch[1, 0]


@Kernel
def _gather(
    active: Array, fields: Fields, flat: Fields, clock: Clock, box: Box, moves: bool, spacing: int,
    room: FarField,
) -> None:  # fmt: skip
    """Write the multipoles of blocks of vorticity about their centres, and the flux deficits of wakes leaving the box.

    There is a block of threads for each block of vorticity, one more for each side, and one for what has left the box.
    """
    b, n, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[b]:
        return
    scratch = cuda.shared.array((5, THREADS), np.float64)
    u, v, h, (vortices, excess, lacks) = flat.u, flat.v, box.h, room
    nx, ny = fields.u.shape[1] - 2 * G, fields.u.shape[2] - 2 * G
    inside = vortices.shape[2] - DEPARTED
    if n == inside + SIDES:
        if t == 0:
            dt, length = clock.columns[b, DT] if moves else 0.0, block_size(spacing) * h
            blocks, sides, stream = vortices[b], box.sides, box.stream
            carry_departed(blocks, inside, sides, stream, dt, excess[b], length, nx, ny, h)
        return
    if n >= inside:
        _find_lack(b, n - inside, fields, box, lacks, scratch)
        return
    across = blocks_along(ny, spacing)
    first, last = block_range(n // across, nx, spacing)
    low, high = block_range(n % across, ny, spacing)
    xm, ym = 0.5 * (first + last - 1) * h, 0.5 * (low + high - 1) * h
    # each warp takes some rows, each of its threads some corners of them; sums along x come first, as on the CPU
    lane, warps = t % WARP, cuda.blockDim.x // WARP
    rows = (last - first + warps - 1) // warps
    start = first + t // WARP * rows
    stop = min(start + rows, last)
    g, dx, dy, qx, qy = 0.0, 0.0, 0.0, 0.0, 0.0
    if start < stop:
        one, row = np.uint64(1), np.uint64(ny + 2 * G)
        for j in range(low + lane, high, WARP):
            o = np.uint64((b * (nx + 2 * G) + start + G) * (ny + 2 * G) + j + G)
            west = v[o - row]
            gammas, firsts, seconds = 0.0, 0.0, 0.0
            for i in range(start, stop):
                east = v[o]
                gamma, x = float(turn(west, east, u[o - one], u[o])), i * h - xm
                gammas += gamma
                firsts += gamma * x
                seconds += gamma * (x * x)
                west = east
                o += row
            y = j * h - ym
            g += gammas
            dx += firsts
            dy += gammas * y
            qx += seconds - gammas * (y * y)
            qy += 2.0 * firsts * y
    block_sums((g, dx, dy, qx, qy), scratch)
    for moment in range(t, 5, cuda.blockDim.x):
        vortices[b, 2 + moment, n] = h * scratch[moment, 0]
    if t == 0:
        vortices[b, 0, n], vortices[b, 1, n] = xm, ym


@Kernel
def _induce(
    active: Array,
    clock: Clock,
    box: Box,
    nx: int,
    ny: int,
    moves: bool,
    spacing: int,
    room: FarField,
) -> None:
    """Set the stream plus the induced velocity on pieces of the sides, from points ``spacing`` cells apart.

    There is a block of threads for each piece, a warp for each point, and a cubic between the points.
    """
    b, side, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    h, sides, given, stream, _ = box
    vortices, excess, lacks = room
    first, cells = cuda.blockIdx.z * SPACINGS, ny if normal_to_x(side) else nx
    start, into = first_face(first, cells, spacing)
    if not active[b] or sides[side] != FAR_FIELD or start >= cells + 2 * G:
        return
    points = cuda.shared.array(POINTS, np.float64)
    lane = t % WARP
    for point in range(t // WARP, POINTS, cuda.blockDim.x // WARP):
        x, y = side_point(side, first + point, spacing, nx, ny, h)
        total, normal = 0.0, 0.0
        for n in range(lane, vortices.shape[2], WARP):
            zx, zy, g = x - vortices[b, 0, n], y - vortices[b, 1, n], vortices[b, 2, n]
            dx, dy = vortices[b, 3, n], vortices[b, 4, n]
            du, dv = induced_by(zx, zy, g, dx, dy, vortices[b, 5, n], vortices[b, 6, n])
            total += g
            normal += du if normal_to_x(side) else dv
        total, normal = warp_sum(total), warp_sum(normal) * (0.5 / math.pi)
        if lane == 0:
            if first + point == 0:
                excess[b] = total  # the same from every side
            total /= max(outflows(sides), 1)
            for other in range(SIDES):
                if sides[other] == OUTFLOW:
                    lack, kept = lacks[b, other, 0], lacks[b, other, 1]
                    du, dv = induced_at_outflow(x, y, other, nx, ny, h, lack, kept, total)
                    normal += du if normal_to_x(side) else dv
            points[point] = normal
    cuda.syncthreads()
    component = 0 if normal_to_x(side) else 1
    real, part = given.dtype.type, clock.columns[b, CATCH_UP] if moves else 1.0
    for m in range(t, SPACINGS * spacing, cuda.blockDim.x):
        low, face = m // spacing, start + m
        if 0 <= face < cells + 2 * G:
            induced = cubic(points, low, (m - low * spacing + into) / spacing)
            before, now = float(given[b, side, component, face]), stream[component] + induced
            given[b, side, component, face] = real(followed(before, now, part))


def far_field(
    active: Array, fields: Fields, clock: Clock, box: Box, moves: bool, spacing: int, room: FarField
) -> None:
    """Set the normal velocity of the unbounded flow on the ``far_field`` sides, as on the CPU."""
    batch, nx, ny = fields.pressure.shape
    blocks = (batch, room.vortices.shape[2] - DEPARTED + SIDES + 1)
    # one warp per sixteen rows of a block of vorticity: there are many blocks, and each waits for its own sums
    warps = max(1, min(block_size(spacing) // 16, THREADS // WARP))
    records = fields, flattened(fields), clock, box
    _gather.launch(blocks, (warps * WARP,), active, *records, moves, spacing, room)
    pieces = -(-(max(nx, ny) + 2 * G) // (SPACINGS * spacing))
    _induce.launch(
        (batch, SIDES, pieces), (THREADS,), active, clock, box, nx, ny, moves, spacing, room
    )

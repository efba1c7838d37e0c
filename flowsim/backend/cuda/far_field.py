"""What the vorticity in the box induces on its sides, in three sweeps: gather, induce, interpolate."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import THREADS, Kernel, block_sums
from flowsim.boundary import SIDES, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import FAR_FIELD, OUTFLOW
from flowsim.kernels.far_field import (
    BLOCK_SPACINGS,
    circulation,
    cubic,
    induced_by,
    induced_by_departed,
    lack_at,
    outward,
    side_point,
)

Array = Any


class FarField(NamedTuple):
    """Room for blocks of vortices (B, blocks, 7), lacks of wakes (B, 4, 2), and velocities at points (B, 4, points)."""

    vortices: Array
    lacks: Array
    points: Array


@Kernel
def _gather(active: Array, u: Array, v: Array, h: float, block: int, vortices: Array) -> None:
    """Write the multipoles of blocks of vorticity about their middles, one block of threads for each."""
    n, b, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[b]:
        return
    scratch = cuda.shared.array((5, THREADS), np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    across = (ny + block - 2) // block
    first, low = 1 + (n // across) * block, 1 + (n % across) * block
    last, high = min(first + block, nx), min(low + block, ny)
    width, corners = high - low, max(last - first, 0) * max(high - low, 0)
    xm, ym = 0.5 * (first + last - 1) * h, 0.5 * (low + high - 1) * h
    g, dx, dy, qx, qy = 0.0, 0.0, 0.0, 0.0, 0.0
    for corner in range(t, corners, cuda.blockDim.x):
        i, j = first + corner // width, low + corner % width
        gamma = circulation(u[b], v[b], i, j, h)
        x, y = i * h - xm, j * h - ym
        g += gamma
        dx += gamma * x
        dy += gamma * y
        qx += gamma * (x * x - y * y)
        qy += gamma * 2.0 * x * y
    block_sums((g, dx, dy, qx, qy), scratch)
    if t < 5:
        vortices[b, n, 2 + t] = scratch[t, 0]
    elif t == 5:
        vortices[b, n, 0] = xm
    elif t == 6:
        vortices[b, n, 1] = ym


@Kernel
def _measure_wakes(
    active: Array, u: Array, v: Array, h: float, sides: Array, stream: Array, lacks: Array
) -> None:
    """Find what the wakes lack that leave through the sides, one block of threads for each side."""
    side, b, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[b] or sides[side] != OUTFLOW:
        return
    scratch = cuda.shared.array((2, THREADS), np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    lack, kept = 0.0, 0.0
    for m in range(1 + t, ny if normal_to_x(side) else nx, cuda.blockDim.x):
        flux, momentum = lack_at(u[b], v[b], nx, ny, h, side, m, outward(stream, side))
        lack += flux
        kept += momentum
    block_sums((lack, kept), scratch)
    if t < 2:
        lacks[b, side, t] = scratch[t, 0]


@Kernel
def _induce(
    active: Array,
    vortices: Array,
    lacks: Array,
    points: Array,
    nx: int,
    ny: int,
    h: float,
    spacing: int,
    sides: Array,
) -> None:
    """Find the velocity normal to the sides at points ``spacing`` cells apart, one block of threads for each."""
    point, side, b = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
    if not active[b] or sides[side] != FAR_FIELD:
        return
    scratch = cuda.shared.array((2, THREADS), np.float64)
    x, y = side_point(side, (point - 1) * spacing - G, nx, ny, h)
    total, normal = 0.0, 0.0
    for n in range(cuda.threadIdx.x, vortices.shape[1], cuda.blockDim.x):
        vortex = vortices[b, n]
        du, dv = induced_by(
            x - vortex[0], y - vortex[1], vortex[2], vortex[3], vortex[4], vortex[5], vortex[6]
        )
        total += vortex[2]
        normal += du if normal_to_x(side) else dv
    block_sums((total, normal), scratch)
    if cuda.threadIdx.x == 0:
        normal = scratch[1, 0] * (0.5 / math.pi)
        for other in range(SIDES):
            if sides[other] == OUTFLOW:
                lack, kept = lacks[b, other, 0], lacks[b, other, 1]
                du, dv = induced_by_departed(x, y, other, nx, ny, h, lack, kept, scratch[0, 0])
                normal += du if normal_to_x(side) else dv
        points[b, side, point] = normal


@Kernel
def _interpolate(
    active: Array, points: Array, given: Array, spacing: int, sides: Array, stream: Array
) -> None:
    """Give the sides the stream and the induced velocity, a cubic between the points."""
    side, b = cuda.blockIdx.x, cuda.blockIdx.y
    if not active[b] or sides[side] != FAR_FIELD:
        return
    component = 0 if normal_to_x(side) else 1
    real = given.dtype.type
    for m in range(cuda.threadIdx.x, given.shape[3], cuda.blockDim.x):
        low = m // spacing
        # normal faces lie half a cell beyond the corners that the points are
        induced = cubic(points[b, side], low, (m - low * spacing + 0.5) / spacing)
        given[b, side, component, m] = real(stream[component] + induced)


def far_field(
    active: Array,
    u: Array,
    v: Array,
    given: Array,
    sides: Array,
    stream: Array,
    h: float,
    spacing: int,
    room: FarField,
) -> None:
    """Give the ``far_field`` sides the normal velocity of the unbounded flow, as on the CPU."""
    batch, nx, ny = u.shape[0], u.shape[1] - 2 * G, u.shape[2] - 2 * G
    block = BLOCK_SPACINGS * spacing
    _gather.launch(
        (room.vortices.shape[1], batch), (THREADS,), active, u, v, h, block, room.vortices
    )
    _measure_wakes.launch((4, batch), (THREADS,), active, u, v, h, sides, stream, room.lacks)
    _induce.launch(
        (room.points.shape[2], 4, batch), (THREADS,), active, *room, nx, ny, h, spacing, sides
    )
    _interpolate.launch((4, batch), (THREADS,), active, room.points, given, spacing, sides, stream)

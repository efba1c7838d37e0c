"""Windows of bodies, divided into parts of one block of threads each, and work arrays shared by launches over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import SIMULATED, WARP, warp_sum
from flowsim.bodies.table import BodyTable
from flowsim.grid import Grid
from flowsim.kernels.layout import AXIS_A, CENTROID_X

Array = Any

THREADS = 8 if SIMULATED else 128
"""Threads per block."""
LANES = 4 if SIMULATED else 32
"""Threads along a row of a window; the others of a block take further rows."""
ROWS_EACH = 2
"""Rows of a window that a thread goes through; more than one, because its setup takes as long as a face."""
MOST_PARTS = 512
SUMS = 10
"""Sums of w, w r, w r^2, w f, w r f over the faces of u and over those of v."""
WORK = 10
"""Index of the work of the deformation, after those sums."""
AT_X, AT_Y, COSINE, SINE, MASS_X, MASS_Y, INSIDE, STEPS, DIFFUSION = range(9)
"""Columns of places: reference point, cosine and sine of the angle, centre of mass, grip, diffusion at the surface."""
LEVEL, RANK, MEETS = 4, 5, 6
"""Columns of windows, after i0, i1, j0, j1: the level of the body, its rank in the order of bodies, and whether its
window overlaps that of a body before it."""


class BodyRoom(NamedTuple):
    """Work arrays that the launches share.

    Attributes
    ----------
    windows : (B, K, 7) int32
        i0, i1, j0, j1, level, rank, and whether it overlaps one before it.
    places : (B, K, 9) float64
    motions : (B, K, 4) float64
        Velocity of the centre of mass and spin to which the fluid is dragged, and the spin before.
    sums : (B, K, 11, parts) float64
        Sums over the faces in each part of a window.
    along, across : int
        Number of parts of a window along a row, and along its columns.
    """

    windows: Array
    places: Array
    motions: Array
    sums: Array
    along: int
    across: int


def body_room(table: BodyTable, batch: int, grid: Grid, zeros: Callable[..., Array]) -> BodyRoom:
    """Return the work arrays for the bodies of a batch, allocated by ``zeros(shape, dtype)``."""
    count = len(table.order)
    reach = float(table.traits[:, AXIS_A:CENTROID_X].max(initial=0.0))
    faces = 2.0 * reach / grid.h + 5.0
    along = max(1, min(math.ceil(min(faces, grid.ny) / LANES), MOST_PARTS))
    across = math.ceil(min(faces, grid.nx) / (THREADS // LANES * ROWS_EACH))
    across = max(1, min(across, MOST_PARTS // along))
    return BodyRoom(
        zeros((batch, count, 7), np.int32),
        zeros((batch, count, 9), np.float64),
        zeros((batch, count, 4), np.float64),
        zeros((batch, count, SUMS + 1, along * across), np.float64),
        along,
        across,
    )


@cuda.jit(device=True)
def with_face(sums: Any, share: float, arm: float, velocity: float) -> Any:
    """Add a face under a body to the sums of w, w r, w r^2, w f, w r f, r being the lever arm of the velocity f."""
    turning = share * arm
    s0, s1, s2, p0, p1 = sums
    return (
        s0 + share,
        s1 + turning,
        s2 + turning * arm,
        p0 + share * velocity,
        p1 + turning * velocity,
    )


@cuda.jit(device=True)
def moments(sums: Array, first: int, h: float) -> tuple[float, float, float, float, float]:
    """Return five sums over the faces under a body, from column 0 of row ``first`` on, times the area of a cell."""
    area = h * h
    return (
        sums[first, 0] * area,
        sums[first + 1, 0] * area,
        sums[first + 2, 0] * area,
        sums[first + 3, 0] * area,
        sums[first + 4, 0] * area,
    )


@cuda.jit(device=True)
def my_part(along: int, across: int, chunk: int) -> tuple[int, int, int, int]:
    """Return start and stride of the first thread of this block in a window, along x and then along y."""
    rows, down = cuda.blockDim.x // LANES, chunk // along
    return down * rows, across * rows, (chunk - down * along) * LANES, along * LANES


@cuda.jit(device=True)
def my_place() -> tuple[int, int]:
    """Return the offset of this thread from the first one of its block, in rows and in faces."""
    t = cuda.threadIdx.x
    return t // LANES, t % LANES


@cuda.jit(device=True)
def sum_parts(room: BodyRoom, n: int, k: int, sums: Array) -> None:
    """Add up the sums over the parts of a window in a fixed order, one warp per sum, into ``sums`` (10, 1)."""
    warp, lane, warps = cuda.threadIdx.x // WARP, cuda.threadIdx.x % WARP, cuda.blockDim.x // WARP
    for m in range(warp, SUMS, warps):
        total = 0.0
        for part in range(lane, room.sums.shape[3], WARP):
            total += room.sums[n, k, m, part]
        total = warp_sum(total)
        if lane == 0:
            sums[m, 0] = total
    cuda.syncthreads()

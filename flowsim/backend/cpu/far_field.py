"""What the vorticity in the box induces on its sides: the far field of an unbounded flow."""

from __future__ import annotations

import math
from typing import Any

from numba import prange

from flowsim.backend.cpu.compiling import inner, sweep
from flowsim.grid import GHOSTS as G
from flowsim.stencils import FAR_FIELD, OUTFLOW
from flowsim.vortices import circulation, induced_by, induced_by_departed, lack_at, outward, side_point

Array = Any


@inner
def _gather(u: Array, v: Array, nx: int, ny: int, h: float, block: int, vortices: Array) -> int:
    """Write the multipoles of blocks of vorticity about their middles; return how many are not empty."""
    count = 0
    for first in range(1, nx, block):
        for low in range(1, ny, block):
            last, high = min(first + block, nx), min(low + block, ny)
            xm, ym = 0.5 * (first + last - 1) * h, 0.5 * (low + high - 1) * h
            g, dx, dy, qx, qy, size = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(first, last):
                x = i * h - xm
                for j in range(low, high):
                    gamma = circulation(u, v, i, j, h)
                    y = j * h - ym
                    g += gamma
                    dx += gamma * x
                    dy += gamma * y
                    qx += gamma * (x * x - y * y)
                    qy += gamma * 2.0 * x * y
                    size += abs(gamma)
            if size > 1e-9:
                row = vortices[count]
                row[0], row[1], row[2], row[3], row[4], row[5], row[6] = xm, ym, g, dx, dy, qx, qy
                count += 1
    return count


@inner
def _induced(
    x: float,
    y: float,
    vortices: Array,
    count: int,
    u: Array,
    v: Array,
    nx: int,
    ny: int,
    h: float,
    sides: Array,
    stream: Array,
) -> tuple[float, float]:
    """Return the velocity that all vortices and the wakes that have left induce at a point."""
    total, du, dv = 0.0, 0.0, 0.0
    for n in range(count):
        total += vortices[n, 2]
        au, av = induced_by(x - vortices[n, 0], y - vortices[n, 1], vortices[n])
        du += au
        dv += av
    du, dv = du * (0.5 / math.pi), dv * (0.5 / math.pi)
    for side in range(4):
        if sides[side] == OUTFLOW:
            lack, kept = 0.0, 0.0
            for m in range(1, ny if side < 2 else nx):
                flux, momentum = lack_at(u, v, nx, ny, h, side, m, outward(stream, side))
                lack += flux
                kept += momentum
            au, av = induced_by_departed(x, y, side, nx, ny, h, lack, kept, total)
            du += au
            dv += av
    return du, dv


@sweep
def far_field(
    active: Array, u: Array, v: Array, given: Array, sides: Array, stream: Array, h: float, block: int, vortices: Array
) -> None:
    """Give the ``far_field`` sides the normal velocity of the unbounded flow: the stream, and what vorticity induces.

    Biot and Savart's law for the vorticity in the box, in blocks of ``block`` cells a side as multipoles up to the
    second order, plus what has left through ``outflow`` sides. ``vortices`` (B, blocks, 7) is room for the multipoles.
    """
    real = u.dtype.type
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        b = active[task]
        count = _gather(u[b], v[b], nx, ny, h, block, vortices[b])
        for side in range(4):
            if sides[side] != FAR_FIELD:
                continue
            component = 0 if side < 2 else 1
            cells = ny if side < 2 else nx
            last = 0.0
            for point in range(-G, cells + G + block, block):
                x, y = side_point(side, point, nx, ny, h)
                du, dv = _induced(x, y, vortices[b], count, u[b], v[b], nx, ny, h, sides, stream)
                here = du if component == 0 else dv
                if point > -G:
                    # normal faces lie half a cell beyond the corners that the points are
                    for m in range(point - block, min(point, given.shape[3] - G)):
                        share = (m - point + block + 0.5) / block
                        given[b, side, component, m + G] = real(stream[component] + last + share * (here - last))
                last = here

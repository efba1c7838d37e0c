"""What the vorticity in the box induces on its sides: the far field of an unbounded flow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from flowsim.backend.cpu.compiling import inner, sweep
from flowsim.boundary import Side
from flowsim.grid import GHOSTS as G

Array = Any
OUTFLOW, FAR_FIELD = int(Side.OUTFLOW), int(Side.FAR_FIELD)


@inner
def _gather(u: Array, v: Array, nx: int, ny: int, h: float, block: int, vortices: Array) -> int:
    """Write the multipoles of blocks of vorticity about their middles; return how many are not empty.

    A row of ``vortices`` is the middle (x, y), the circulation, and real and imaginary part of the sums of gamma (z -
    z_m) and gamma (z - z_m)^2. Vorticity sits at the corners of the cells.
    """
    count = 0
    for first in range(1, nx, block):
        for low in range(1, ny, block):
            last, high = min(first + block, nx), min(low + block, ny)
            xm, ym = 0.5 * (first + last - 1) * h, 0.5 * (low + high - 1) * h
            g, dx, dy, qx, qy, size = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(first, last):
                x = i * h - xm
                for j in range(low, high):
                    turn = (v[i + G, j + G] - v[i + G - 1, j + G]) - (u[i + G, j + G] - u[i + G, j + G - 1])
                    gamma = np.float64(turn) * h
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
def _departed(u: Array, v: Array, nx: int, ny: int, h: float, side: int) -> tuple[float, float, float]:
    """Return where a wake leaves through a side (its middle), and the flux that it lacks.

    The deficit d of the outward speed in the wake follows from its vorticity, dd/dt = omega along the side, and goes on
    unchanged beyond it: to the flow outside that is a source of strength int d dt = -int t omega dt.
    """
    across = side < 2
    n = ny if across else nx
    depth = 1 if side % 2 == 0 else (nx if across else ny) - 1
    sense = 1.0 if side == 1 or side == 2 else -1.0
    lack = 0.0
    for m in range(1, n):
        i, j = (depth, m) if across else (m, depth)
        turn = (v[i + G, j + G] - v[i + G - 1, j + G]) - (u[i + G, j + G] - u[i + G, j + G - 1])
        lack -= sense * (m - 0.5 * n) * h * np.float64(turn)
    x = (nx if side == 1 else 0) * h if across else 0.5 * nx * h
    y = 0.5 * ny * h if across else (ny if side == 3 else 0) * h
    return x, y, lack


@inner
def _induced(x: float, y: float, vortices: Array, count: int) -> tuple[float, float]:
    """Return u - iv = sum(g / z + d / z^2 + q / z^3) / (2 pi i) as (u, v)."""
    re, im = 0.0, 0.0
    for n in range(count):
        zx, zy = x - vortices[n, 0], y - vortices[n, 1]
        per_r2 = 1.0 / (zx * zx + zy * zy)
        cx, cy = zx * per_r2, -zy * per_r2
        # Horner in 1/z
        ax = vortices[n, 3] + vortices[n, 5] * cx - vortices[n, 6] * cy
        ay = vortices[n, 4] + vortices[n, 5] * cy + vortices[n, 6] * cx
        bx = vortices[n, 2] + ax * cx - ay * cy
        by = ax * cy + ay * cx
        re += bx * cx - by * cy
        im += bx * cy + by * cx
    scale = 0.5 / math.pi
    return im * scale, re * scale


@sweep
def far_field(
    active: Array, u: Array, v: Array, given: Array, sides: Array, stream: Array, h: float, block: int, vortices: Array
) -> None:
    """Give the ``far_field`` sides the normal velocity of the unbounded flow: the stream, and what vorticity induces.

    Biot and Savart's law for the vorticity in the box, in blocks of ``block`` cells a side as multipoles up to the
    second order, plus what has left through ``outflow`` sides: a source for the deficit of the wake and a vortex that
    brings the circulation of everything back to zero (Kelvin). ``vortices`` (B, blocks, 7) is room for the multipoles.
    """
    real = u.dtype.type
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        b = active[task]
        count = _gather(u[b], v[b], nx, ny, h, block, vortices[b])
        total = 0.0
        for n in range(count):
            total += vortices[b, n, 2]
        for side in range(4):
            if sides[side] != FAR_FIELD:
                continue
            across = side < 2
            cells = ny if across else nx
            last_u, last_v = 0.0, 0.0
            for point in range(-G, cells + G + block, block):
                x, y = float(point) * h, float(point) * h
                if across:
                    x = (nx if side == 1 else 0) * h
                else:
                    y = (ny if side == 3 else 0) * h
                du, dv = _induced(x, y, vortices[b], count)
                for other in range(4):
                    if sides[other] == OUTFLOW:
                        xs, ys, lack = _departed(u[b], v[b], nx, ny, h, other)
                        zx, zy = x - xs, y - ys
                        scale = 0.5 / (math.pi * max(zx * zx + zy * zy, h * h))
                        du += scale * (lack * zx + total * zy)
                        dv += scale * (lack * zy - total * zx)
                if point > -G:
                    # normal faces lie half a cell beyond the corners that the points are
                    for m in range(point - block, min(point, given.shape[3] - G)):
                        share = (m - point + block + 0.5) / block
                        if across:
                            given[b, side, 0, m + G] = real(stream[0] + last_u + share * (du - last_u))
                        else:
                            given[b, side, 1, m + G] = real(stream[1] + last_v + share * (dv - last_v))
                last_u, last_v = du, dv

"""What vorticity induces far away, written once for every backend: blocks of vortices, wakes, points on the sides."""

from __future__ import annotations

import math
from typing import Any

from flowsim.grid import GHOSTS as G
from flowsim.shared import shared

Array = Any


@shared
def circulation(u: Array, v: Array, i: int, j: int, h: float) -> float:
    """Return the circulation around the corner (i, j) of the cells."""
    turn = (v[i + G, j + G] - v[i + G - 1, j + G]) - (u[i + G, j + G] - u[i + G, j + G - 1])
    return float(turn) * h


@shared
def induced_by(zx: float, zy: float, vortex: Array) -> tuple[float, float]:
    """Return velocity times 2 pi at z = (zx, zy) from the middle of a block of vortices.

    u - iv = (g / z + d / z^2 + q / z^3) / (2 pi i); ``vortex`` is (x, y, g, d, q), d and q complex: the circulation,
    and the sums of gamma (z - z_m) and gamma (z - z_m)^2 about the middle.
    """
    per_r2 = 1.0 / (zx * zx + zy * zy)
    cx, cy = zx * per_r2, -zy * per_r2
    # Horner in 1/z
    ax = vortex[3] + vortex[5] * cx - vortex[6] * cy
    ay = vortex[4] + vortex[5] * cy + vortex[6] * cx
    bx = vortex[2] + ax * cx - ay * cy
    by = ax * cy + ay * cx
    return bx * cy + by * cx, bx * cx - by * cy


@shared
def induced_by_departed(zx: float, zy: float, lack: float, total: float, h: float) -> tuple[float, float]:
    """Return the velocity at z from where a wake leaves the box.

    A source for the deficit of the wake, and a vortex that brings the circulation of everything back to zero (Kelvin).
    """
    scale = 0.5 / (math.pi * max(zx * zx + zy * zy, h * h))
    return scale * (lack * zx + total * zy), scale * (lack * zy - total * zx)


@shared
def place_of_departure(side: int, nx: int, ny: int, h: float) -> tuple[float, float]:
    """Return the middle of a side, where a wake leaves the box."""
    x = (nx if side == 1 else 0) * h if side < 2 else 0.5 * nx * h
    y = 0.5 * ny * h if side < 2 else (ny if side == 3 else 0) * h
    return x, y


@shared
def lack_at(u: Array, v: Array, nx: int, ny: int, h: float, side: int, m: int) -> float:
    """Return the part of corner m along a side in the flux that a wake leaving there lacks.

    The deficit d of the outward speed in the wake follows from its vorticity, dd/dt = omega along the side, and goes on
    unchanged beyond it: to the flow outside that is a source of strength int d dt = -int t omega dt.
    """
    n = ny if side < 2 else nx
    depth = 1 if side % 2 == 0 else (nx if side < 2 else ny) - 1
    sense = 1.0 if side == 1 or side == 2 else -1.0
    i, j = (depth, m) if side < 2 else (m, depth)
    return -sense * (m - 0.5 * n) * circulation(u, v, i, j, h)


@shared
def side_point(side: int, point: int, nx: int, ny: int, h: float) -> tuple[float, float]:
    """Return the place of corner ``point`` along a side."""
    along = float(point) * h
    if side < 2:
        return (nx if side == 1 else 0) * h, along
    return along, (ny if side == 3 else 0) * h

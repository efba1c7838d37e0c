"""What vorticity induces far away, written once for every backend: blocks of vortices, wakes, points on the sides."""

from __future__ import annotations

import math
from typing import Any

from flowsim.boundary import BOTTOM, RIGHT, TOP, is_low, normal_to_x, outwards
from flowsim.grid import GHOSTS as G
from flowsim.kernels.device_function import device_function

Array = Any

BLOCK_SPACINGS = 2
"""Side of a block of vortices, in spacings of the points on the sides."""


@device_function
def circulation(u: Array, v: Array, i: int, j: int, h: float) -> float:
    """Return the circulation around the corner (i, j) of the cells."""
    return (
        float(turn(v[i + G - 1, j + G], v[i + G, j + G], u[i + G, j + G - 1], u[i + G, j + G])) * h
    )


@device_function
def turn(west: Any, east: Any, below: Any, above: Any) -> Any:
    """Return the circulation per cell size around a corner, from v on its left and right and u below and above it."""
    return (east - west) - (above - below)


@device_function
def induced_by(
    zx: float, zy: float, g: float, dx: float, dy: float, qx: float, qy: float
) -> tuple[float, float]:
    """Return velocity times 2 pi at z = (zx, zy) from the middle of a block of vortices.

    u - iv = (g / z + d / z^2 + q / z^3) / (2 pi i); g is the circulation, and the complex d and q are the sums of
    gamma (z - z_m) and gamma (z - z_m)^2 about the middle.
    """
    per_r2 = 1.0 / (zx * zx + zy * zy)
    cx, cy = zx * per_r2, -zy * per_r2
    # Horner in 1/z
    ax = dx + qx * cx - qy * cy
    ay = dy + qx * cy + qy * cx
    bx = g + ax * cx - ay * cy
    by = ax * cy + ay * cx
    return bx * cy + by * cx, bx * cx - by * cy


@device_function
def induced_by_departed(
    x: float,
    y: float,
    side: int,
    nx: int,
    ny: int,
    h: float,
    lack: float,
    kept: float,
    total: float,
) -> tuple[float, float]:
    """Return the velocity at (x, y) by a wake that leaves the box through the middle of a side.

    A source for the flux ``lack`` that the wake leaves with, and a vortex that brings the circulation ``total`` of
    the box back to zero (Kelvin). Beyond the side the stream fills the wake until the flux that it lacks is ``kept``,
    as its momentum demands: there is a sink for the rest, as far behind the side as the side is long.
    """
    # the middle of the side, and where the wake has filled up
    along, across = (nx, ny) if normal_to_x(side) else (ny, nx)
    edge, middle = (0 if is_low(side) else along) * h, 0.5 * across * h
    beyond = edge + outwards(side) * across * h
    zx, zy = (x - edge, y - middle) if normal_to_x(side) else (x - middle, y - edge)
    fx, fy = (x - beyond, y - middle) if normal_to_x(side) else (x - middle, y - beyond)
    near = 0.5 / (math.pi * max(zx * zx + zy * zy, h * h))
    sink = (kept - lack) * 0.5 / (math.pi * max(fx * fx + fy * fy, h * h))
    return near * (lack * zx + total * zy) + sink * fx, near * (lack * zy - total * zx) + sink * fy


@device_function
def lack_at(
    u: Array, v: Array, nx: int, ny: int, h: float, side: int, m: int, stream: float
) -> tuple[float, float]:
    """Return the parts of corner m along a side in what a wake leaving there lacks: flux, and momentum per ``stream``.

    The deficit d of the outward speed in the wake follows from its vorticity, dd/dt = omega along the side; its flux is
    int d dt = -int t omega dt. Momentum is conserved behind the side, int (U - d) d dt = U int d dt far away: so this
    is the flux that lacks there. ``stream`` is U, the given speed out of the box.
    """
    n = ny if normal_to_x(side) else nx
    depth = 1 if is_low(side) else (nx if normal_to_x(side) else ny) - 1
    sense = 1.0 if side == RIGHT or side == BOTTOM else -1.0
    i, j = (depth, m) if normal_to_x(side) else (m, depth)
    flux = -sense * (m - 0.5 * n) * circulation(u, v, i, j, h)
    if stream <= 0.0:
        return flux, flux
    edge = G if is_low(side) else G + (nx if normal_to_x(side) else ny)
    before, after = (
        (u[edge, m - 1 + G], u[edge, m + G])
        if normal_to_x(side)
        else (v[m - 1 + G, edge], v[m + G, edge])
    )
    speed = 0.5 * (before + after) * outwards(side)
    return flux, speed * (1.0 - speed / stream) * h


@device_function
def outward(stream: Array, side: int) -> float:
    """Return the speed of the stream out of the box through a side."""
    return float(stream[0] if normal_to_x(side) else stream[1]) * outwards(side)


@device_function
def side_point(side: int, point: int, nx: int, ny: int, h: float) -> tuple[float, float]:
    """Return the place of corner ``point`` along a side."""
    along = float(point) * h
    if normal_to_x(side):
        return (nx if side == RIGHT else 0) * h, along
    return along, (ny if side == TOP else 0) * h


def blocks_in(nx: int, ny: int, spacing: int) -> int:
    """Return how many blocks of vortices there are in a box of so many cells."""
    block = BLOCK_SPACINGS * spacing
    return -(-(nx - 1) // block) * -(-(ny - 1) // block)


@device_function
def points_along(cells: int, spacing: int) -> int:
    """Return how many points there are along a side of so many cells, its ghosts included.

    Point k is the corner ``(k - 1) spacing - G`` of the side: one lies before the ghosts, and one or two behind them.
    """
    return (cells + 2 * G - 1) // spacing + 4


@device_function
def cubic(points: Array, low: int, share: float) -> float:
    """Return what lies between points ``low + 1`` and ``low + 2``, a share of the way: the cubic of four points."""
    before, beyond = share + 1.0, share - 2.0
    return float(
        points[low] * (share * (1.0 - share) * beyond / 6.0)
        + points[low + 1] * (before * (share - 1.0) * beyond * 0.5)
        - points[low + 2] * (before * share * beyond * 0.5)
        + points[low + 3] * (before * share * (share - 1.0) / 6.0)
    )

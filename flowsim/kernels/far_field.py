"""Velocity induced by vorticity far away, shared by all backends: blocks of vortices, wakes, points on the sides.

Blocks of vortices are columns of an array (7, n): position, circulation, and the complex first and second moments about
the position. The last :data:`DEPARTED` of them hold vorticity that has left the box, and travel with the stream.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.boundary import BOTTOM, RIGHT, SIDES, TOP, is_low, normal_to_x, outwards
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import OUTFLOW
from flowsim.kernels.device_function import device_function

Array = Any

BLOCK_SPACINGS = 2
"""Size of a block of vortices in spacings of the points on the sides; it has one corner more (:func:`block_size`)."""
DEPARTED = 16
"""Number of blocks of vortices that have left the box."""
PLACE_X, PLACE_Y, CIRCULATION, FIRST_X, FIRST_Y, SECOND_X, SECOND_Y = range(7)
BLOCK_COLUMNS = 7
NOWHERE = 1e6
"""Position of an unused block of departed vortices, which has no circulation."""


@device_function
def followed(before: float, now: float, part: float) -> float:
    """Return the velocity on a far-field side that makes up a part of its lag behind the one ``now`` induced."""
    return now if part == 1.0 else before + part * (now - before)


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
    """Return 2 pi times the velocity that a block of vortices induces at z = (zx, zy) from its centre.

    u - iv = (g / z + d / z^2 + q / z^3) / (2 pi i); g is the circulation, and the complex d and q are the sums of gamma
    (z - z_m) and gamma (z - z_m)^2 about the centre.
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
def middle_of_side(side: int, nx: int, ny: int, h: float) -> tuple[float, float]:
    """Return the position of the middle of a side, where wakes leave the box."""
    if normal_to_x(side):
        return (0 if is_low(side) else nx) * h, 0.5 * ny * h
    return 0.5 * nx * h, (0 if is_low(side) else ny) * h


@device_function
def outflows(sides: Array) -> int:
    """Return the number of ``outflow`` sides, among which what leaves is divided."""
    count = 0
    for side in range(SIDES):
        if sides[side] == OUTFLOW:
            count += 1
    return count


# many arguments: numbers, which stay in registers
@device_function
def induced_at_outflow(
    x: float,
    y: float,
    side: int,
    nx: int,
    ny: int,
    h: float,
    lack: float,
    kept: float,
    excess: float,
) -> tuple[float, float]:
    """Return the velocity induced at (x, y) by what is just leaving the box through the middle of a side.

    This is a source for the flux deficit ``lack`` with which the wake leaves, and a vortex that balances the total
    circulation ``excess`` in the box and beyond (Kelvin), before it joins the departed vortices. Beyond the side the
    stream fills the wake until its flux deficit is ``kept``, as its momentum requires: there is a sink for the
    difference, as far behind the side as the side is long.
    """
    mx, my = middle_of_side(side, nx, ny, h)
    beyond = outwards(side) * (ny if normal_to_x(side) else nx) * h
    zx, zy = x - mx, y - my
    fx, fy = (zx - beyond, zy) if normal_to_x(side) else (zx, zy - beyond)
    near = 0.5 / (math.pi * max(zx * zx + zy * zy, h * h))
    sink = (kept - lack) * 0.5 / (math.pi * max(fx * fx + fy * fy, h * h))
    return near * (lack * zx + excess * zy) + sink * fx, near * (
        lack * zy - excess * zx
    ) + sink * fy


# many arguments: the arrays of one simulation and the grid, which each backend stores in its own way
@device_function
def carry_departed(
    blocks: Array,
    first: int,
    sides: Array,
    stream: Array,
    dt: float,
    excess: float,
    length: float,
    nx: int,
    ny: int,
    h: float,
) -> None:
    """Let the circulation that balances the ``excess`` leave the box, and move all that has left with the stream.

    It joins the newest of the departed blocks; these begin at ``first``, with the newest one. A block takes what leaves
    while the stream travels the ``length``; then a new one begins.
    """
    count = outflows(sides)
    if count == 0:
        return
    x, y = 0.0, 0.0
    for side in range(SIDES):
        if sides[side] == OUTFLOW:
            mx, my = middle_of_side(side, nx, ny, h)
            x, y = x + mx / count, y + my / count
            add_vortex(blocks, first, -excess / count, mx, my)
    ux, uy = stream[0], stream[1]
    for n in range(first, first + DEPARTED):
        blocks[PLACE_X, n] += ux * dt
        blocks[PLACE_Y, n] += uy * dt
    if math.hypot(blocks[PLACE_X, first] - x, blocks[PLACE_Y, first] - y) > 0.5 * length:
        make_room(blocks, first, x, y, length)
        # so that half of it has passed the side when it is full
        back = 0.49 * length / max(math.hypot(ux, uy), 1e-9)
        blocks[PLACE_X, first], blocks[PLACE_Y, first] = x - ux * back, y - uy * back


@device_function
def add_vortex(blocks: Array, n: int, g: float, x: float, y: float) -> None:
    """Add a vortex of circulation g at (x, y) to block n."""
    dx, dy = x - blocks[PLACE_X, n], y - blocks[PLACE_Y, n]
    blocks[CIRCULATION, n] += g
    blocks[FIRST_X, n] += g * dx
    blocks[FIRST_Y, n] += g * dy
    blocks[SECOND_X, n] += g * (dx * dx - dy * dy)
    blocks[SECOND_Y, n] += g * 2.0 * dx * dy


@device_function
def make_room(blocks: Array, first: int, x: float, y: float, length: float) -> None:
    """Merge the two neighbouring departed blocks that look closest from (x, y), and begin an empty one."""
    merged, least = first, math.inf
    for n in range(first, first + DEPARTED - 1):
        gap = math.hypot(
            blocks[PLACE_X, n + 1] - blocks[PLACE_X, n], blocks[PLACE_Y, n + 1] - blocks[PLACE_Y, n]
        )
        away = math.hypot(blocks[PLACE_X, n + 1] - x, blocks[PLACE_Y, n + 1] - y) + length
        if gap < least * away:
            merged, least = n, gap / away
    px = 0.5 * (blocks[PLACE_X, merged] + blocks[PLACE_X, merged + 1])
    py = 0.5 * (blocks[PLACE_Y, merged] + blocks[PLACE_Y, merged + 1])
    move_moments(blocks, merged, px, py)
    move_moments(blocks, merged + 1, px, py)
    for column in range(CIRCULATION, BLOCK_COLUMNS):
        blocks[column, merged + 1] += blocks[column, merged]
    for n in range(merged, first, -1):
        for column in range(BLOCK_COLUMNS):
            blocks[column, n] = blocks[column, n - 1]
    for column in range(BLOCK_COLUMNS):
        blocks[column, first] = 0.0


@device_function
def move_moments(blocks: Array, n: int, x: float, y: float) -> None:
    """Move the point about which the moments of block n are taken to (x, y)."""
    dx, dy = blocks[PLACE_X, n] - x, blocks[PLACE_Y, n] - y
    g, fx, fy = blocks[CIRCULATION, n], blocks[FIRST_X, n], blocks[FIRST_Y, n]
    blocks[PLACE_X, n], blocks[PLACE_Y, n] = x, y
    blocks[FIRST_X, n] += g * dx
    blocks[FIRST_Y, n] += g * dy
    blocks[SECOND_X, n] += 2.0 * (fx * dx - fy * dy) + g * (dx * dx - dy * dy)
    blocks[SECOND_Y, n] += 2.0 * (fx * dy + fy * dx) + g * 2.0 * dx * dy


def forget_departed(blocks: Array, excess: Array, which: Any = slice(None)) -> None:
    """Clear the vorticity that has left the box in some simulations; blocks (B, 7, n), excess of circulation (B,)."""
    blocks[which, :, -DEPARTED:] = 0.0
    blocks[which, PLACE_X : PLACE_Y + 1, -DEPARTED:] = NOWHERE
    excess[which] = 0.0


@device_function
def lack_at(
    u: Array, v: Array, nx: int, ny: int, h: float, side: int, m: int, stream: float
) -> tuple[float, float]:
    """Return what corner m of a side adds to the flux and the momentum / ``stream`` that a wake leaving there lacks.

    The deficit d of the outward speed in the wake follows from its vorticity, dd/dt = omega along the side; its flux is
    int d dt = -int t omega dt. Momentum is conserved behind the side, int (U - d) d dt = U int d dt far away: the
    second result is therefore the flux deficit there. ``stream`` is U, the given speed out of the box.
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
def side_point(
    side: int, point: int, spacing: int, nx: int, ny: int, h: float
) -> tuple[float, float]:
    """Return the position of a point along a side.

    Points lie ``spacing`` cells apart, symmetrically about the middle of the side. Intervals between them cover all its
    faces, ghosts included; point 1 is where the first one begins, and point 0 lies before it.
    """
    cells = ny if normal_to_x(side) else nx
    along = ((point - 1) * spacing - G - 0.5 * overhang(cells, spacing)) * h
    if normal_to_x(side):
        return (nx if side == RIGHT else 0) * h, along
    return along, (ny if side == TOP else 0) * h


@device_function
def overhang(cells: int, spacing: int) -> int:
    """Return how many more faces the intervals between the points of a side cover than it has, ghosts included."""
    return spacing - 1 - (cells + 2 * G - 1) % spacing


@device_function
def first_face(interval: int, cells: int, spacing: int) -> tuple[int, float]:
    """Return the first of the ``spacing`` faces of an interval between points, and its offset from the start, in cells.

    Half of the overhang lies at either end, so that the first faces of the first interval may not exist.
    """
    beyond = overhang(cells, spacing)
    return interval * spacing - (beyond + 1) // 2, 0.0 if beyond % 2 else 0.5


@device_function
def block_size(spacing: int) -> int:
    """Return the number of corners along a block of vortices: odd, like that along a box without its sides."""
    return BLOCK_SPACINGS * spacing + 1


@device_function
def blocks_along(cells: int, spacing: int) -> int:
    """Return how many blocks of vortices lie along a box: odd, so that one is in the middle."""
    return ((cells - 2) // block_size(spacing) + 1) | 1


@device_function
def block_range(n: int, cells: int, spacing: int) -> tuple[int, int]:
    """Return the corners [first, last) of block n along a box, with as many before the middle as after it."""
    size = block_size(spacing)
    first = cells // 2 - blocks_along(cells, spacing) * size // 2 + n * size
    return max(first, 1), min(first + size, cells)


def blocks_in(nx: int, ny: int, spacing: int) -> int:
    """Return how many blocks of vortices there are in a box of nx by ny cells."""
    return blocks_along(nx, spacing) * blocks_along(ny, spacing)


@device_function
def points_along(cells: int, spacing: int) -> int:
    """Return how many points there are along a side of ``cells`` cells (:func:`side_point`)."""
    return (cells + 2 * G - 1) // spacing + 4


@device_function
def cubic(points: Array, low: int, share: float) -> float:
    """Interpolate a fraction ``share`` of the way from point ``low + 1`` to ``low + 2``, by a cubic of four points."""
    before, beyond = share + 1.0, share - 2.0
    return float(
        points[low] * (share * (1.0 - share) * beyond / 6.0)
        + points[low + 1] * (before * (share - 1.0) * beyond * 0.5)
        - points[low + 2] * (before * share * beyond * 0.5)
        + points[low + 3] * (before * share * (share - 1.0) / 6.0)
    )

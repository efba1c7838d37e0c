"""Position of a body on the grid, and distances of points from it, shared by all backends.

As in :mod:`flowsim.kernels.cell`, these are plain functions that a backend compiles. A window is a range of faces [i0,
i1) x [j0, j1); across a periodic side it may extend beyond the box, by less than its length, and :func:`wrapped` brings
an index back. The motion of bodies is in :mod:`flowsim.kernels.rigid`.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.bodies.table import TOUCHES_BODY
from flowsim.boundary import BOTTOM, LEFT, RIGHT, SIDES, Side
from flowsim.kernels.cell import PERIODIC, mask, penalized_share, surface_share
from flowsim.kernels.device_function import device_function
from flowsim.kernels.distances import TABLE, signed_distance, tabulated_distance
from flowsim.kernels.layout import (
    ANGLE,
    AXIS_A,
    AXIS_B,
    CENTROID_X,
    CENTROID_Y,
    SHAPE,
    SIDE,
    START,
    X,
    Y,
)
from flowsim.kernels.midline import bends, bent_distance, bent_extent, out_of_reach

Array = Any
FIRST_WALL = int(Side.SLIP)
FARTHEST = 1e9
"""Distance, in cells or lengths of a periodic box, beyond which a body is ignored, as one at NaN is: integers would
overflow."""


@device_function
def wrapped(i: int, n: int) -> int:
    """Return the index of a face, wrapped into a periodic box; windows extend at most one box length beyond it."""
    if i >= n:
        return i - n
    return i + n if i < 0 else i


@device_function
def within(x: float, length: float, side: int) -> float:
    """Return a coordinate, wrapped into the box if that is periodic."""
    if side != PERIODIC or not abs(x) < FARTHEST * length:
        return x
    return x - math.floor(x / length) * length


@device_function
def image(x: float, near: float, length: float, side: int) -> float:
    """Return the image of coordinate x that is nearest to another one, in a box that may be periodic."""
    if side != PERIODIC or not abs(near - x) < FARTHEST * length:
        return x
    return x + length * math.floor((near - x) / length + 0.5)


@device_function
def face_range(x: float, reach: float, h: float, n: int, side: int) -> tuple[int, int]:
    """Return the range of faces [i0, i1) that a body can touch that extends by ``reach`` to both sides of x.

    It is empty if either is not finite, or beyond :data:`FARTHEST`.
    """
    if not abs(x) + reach < FARTHEST * h:
        return 0, 0
    i0, i1 = int(math.floor((x - reach) / h)), int(math.ceil((x + reach) / h)) + 1
    if side == PERIODIC:
        i0 = min(max(i0, -n), n)
        return i0, max(min(i1, i0 + n), i0)
    return min(max(i0, 0), n), max(min(i1, n), 0)


@device_function
def ranges_meet(a0: int, a1: int, b0: int, b1: int, n: int, side: int) -> bool:
    """Return whether non-empty ranges of faces [a0, a1) and [b0, b1) overlap, of n faces that may be periodic."""
    if side == PERIODIC:
        return (b0 - a0) % n < a1 - a0 or (a0 - b0) % n < b1 - b0
    return a0 < b1 and b0 < a1


@device_function
def windows_meet(one: Array, other: Array, nx: int, ny: int, sides: Array) -> bool:
    """Return whether two windows i0, i1, j0, j1 share faces."""
    return ranges_meet(one[0], one[1], other[0], other[1], nx, sides[LEFT]) and ranges_meet(
        one[2], one[3], other[2], other[3], ny, sides[BOTTOM]
    )


# many arguments: h, nx, ny and sides are the grid, which each backend reads from its own arrays
@device_function
def body_window(
    bodies: Any,
    n: int,
    k: int,
    x: float,
    y: float,
    angle: float,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> tuple[int, int, int, int]:
    """Return the window of faces that a body at (x, y) can touch, plus a margin."""
    c, s = math.cos(angle), math.sin(angle)
    a, b = bodies.traits[k, AXIS_A], bodies.traits[k, AXIS_B]
    reach_x = math.sqrt((a * c) ** 2 + (b * s) ** 2) + 1.5 * h
    reach_y = math.sqrt((a * s) ** 2 + (b * c) ** 2) + 1.5 * h
    if bends(bodies.midlines, bodies, k):
        x0, x1, y0, y1 = bent_extent(bodies.midlines, bodies, n, k, c, s)
        x, y = x + 0.5 * (x0 + x1), y + 0.5 * (y0 + y1)
        reach_x, reach_y = 0.5 * (x1 - x0) + 1.5 * h, 0.5 * (y1 - y0) + 1.5 * h
    i0, i1 = face_range(x, reach_x, h, nx, sides[LEFT])
    j0, j1 = face_range(y, reach_y, h, ny, sides[BOTTOM])
    return i0, i1, j0, j1


@device_function
def body_distance(
    bodies: Any, n: int, k: int, rx: float, ry: float, cos: float, sin: float
) -> float:
    """Return the signed distance from body k of simulation n of a point relative to the reference point of the body."""
    x, y = cos * rx + sin * ry, cos * ry - sin * rx
    if bends(bodies.midlines, bodies, k):
        return bent_distance(bodies.midlines, bodies, n, k, x, y)
    shape, a, b = bodies.kinds[k, SHAPE], bodies.traits[k, AXIS_A], bodies.traits[k, AXIS_B]
    if shape == TABLE:
        start, side = bodies.kinds[k, START], bodies.kinds[k, SIDE]
        return tabulated_distance(bodies.distances, start, side, a, x, y)
    return signed_distance(shape, a, b, x, y)


@device_function
def diffusion_at_surface(bodies: Any, k: int, nu: float, dt: float, h: float) -> float:
    """Return nu dt / h^2, or 0 for a body too thin for the no-slip condition to be imposed at its surface.

    A body thinner than 4 cells is held by its solid shares, which change more smoothly when it moves.
    """
    thin = min(bodies.traits[k, AXIS_A], bodies.traits[k, AXIS_B]) < 2.0 * h
    return 0.0 if thin else nu * dt / h**2


@device_function
def share_at_surface(
    distance: float,
    beside: tuple[float, float, float, float],
    along_x: bool,
    h: float,
    grip: tuple[float, float],
    diffusion: float,
) -> float:
    """Return the penalised share w of a face of u (``along_x``) or v less than a cell outside a body.

    With this share the wall is at the surface. ``distance`` is that of the face, and ``beside`` are those of the faces
    to the west, east, south and north of it. Elsewhere, and without ``diffusion``, the share is that of the solid part
    of the cell.
    """
    west, east, south, north = beside
    depth = -(min(west, 0.0) + min(east, 0.0) + min(south, 0.0) + min(north, 0.0))
    x2, y2 = (east - west) ** 2, (north - south) ** 2
    facing = (x2 if along_x else y2) / max(x2 + y2, 1e-30)
    return max(
        surface_share(distance, depth, diffusion, grip[1]),
        penalized_share(facing * mask(distance, h), grip),
    )


@device_function
def locate_body(
    n: int,
    k: int,
    bodies: Any,
    body: Array,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> tuple[float, float, float, float, tuple[int, int, int, int]]:
    """Return reference point (x, y) and centre of mass of body k of simulation n, in the box, and its window.

    ``body`` is its state.
    """
    theta = body[ANGLE]
    cos, sin = math.cos(theta), math.sin(theta)
    x, y = within(body[X], nx * h, sides[LEFT]), within(body[Y], ny * h, sides[BOTTOM])
    cx, cy = bodies.traits[k, CENTROID_X], bodies.traits[k, CENTROID_Y]
    xc, yc = x + cos * cx - sin * cy, y + sin * cx + cos * cy
    return x, y, xc, yc, body_window(bodies, n, k, x, y, theta, h, nx, ny, sides)


@device_function
def reach_towards(bodies: Any, n: int, k: int, direction: float, angle: float) -> float:
    """Return how far body k of simulation n extends from its reference point in a direction of the box."""
    if bends(bodies.midlines, bodies, k):
        turn = angle - direction
        return bent_extent(bodies.midlines, bodies, n, k, math.cos(turn), math.sin(turn))[1]
    support = bodies.support[k]
    count = len(support)
    place = (direction - angle) / (2.0 * math.pi)
    if not math.isfinite(place):
        return math.nan
    place = (place - math.floor(place)) * count
    m = int(place)
    weight = place - m
    return (1.0 - weight) * support[m % count] + weight * support[(m + 1) % count]


# many arguments: h, nx, ny and sides are the grid, which each backend reads from its own arrays
@device_function
def touches_box(
    bodies: Any,
    n: int,
    k: int,
    x: float,
    y: float,
    angle: float,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> bool:
    """Return whether a body is within a cell of a wall, or crosses any other side that is not periodic."""
    for side in range(SIDES):
        if sides[side] == PERIODIC:
            continue
        if side == LEFT:
            direction, gap = math.pi, x
        elif side == RIGHT:
            direction, gap = 0.0, nx * h - x
        elif side == BOTTOM:
            direction, gap = -0.5 * math.pi, y
        else:
            direction, gap = 0.5 * math.pi, ny * h - y
        if gap - reach_towards(bodies, n, k, direction, angle) < (
            h if sides[side] >= FIRST_WALL else 0.0
        ):
            return True
    return False


@device_function
def sensor_point(body: Array, sensor: Array) -> tuple[float, float]:
    """Return the position in the box of a sensor that is given by its coordinates in the frame of its body."""
    c, s = math.cos(body[ANGLE]), math.sin(body[ANGLE])
    return body[X] + c * sensor[0] - s * sensor[1], body[Y] + s * sensor[0] + c * sensor[1]


# many arguments: h, nx, ny and sides are the grid, which each backend reads from its own arrays
@device_function
def near_others(
    rank: int,
    bodies: Any,
    x: float,
    y: float,
    states: Array,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
) -> bool:
    """Return whether the body of a rank, at (x, y), may touch one that comes before it.

    ``states`` are those of all bodies of the simulation.
    """
    k = bodies.order[rank]
    reach = max(bodies.traits[k, AXIS_A], bodies.traits[k, AXIS_B]) + 3.0 * h
    for earlier in range(rank):
        other = bodies.order[earlier]
        ox = image(states[other, X], x, nx * h, sides[LEFT])
        oy = image(states[other, Y], y, ny * h, sides[BOTTOM])
        others_reach = max(bodies.traits[other, AXIS_A], bodies.traits[other, AXIS_B])
        if math.hypot(ox - x, oy - y) < reach + others_reach:
            return True
    return False


# many arguments: h, nx, ny and sides are the grid, which each backend reads from its own arrays
@device_function
def claimed_by_others(
    n: int,
    rank: int,
    bodies: Any,
    px: float,
    py: float,
    own: float,
    states: Array,
    h: float,
    nx: int,
    ny: int,
    sides: Array,
    contact: Array,
) -> float:
    """Return the share of the cell at (px, py) that less movable bodies claim, and note what the body touches.

    ``own`` is the distance of the point from the body of this rank itself, ``states`` are those of all bodies of the
    simulation.
    """
    k = bodies.order[rank]
    claimed = 0.0
    for earlier in range(rank):
        other = bodies.order[earlier]
        ox = image(states[other, X], px, nx * h, sides[LEFT])
        oy = image(states[other, Y], py, ny * h, sides[BOTTOM])
        theta = states[other, ANGLE]
        if not math.isfinite(ox + oy + theta):
            continue  # its position is not finite
        if out_of_reach(bodies.midlines, bodies, n, other, px - ox, py - oy, theta, h):
            continue
        distance = body_distance(
            bodies, n, other, px - ox, py - oy, math.cos(theta), math.sin(theta)
        )
        # the two distances of a point add up to at least the gap between the bodies, and to exactly the gap in between
        if own + distance < h:
            contact[k] |= TOUCHES_BODY
            contact[other] |= TOUCHES_BODY
        claimed += mask(distance, h)
    return claimed

"""The normal velocity on the sides of the box and its mass balance, shared by all backends.

Arrays of faces are flat here. A backend with many threads gives each of them the faces ``first``, ``first + stride``,
and so on; one with one thread per simulation gives it all faces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowsim.boundary import BOTTOM, LEFT, SIDES, normal_to_x, outwards
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import FAR_FIELD, OPEN, OUTFLOW, PERIODIC, convected
from flowsim.kernels.device_function import device_function

Array = Any


@device_function
def faces_of(side: int, nx: int, ny: int, b: int) -> tuple[int, int, int, int]:
    """Return start and step of the line of normal faces on a side, the step inwards, and their number; flat indices."""
    wide, high = nx + 2 * G, ny + 2 * G
    start = b * wide * high
    if normal_to_x(side):
        row = G if side == LEFT else G + nx
        return start + row * high + G, 1, high if side == LEFT else -high, ny
    column = G if side == BOTTOM else G + ny
    return start + G * high + column, high, 1 if side == BOTTOM else -1, nx


@device_function
def next_on_side(
    kind: int, sign: Any, old: Array, edge: int, inwards: int, given: Any, courant: Any
) -> Any:
    """Return the normal velocity on a face of a side after a step, before the balance; the pressure sets open sides."""
    if kind == OUTFLOW:
        return convected(sign, old[edge], old[edge + inwards], courant)
    return given if kind == FAR_FIELD else old[edge]


@device_function
def balanced_sides(nx: int, ny: int, sides: Array) -> tuple[int, int]:
    """Return the kind of the sides that take up the imbalance, and how many faces they have: none if a side is open."""
    outflow, far_field = 0, 0
    for side in range(SIDES):
        cells = ny if normal_to_x(side) else nx
        if sides[side] == OPEN:
            return OUTFLOW, 0
        if sides[side] == OUTFLOW:
            outflow += cells
        elif sides[side] == FAR_FIELD:
            far_field += cells
    return (OUTFLOW, outflow) if outflow > 0 else (FAR_FIELD, far_field)


# many arguments: h, nx, ny and sides are the grid, which each backend reads from its own arrays
@device_function
def set_sides(
    b: int,
    velocity: tuple[Array, Array],
    new_velocity: tuple[Array, Array],
    nx: int,
    ny: int,
    sides: Array,
    given: Array,
    dt: float,
    h: float,
    first: int,
    stride: int,
) -> float:
    """Set the normal velocity on all sides except ``open`` ones, which the pressure sets; return the flux out of them.

    It is convective on ``outflow`` sides.
    """
    real = velocity[0].dtype.type
    net = 0.0
    for side in range(SIDES):
        kind = sides[side]
        if kind == PERIODIC or kind == OPEN:
            continue
        sign, component = outwards(side), 0 if normal_to_x(side) else 1
        old = velocity[0] if normal_to_x(side) else velocity[1]
        new = new_velocity[0] if normal_to_x(side) else new_velocity[1]
        start, step, inwards, cells = faces_of(side, nx, ny, b)
        courant = real(max(sign * given[b, side, component, 0], 0.0) * dt / h)
        total = 0.0
        for m in range(first, cells, stride):
            edge = start + m * step
            outside = given[b, side, component, m + G]
            new[edge] = next_on_side(kind, real(sign), old, edge, inwards, outside, courant)
            total += np.float64(new[edge])
        net += sign * total
    return net


@device_function
def balance_sides(
    b: int,
    new_velocity: tuple[Array, Array],
    nx: int,
    ny: int,
    sides: Array,
    net: float,
    first: int,
    stride: int,
) -> None:
    """Spread the imbalance ``net`` of the flux over ``outflow`` sides, or over ``far_field`` ones if there are none.

    The induced velocity has no net flux except for rounding errors. If a side is open, its pressure lets the flux out.
    """
    real = new_velocity[0].dtype.type
    kind, faces = balanced_sides(nx, ny, sides)
    if faces == 0:
        return
    correction = net / faces
    for side in range(SIDES):
        if sides[side] == kind:
            new = new_velocity[0] if normal_to_x(side) else new_velocity[1]
            start, step, _, cells = faces_of(side, nx, ny, b)
            for m in range(first, cells, stride):
                new[start + m * step] -= real(outwards(side) * correction)

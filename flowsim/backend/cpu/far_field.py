"""Velocity that the vorticity in the box induces on its sides: the far field of an unbounded flow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flowsim.backend.cpu.compiling import Task, inner, row_loop, sweep
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
    points_along,
    side_point,
    turn,
)
from flowsim.kernels.layout import CATCH_UP, DT
from flowsim.kernels.records import Box, Clock, Fields

Array = Any


class FarField(NamedTuple):
    """Work arrays of the far field.

    Attributes
    ----------
    vortices
        Blocks of vortices, shape (B, 7, blocks): centre, circulation, and the first and second moments. The last
        :data:`~flowsim.kernels.far_field.DEPARTED` have left the box.
    excess
        Total circulation of all blocks, shape (B,): what leaves the box in the next step balances it.
    sums
        Sums over the corners of a block along x, shape (B, 3, ny), in the precision of the velocity.
    lacks
        Flux deficits of the wakes that leave through the sides, there and far behind them, shape (B, 4, 2).
    points
        Velocity normal to a side at the points along it, shape (B, points).
    """

    vortices: Array
    excess: Array
    sums: Array
    lacks: Array
    points: Array


@row_loop
def _add_rows(sums: Array, u: Array, v: Array, first: int, last: int, h: float, xm: float) -> None:
    """Write the sums of gamma, gamma x and gamma x^2 along x, per cell size, over the corners of a few rows."""
    real = u.dtype.type
    gammas, firsts, seconds = sums[0], sums[1], sums[2]
    sums[:] = real(0.0)
    for i in range(first, last):
        along, west, east = u[i + G], v[i + G - 1], v[i + G]
        x = real(i * h - xm)
        for j in range(
            len(gammas)
        ):  # the first is not a corner and never read, but whole vectors are faster
            gamma = turn(west[j + G], east[j + G], along[j + G - 1], along[j + G])
            gammas[j] += gamma
            firsts[j] += gamma * x
            seconds[j] += gamma * (x * x)


@inner
def _gather(
    u: Array, v: Array, nx: int, ny: int, h: float, spacing: int, vortices: Array, sums: Array
) -> None:
    """Write the multipoles of blocks of vorticity about their centres."""
    count = 0
    for row in range(blocks_along(nx, spacing)):
        first, last = block_range(row, nx, spacing)
        xm = 0.5 * (first + last - 1) * h
        _add_rows(sums, u, v, first, last, h, xm)
        for column in range(blocks_along(ny, spacing)):
            low, high = block_range(column, ny, spacing)
            ym = 0.5 * (low + high - 1) * h
            g, dx, dy, qx, qy = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(low, high):
                y = j * h - ym
                gamma, first_x, second_x = h * sums[0, j], h * sums[1, j], h * sums[2, j]
                g += gamma
                dx += first_x
                dy += gamma * y
                qx += second_x - gamma * (y * y)
                qy += 2.0 * first_x * y
            vortices[0, count], vortices[1, count], vortices[2, count] = xm, ym, g
            vortices[3, count], vortices[4, count], vortices[5, count], vortices[6, count] = (
                dx,
                dy,
                qx,
                qy,
            )
            count += 1


@row_loop
def _induced(x: float, y: float, vortices: Array) -> tuple[float, float]:
    """Return the velocity times 2 pi that all vortices in the box induce at a point."""
    xm, ym, g = vortices[0], vortices[1], vortices[2]
    dx, dy, qx, qy = vortices[3], vortices[4], vortices[5], vortices[6]
    du, dv = 0.0, 0.0
    for n in range(len(g)):
        au, av = induced_by(x - xm[n], y - ym[n], g[n], dx[n], dy[n], qx[n], qy[n])
        du += au
        dv += av
    return du, dv


@inner
def _lack(
    u: Array, v: Array, nx: int, ny: int, h: float, side: int, stream: Array
) -> tuple[float, float]:
    """Return the flux deficit of the wake that leaves through a side: there, and far behind it."""
    lack, kept = 0.0, 0.0
    for m in range(1, ny if normal_to_x(side) else nx):
        flux, momentum = lack_at(u, v, nx, ny, h, side, m, outward(stream, side))
        lack += flux
        kept += momentum
    return lack, kept


@inner
def _induce(
    u: Array,
    side: int,
    box: Box,
    spacing: int,
    vortices: Array,
    lacks: Array,
    excess: float,
    points: Array,
) -> None:
    """Write the velocity normal to a side at the points along it, ``spacing`` cells apart."""
    h, sides = box.h, box.sides
    nx, ny = u.shape[0] - 2 * G, u.shape[1] - 2 * G
    is_x = normal_to_x(side)
    for point in range(points_along(ny if is_x else nx, spacing)):
        x, y = side_point(side, point, spacing, nx, ny, h)
        du, dv = _induced(x, y, vortices)
        normal = (du if is_x else dv) * (0.5 / math.pi)
        for other in range(SIDES):
            if sides[other] == OUTFLOW:
                du, dv = induced_at_outflow(
                    x, y, other, nx, ny, h, lacks[other, 0], lacks[other, 1], excess
                )
                normal += du if is_x else dv
        points[point] = normal


@sweep
def far_field(
    task: Task, fields: Fields, clock: Clock, box: Box, moves: bool, spacing: int, room: FarField
) -> None:
    """Set the normal velocity of the unbounded flow on the ``far_field`` sides: the stream plus the induced velocity.

    It is induced, by Biot and Savart's law, by the vorticity in the box and by what has left through ``outflow`` sides,
    in blocks as multipoles up to the second order, and computed at points ``spacing`` cells apart, with a cubic between
    them. Vorticity that has left travels with the stream, unless the flow settles (not ``moves``).
    """
    u, v, sides, given = fields.u, fields.v, box.sides, box.given
    h, stream = box.h, box.stream
    real = u.dtype.type
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    b = task.b
    vortices, lacks, points = room.vortices[b], room.lacks[b], room.points[b]
    first, dt = vortices.shape[1] - DEPARTED, clock.columns[b, DT] if moves else 0.0
    length, part = block_size(spacing) * h, clock.columns[b, CATCH_UP] if moves else 1.0
    carry_departed(vortices, first, sides, stream, dt, room.excess[b], length, nx, ny, h)
    _gather(u[b], v[b], nx, ny, h, spacing, vortices, room.sums[b])
    excess = 0.0
    for n in range(vortices.shape[1]):
        excess += vortices[2, n]
    room.excess[b] = excess
    for side in range(SIDES):
        if sides[side] == OUTFLOW:
            lacks[side, 0], lacks[side, 1] = _lack(u[b], v[b], nx, ny, h, side, stream)
    for side in range(SIDES):
        if sides[side] != FAR_FIELD:
            continue
        excess_each = excess / max(outflows(sides), 1)
        _induce(u[b], side, box, spacing, vortices, lacks, excess_each, points)
        component = 0 if normal_to_x(side) else 1
        cells = ny if component == 0 else nx
        for low in range(points_along(cells, spacing) - 3):
            start, into = first_face(low, cells, spacing)
            for m in range(max(start, 0), min(start + spacing, cells + 2 * G)):
                induced = cubic(points, low, (m - start + into) / spacing)
                before, now = float(given[b, side, component, m]), stream[component] + induced
                given[b, side, component, m] = real(followed(before, now, part))

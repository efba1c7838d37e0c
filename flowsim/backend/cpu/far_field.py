"""What the vorticity in the box induces on its sides: the far field of an unbounded flow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import prange

from flowsim.backend.cpu.compiling import inner, row_loop, sweep
from flowsim.boundary import SIDES, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.stencils import FAR_FIELD, OUTFLOW
from flowsim.vortices import induced_by, induced_by_departed, lack_at, outward, side_point, turn

Array = Any


class FarField(NamedTuple):
    """Room for blocks of vortices (B, 7, blocks), sums along x in them (B, 3, ny), and lacks of wakes (B, 4, 2)."""

    vortices: Array
    sums: Array
    lacks: Array


@row_loop
def _add_row(sums: Array, u: Array, west: Array, east: Array, h: float, x: float) -> None:
    """Add gamma, gamma x and gamma x^2 of the corners of a row: u of the row, v before and behind it."""
    gammas, firsts, seconds = sums[0], sums[1], sums[2]
    for j in range(1, len(gammas)):
        gamma = float(turn(west[j + G], east[j + G], u[j + G - 1], u[j + G])) * h
        gammas[j] += gamma
        firsts[j] += gamma * x
        seconds[j] += gamma * (x * x)


@inner
def _gather(
    u: Array, v: Array, nx: int, ny: int, h: float, block: int, vortices: Array, sums: Array
) -> float:
    """Write the multipoles of blocks of vorticity about their middles; return their circulation."""
    count, total = 0, 0.0
    for first in range(1, nx, block):
        last = min(first + block, nx)
        xm = 0.5 * (first + last - 1) * h
        sums[:] = 0.0
        for i in range(first, last):
            _add_row(sums, u[i + G], v[i + G - 1], v[i + G], h, i * h - xm)
        for low in range(1, ny, block):
            high = min(low + block, ny)
            ym = 0.5 * (low + high - 1) * h
            g, dx, dy, qx, qy = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(low, high):
                y = j * h - ym
                g += sums[0, j]
                dx += sums[1, j]
                dy += sums[0, j] * y
                qx += sums[2, j] - sums[0, j] * (y * y)
                qy += 2.0 * sums[1, j] * y
            vortices[0, count], vortices[1, count], vortices[2, count] = xm, ym, g
            vortices[3, count], vortices[4, count], vortices[5, count], vortices[6, count] = (
                dx,
                dy,
                qx,
                qy,
            )
            count += 1
            total += g
    return total


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
    """Return what the wake lacks that leaves through a side: flux there, and far behind it."""
    lack, kept = 0.0, 0.0
    for m in range(1, ny if normal_to_x(side) else nx):
        flux, momentum = lack_at(u, v, nx, ny, h, side, m, outward(stream, side))
        lack += flux
        kept += momentum
    return lack, kept


@sweep
def far_field(
    active: Array,
    u: Array,
    v: Array,
    given: Array,
    sides: Array,
    stream: Array,
    h: float,
    block: int,
    room: FarField,
) -> None:
    """Give the ``far_field`` sides the normal velocity of the unbounded flow: the stream, and what vorticity induces.

    Biot and Savart's law for the vorticity in the box, in blocks of ``block`` cells a side as multipoles up to the
    second order, plus what has left through ``outflow`` sides.
    """
    real = u.dtype.type
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        b = active[task]
        vortices, lacks = room.vortices[b], room.lacks[b]
        total = _gather(u[b], v[b], nx, ny, h, block, vortices, room.sums[b])
        for side in range(SIDES):
            if sides[side] == OUTFLOW:
                lacks[side, 0], lacks[side, 1] = _lack(u[b], v[b], nx, ny, h, side, stream)
        for side in range(SIDES):
            if sides[side] != FAR_FIELD:
                continue
            component = 0 if normal_to_x(side) else 1
            cells = ny if normal_to_x(side) else nx
            last = 0.0
            for point in range(-G, cells + G + block, block):
                x, y = side_point(side, point, nx, ny, h)
                du, dv = _induced(x, y, vortices)
                here = (du if component == 0 else dv) * (0.5 / math.pi)
                for other in range(SIDES):
                    if sides[other] == OUTFLOW:
                        du, dv = induced_by_departed(
                            x, y, other, nx, ny, h, lacks[other, 0], lacks[other, 1], total
                        )
                        here += du if component == 0 else dv
                if point > -G:
                    # normal faces lie half a cell beyond the corners that the points are
                    for m in range(point - block, min(point, given.shape[3] - G)):
                        share = (m - point + block + 0.5) / block
                        given[b, side, component, m + G] = real(
                            stream[component] + last + share * (here - last)
                        )
                last = here

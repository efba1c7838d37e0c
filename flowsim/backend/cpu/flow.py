"""Sweeps over the whole grid: advection and diffusion, divergence, correction."""

from __future__ import annotations

import math
from typing import Any

from flowsim.backend.cpu.compiling import Task, divided, row_loop, rows_of, sweep
from flowsim.backend.cpu.room import Room
from flowsim.boundary import BOTTOM, LEFT, RIGHT, TOP
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import (
    HALF,
    OPEN,
    PERIODIC,
    adams_bashforth,
    cell_speed,
    flux,
    net_outflow,
    velocity_at,
)
from flowsim.kernels.layout import CATCH_UP, DT, RATIO, VISCOSITY
from flowsim.kernels.records import Box, Clock, Fields
from flowsim.kernels.time import note_speed

Array = Any


# many arguments: LLVM does not see that the rows of one array do not overlap, and would not vectorize the loop
@row_loop
def flux_between_rows(
    out: Array, c0: Array, c1: Array, f: Array, i: int, j0: int, n: int, per_12: Any, nu_per_h: Any
) -> None:
    """Write the flux of f along x between its rows i - 1 and i; the speed is the mean of c0 and c1."""
    mm, m, p, pp = f[i - 2], f[i - 1], f[i], f[i + 1]
    for j in range(n):
        k = j + j0
        out[j] = flux(HALF * (c0[j] + c1[j]), mm[k], m[k], p[k], pp[k], per_12, nu_per_h)


@row_loop
def flux_along_row(
    out: Array, c0: Array, c1: Array, f: Array, j0: int, n: int, per_12: Any, nu_per_h: Any
) -> None:
    """Write the flux of f along y between its entries k - 1 and k, k = j0, ...; the speed is the mean of c0 and c1."""
    for j in range(n):
        k = j + j0
        out[j] = flux(HALF * (c0[j] + c1[j]), f[k - 2], f[k - 1], f[k], f[k + 1], per_12, nu_per_h)


# many arguments: LLVM does not see that the rows of one array do not overlap, and would not vectorize the loop
@row_loop
def _advance_row(
    new: Array,
    f: Array,
    old: Array,
    west: Array,
    east: Array,
    across: Array,
    p0: Array,
    p1: Array,
    j0: int,
    n: int,
    dt: Any,
    ratio: Any,
    dth: Any,
    per_h: Any,
) -> None:
    """Advance one row by its rate and the last pressure, and keep the rate for the next step."""
    for j in range(n):
        rate = per_h * ((west[j] - east[j]) + (across[j] - across[j + 1]))
        new[j + j0] = adams_bashforth(f[j + j0], rate, old[j + j0], dt, ratio) - dth * (
            p1[j] - p0[j]
        )
        old[j + j0] = rate


@divided
def predict(task: Task, fields: Fields, clock: Clock, box: Box, room: Room) -> None:
    """Write the velocity after advection, diffusion and the last pressure gradient to new_u, new_v.

    The rates of this step replace those of the previous one.
    """
    u, v, p, h, sides = fields.u, fields.v, fields.pressure, box.h, box.sides
    new_u, new_v, old_u, old_v = fields.new_u, fields.new_v, fields.rate_u, fields.rate_v
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    per_12, per_h = real(1.0 / 12.0), real(1.0 / h)
    i_first = 0 if sides[LEFT] == PERIODIC else 1
    periodic_y = sides[BOTTOM] == PERIODIC
    b = task.b
    now = clock.columns[b]
    dt, nu = now[DT], now[VISCOSITY]
    step, r, nu_per_h, dth = real(dt), real(now[RATIO]), real(nu / h), real(dt / h)
    ub, vb, pb = u[b], v[b], p[b]
    fluxes = room.rows[task.worker]
    across = fluxes[4]
    start, stop = rows_of(task, 0, nx)
    k = start + G
    # fluxes of u pass through cell centres, those of v through corners; both are used by the rows on either side
    flux_between_rows(fluxes[0], ub[k - 1, G:], ub[k, G:], ub, k, G, ny, per_12, nu_per_h)
    flux_between_rows(fluxes[2], ub[k, G - 1 :], ub[k, G:], vb, k, G, ny + 1, per_12, nu_per_h)
    for i in range(start, stop):
        k = i + G
        odd = (i - start) % 2
        west, east = fluxes[odd], fluxes[1 - odd]
        flux_between_rows(east, ub[k, G:], ub[k + 1, G:], ub, k + 1, G, ny, per_12, nu_per_h)
        if i >= i_first:
            flux_along_row(across, vb[k - 1, G:], vb[k, G:], ub[k], G, ny + 1, per_12, nu_per_h)
            p0 = pb[i - 1] if i > 0 else pb[nx - 1]
            _advance_row(
                new_u[b, k],
                ub[k],
                old_u[b, k],
                west,
                east,
                across,
                p0,
                pb[i],
                G,
                ny,
                step,
                r,
                dth,
                per_h,
            )
        west, east = fluxes[2 + odd], fluxes[3 - odd]
        flux_between_rows(
            east, ub[k + 1, G - 1 :], ub[k + 1, G:], vb, k + 1, G, ny + 1, per_12, nu_per_h
        )
        flux_along_row(across, vb[k, G - 1 :], vb[k, G:], vb[k], G, ny + 1, per_12, nu_per_h)
        if periodic_y:
            _advance_row(
                new_v[b, k], vb[k], old_v[b, k], west, east, across, pb[i, ny - 1 :], pb[i], G, 1, step, r, dth,
                per_h,
            )  # fmt: skip
        _advance_row(
            new_v[b, k], vb[k], old_v[b, k], west[1:], east[1:], across[1:], pb[i], pb[i, 1:], G + 1, ny - 1,
            step, r, dth, per_h,
        )  # fmt: skip


@divided
def divergence(task: Task, u: Array, v: Array, d: Array, sides: Array) -> None:
    """Write h div u at the cell centres."""
    nx, ny = d.shape[1], d.shape[2]
    b = task.b
    start, stop = rows_of(task, 0, nx)
    for i in range(start, stop):
        out, west, across = d[b, i], u[b, i + G], v[b, i + G]
        # on a periodic side the last face is the first one
        east = u[b, G] if sides[LEFT] == PERIODIC and i == nx - 1 else u[b, i + G + 1]
        for j in range(ny):
            out[j] = net_outflow(west[j + G], east[j + G], across[j + G], across[j + G + 1])
        if sides[BOTTOM] == PERIODIC:
            j = ny - 1
            out[j] = net_outflow(west[j + G], east[j + G], across[j + G], across[G])


@row_loop
def fastest_cell(west: Array, east: Array, across: Array, last: Any, n: int) -> tuple[Any, Any]:
    """Return the largest speed of the cells of a row and the sum of all, from u on both sides and v along the row.

    ``last`` is v at the end of the row, which in a periodic box is that at its beginning.
    """
    real = west.dtype.type
    fastest = cell_speed(west[n - 1 + G], east[n - 1 + G], across[n - 1 + G], last)
    total = fastest
    for j in range(n - 1):
        k = j + G
        s = cell_speed(west[k], east[k], across[k], across[k + 1])
        fastest = max(fastest, s)
        total += s
    return real(fastest), real(total)


@divided
def correct(
    task: Task, fields: Fields, clock: Clock, box: Box, keep_pressure: bool, speeds: Array
) -> None:
    """Write the projected velocity to u, v, add phi to the pressure, and compute the largest speed of each block.

    ``phi`` is dt/h times the change of p, less in a very short step (:func:`flowsim.kernels.time.catch_up`) and none
    without ``keep_pressure``. ``speeds`` (B, blocks)
    receives infinity where a velocity is not finite. The last row of a block is left to :func:`find_speed`, because the
    faces behind it may belong to another thread.
    """
    u, v, new_u, new_v = fields.u, fields.v, fields.new_u, fields.new_v
    phi, p, sides = fields.phi, fields.pressure, box.sides
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    # phi is zero on an open side, half a cell from the centres
    low_x, high_x = real(2 if sides[LEFT] == OPEN else 0), real(2 if sides[RIGHT] == OPEN else 0)
    low_y, high_y = real(2 if sides[BOTTOM] == OPEN else 0), real(2 if sides[TOP] == OPEN else 0)
    b = task.b
    now = clock.columns[b]
    scale = real(box.h * now[CATCH_UP] / now[DT]) if keep_pressure else real(0)
    start, stop = rows_of(task, 0, nx)
    fastest, total = real(0), real(0)
    for i in range(start, stop):
        k = i + G
        here, uk, vk, nuk, nvk, pk = (
            phi[b, i],
            u[b, k],
            v[b, k],
            new_u[b, k],
            new_v[b, k],
            p[b, i],
        )
        if i > 0 or sides[LEFT] == PERIODIC:
            west = phi[b, i - 1] if i > 0 else phi[b, nx - 1]
            for j in range(ny):
                uk[j + G] = nuk[j + G] - (here[j] - west[j])
        else:
            for j in range(ny):
                uk[j + G] = nuk[j + G] - low_x * here[j]
        vk[G] = (
            nvk[G] - (here[0] - here[ny - 1])
            if sides[BOTTOM] == PERIODIC
            else nvk[G] - low_y * here[0]
        )
        for j in range(1, ny):
            vk[j + G] = nvk[j + G] - (here[j] - here[j - 1])
        if sides[BOTTOM] != PERIODIC:
            vk[ny + G] = nvk[ny + G] + high_y * here[ny - 1]
        for j in range(ny):
            pk[j] += scale * here[j]
        if i > start:
            last = v[b, k - 1, G if sides[BOTTOM] == PERIODIC else ny + G]
            row_max, row_sum = fastest_cell(u[b, k - 1], uk, v[b, k - 1], last, ny)
            fastest, total = max(fastest, row_max), total + row_sum
    if stop == nx and sides[LEFT] != PERIODIC:
        for j in range(ny):
            u[b, nx + G, j + G] = new_u[b, nx + G, j + G] + high_x * phi[b, nx - 1, j]
    speeds[b, task.block] = fastest if math.isfinite(total) else real(math.inf)


@sweep
def find_speed(task: Task, fields: Fields, clock: Clock, box: Box, speeds: Array) -> None:
    """Find the largest speed from those of each block and the last rows of all, and note whether the flow blew up."""
    u, v, sides = fields.u, fields.v, box.sides
    b, nx, ny = task.b, u.shape[1] - 2 * G, u.shape[2] - 2 * G
    fastest, total = 0.0, 0.0
    for block in range(task.blocks):
        _, stop = rows_of(Task(b, block, task.blocks, 0), 0, nx)
        k = stop - 1 + G
        east = u[b, G if stop == nx and sides[LEFT] == PERIODIC else k + 1]
        last = v[b, k, G if sides[BOTTOM] == PERIODIC else ny + G]
        row_max, row_sum = fastest_cell(u[b, k], east, v[b, k], last, ny)
        fastest = max(fastest, float(row_max), float(speeds[b, block]))
        total += float(row_sum)
    note_speed(b, fastest if math.isfinite(total) else math.inf, clock)


@row_loop
def _copy(source: Array, target: Array) -> None:
    for j in range(len(source)):
        target[j] = source[j]


@sweep
def copy_velocity(task: Task, fields: Fields) -> None:
    """Copy u, v to new_u, new_v."""
    for i in range(fields.u.shape[1]):
        _copy(fields.u[task.b, i], fields.new_u[task.b, i])
        _copy(fields.v[task.b, i], fields.new_v[task.b, i])


@sweep
def sample(task: Task, u: Array, v: Array, points: Array, h: float, velocity: Array) -> None:
    """Write the velocity at ``points`` (B, n, 2) to ``velocity`` (B, n, 2)."""
    b = task.b
    for m in range(points.shape[1]):
        velocity[b, m, 0], velocity[b, m, 1] = velocity_at(
            u[b], v[b], points[b, m, 0], points[b, m, 1], h
        )

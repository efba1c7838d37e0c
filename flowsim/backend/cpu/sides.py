"""Sweeps over the sides of the box: ghost points, and the velocity normal to the sides."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import Task, sweep
from flowsim.boundary import BOTTOM, LEFT, RIGHT, SIDES, TOP, is_low, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import HALF, OPEN, adams_bashforth, flux, open_side_rate
from flowsim.kernels.ghosts import fill_normal, fill_tangential
from flowsim.kernels.layout import DT, RATIO, VISCOSITY
from flowsim.kernels.mass_balance import balance_sides, set_sides
from flowsim.kernels.records import Box, Clock, Fields

Array = Any


@sweep
def fill_ghosts(task: Task, fields: Fields, box: Box) -> None:
    """Fill the ghost points of u and v from the sides of the box."""
    u, v, sides, given = fields.u, fields.v, box.sides, box.given
    wide, high = u.shape[1], u.shape[2]
    nx, ny = wide - 2 * G, high - 2 * G
    flat_u, flat_v = u.reshape(-1), v.reshape(-1)
    b = task.b
    start = b * wide * high
    for j in range(high):
        fill_normal(flat_u, start + j, high, nx, sides[LEFT], sides[RIGHT])
    for i in range(wide):
        fill_normal(flat_v, start + i * high, 1, ny, sides[BOTTOM], sides[TOP])
    for direction in (LEFT, BOTTOM):
        across = direction == LEFT
        f, normal = (flat_v, flat_u) if across else (flat_u, flat_v)
        lines, to_next, step = (high, 1, high) if across else (wide, high, 1)
        n, component = (nx, 1) if across else (ny, 0)
        for m in range(lines):
            first = start + m * to_next
            fill_tangential(
                f,
                normal,
                first,
                step,
                n,
                sides,
                direction,
                given,
                b,
                component,
                m,
                to_next,
                lines,
            )


@sweep
def predict_open_sides(task: Task, fields: Fields, clock: Clock, box: Box) -> None:
    """Do what :func:`predict` does, for the normal velocity on ``open`` sides, from the half cells behind them."""
    u, v, p, h, sides, given = fields.u, fields.v, fields.pressure, box.h, box.sides, box.given
    new_u, new_v, old_u, old_v = fields.new_u, fields.new_v, fields.rate_u, fields.rate_v
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    per_12, per_h = real(1.0 / 12.0), real(1.0 / h)
    b = task.b
    now = clock.columns[b]
    dt, nu_per_h = now[DT], real(now[VISCOSITY] / h)
    step, r, two_dth = real(dt), real(now[RATIO]), real(2.0 * dt / h)
    for side in range(SIDES):
        if sides[side] != OPEN:
            continue
        across, low = normal_to_x(side), is_low(side)
        f, new, old = (u[b], new_u[b], old_u[b]) if across else (v[b].T, new_v[b].T, old_v[b].T)
        along, behind = (v[b], p[b]) if across else (u[b].T, p[b].T)
        n, cells = (nx, ny) if across else (ny, nx)
        edge, cell = (G, 0) if low else (G + n, n - 1)
        k, beside = (edge if low else edge - 1), along[cell + G]
        outwards = real(-1 if low else 1)
        line = f[edge]
        after = flux(beside[G], line[G - 2], line[G - 1], line[G], line[G + 1], per_12, nu_per_h)
        for j in range(G, G + cells):
            before = after
            after = flux(
                beside[j + 1], line[j - 1], line[j], line[j + 1], line[j + 2], per_12, nu_per_h
            )
            centre = flux(
                HALF * (f[k, j] + f[k + 1, j]),
                f[k - 1, j],
                f[k, j],
                f[k + 1, j],
                f[k + 2, j],
                per_12,
                nu_per_h,
            )
            outside = given[b, side, 0 if across else 1, j]
            rate = open_side_rate(outwards, line[j], centre, before, after, outside, per_h)
            moved = adams_bashforth(line[j], rate, old[edge, j], step, r)
            new[edge, j] = moved + outwards * two_dth * behind[cell, j - G]
            old[edge, j] = rate


@sweep
def update_sides(task: Task, fields: Fields, clock: Clock, box: Box) -> None:
    """Set the normal velocity on all sides except ``open`` ones, without a net flux if there are no open sides."""
    u, v, new_u, new_v, sides = fields.u, fields.v, fields.new_u, fields.new_v, box.sides
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    old, new = (u.reshape(-1), v.reshape(-1)), (new_u.reshape(-1), new_v.reshape(-1))
    b = task.b
    dt = clock.columns[b, DT]
    net = set_sides(b, old, new, nx, ny, sides, box.given, dt, box.h, 0, 1)
    balance_sides(b, new, nx, ny, sides, net, 0, 1)

"""Sweeps over the whole grid: ghost points, advection and diffusion, sides, divergence, correction."""

from __future__ import annotations

import math
from typing import Any

from numba import prange

from flowsim.backend.cpu.compiling import inner, row_loop, rows_of, small, sweep
from flowsim.boundary import BOTTOM, LEFT, RIGHT, SIDES, TOP, is_low, normal_to_x
from flowsim.columns import DT, RATIO, VISCOSITY
from flowsim.grid import GHOSTS as G
from flowsim.mass_balance import balance_sides, set_sides
from flowsim.stencils import (
    HALF,
    OPEN,
    PERIODIC,
    adams_bashforth,
    flux,
    ghost_across,
    ghost_along,
    net_outflow,
    open_side_rate,
    velocity_at,
)

Array = Any


@inner
def _fill_normal(f: Array, n: int, kind_low: int, kind_high: int) -> None:
    """Fill the ghost layers at both ends of the first axis of f, the velocity normal to these sides.

    The inner entries start at G; entries G and G + n lie on the sides.
    """
    first, last = G, G + n - 1
    for j in range(f.shape[1]):
        if kind_low == PERIODIC:
            f[first - 1, j] = f[last, j]
            f[first - 2, j] = f[last - 1, j]
            f[last + 1, j] = f[first, j]
            f[last + 2, j] = f[first + 1, j]
            continue
        f[first - 1, j] = ghost_across(kind_low, f[first, j], f[first + 1, j])
        f[first - 2, j] = ghost_across(kind_low, f[first, j], f[first + 2, j])
        f[last + 2, j] = ghost_across(kind_high, f[last + 1, j], f[last, j])


@inner
def _fill_beyond(
    f: Array,
    inside: int,
    outwards: int,
    kind: int,
    along: Array,
    across: Array,
    through: Array,
    ring: bool,
) -> None:
    """Fill the two ghost layers beyond one end of the first axis of f, the velocity tangential to that side.

    The side is half a cell outside entry ``inside``; ``along`` and ``across`` are the velocities given on it,
    ``through`` is the flow's normal velocity there. The side meets others at its ends, unless it is a ``ring``.
    """
    three = f.dtype.type(3)
    near, far, next_inside = inside + outwards, inside + 2 * outwards, inside - outwards
    # normal faces beyond the ends of a side belong to nothing
    low, high = (0, len(through) - 1) if ring else (G, len(through) - G - 1)
    for j in range(f.shape[1]):
        turn = outwards * (across[j] - across[max(j - 1, 0)])
        enters = (
            outwards * (through[min(max(j - 1, low), high)] + through[min(max(j, low), high)]) < 0
        )
        f[near, j] = ghost_along(kind, f[inside, j], along[j], turn, enters)
        f[far, j] = ghost_along(kind, f[next_inside, j], along[j], three * turn, enters)


@inner
def _fill_tangential(
    f: Array, n: int, kind_low: int, kind_high: int, along: tuple[Array, Array], across: tuple[Array, Array],
    normal: Array, ring: bool,
) -> None:  # fmt: skip
    """Fill the ghost layers at both ends of the first axis of f, the velocity tangential to these sides.

    ``normal`` is the velocity normal to them, in the same order of axes.
    """
    first, last = G, G + n - 1
    if kind_low == PERIODIC:
        for j in range(f.shape[1]):
            f[first - 1, j] = f[last, j]
            f[first - 2, j] = f[last - 1, j]
            f[last + 1, j] = f[first, j]
            f[last + 2, j] = f[first + 1, j]
        return
    _fill_beyond(f, first, -1, kind_low, along[0], across[0], normal[G], ring)
    _fill_beyond(f, last, 1, kind_high, along[1], across[1], normal[G + n], ring)


@sweep
def fill_ghosts(active: Array, u: Array, v: Array, sides: Array, given: Array) -> None:
    """Fill the ghost points of u and v (B, nx + 2G, ny + 2G) from the sides of the box.

    ``given`` (B, 4, 2, n) is the velocity (u, v) on each side, at the padded indices of the faces there.
    """
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        b = active[task]
        on = given[b]
        _fill_normal(u[b], nx, sides[LEFT], sides[RIGHT])
        _fill_normal(v[b].T, ny, sides[BOTTOM], sides[TOP])
        # what looks whether flow enters through a ring comes after the ring is closed
        for direction in (0, 1) if sides[LEFT] == PERIODIC else (1, 0):
            if direction == 0:
                along, across = (on[LEFT, 1], on[RIGHT, 1]), (on[LEFT, 0], on[RIGHT, 0])
                ring = sides[BOTTOM] == PERIODIC
                _fill_tangential(v[b], nx, sides[LEFT], sides[RIGHT], along, across, u[b], ring)
            else:
                along, across = (on[BOTTOM, 0], on[TOP, 0]), (on[BOTTOM, 1], on[TOP, 1])
                ring = sides[LEFT] == PERIODIC
                _fill_tangential(u[b].T, ny, sides[BOTTOM], sides[TOP], along, across, v[b].T, ring)


@row_loop
def _flux_between_rows(
    out: Array, c0: Array, c1: Array, f: Array, i: int, j0: int, n: int, per_12: Any, nu_per_h: Any
) -> None:
    """Write the flux of f along x between its rows i - 1 and i; the speed is the mean of c0 and c1."""
    mm, m, p, pp = f[i - 2], f[i - 1], f[i], f[i + 1]
    for j in range(n):
        k = j + j0
        out[j] = flux(HALF * (c0[j] + c1[j]), mm[k], m[k], p[k], pp[k], per_12, nu_per_h)


@row_loop
def _flux_along_row(
    out: Array, c0: Array, c1: Array, f: Array, j0: int, n: int, per_12: Any, nu_per_h: Any
) -> None:
    """Write the flux of f along y between its entries k - 1 and k, k = j0, ...; the speed is the mean of c0 and c1."""
    for j in range(n):
        k = j + j0
        out[j] = flux(HALF * (c0[j] + c1[j]), f[k - 2], f[k - 1], f[k], f[k + 1], per_12, nu_per_h)


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


@sweep
def predict(
    active: Array,
    blocks: int,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    old_u: Array,
    old_v: Array,
    p: Array,
    sides: Array,
    clock: Array,
    h: float,
    rows: Array,
) -> None:
    """Write to new_u, new_v the velocity after advection, diffusion and the last pressure gradient.

    ``old_u``, ``old_v`` hold the rates of the previous step and receive those of this one. ``rows`` (tasks, 5, n)
    is room for rows of fluxes, n > ny + 1.
    """
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    per_12, per_h = real(1.0 / 12.0), real(1.0 / h)
    i_first = 0 if sides[LEFT] == PERIODIC else 1
    periodic_y = sides[BOTTOM] == PERIODIC
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        dt, nu = clock[b, DT], clock[b, VISCOSITY]
        step, r, nu_per_h, dth = real(dt), real(clock[b, RATIO]), real(nu / h), real(dt / h)
        ub, vb, pb = u[b], v[b], p[b]
        fluxes = rows[task]
        across = fluxes[4]
        start, stop = rows_of(task, blocks, 0, nx)
        k = start + G
        # u flows through the cell centres, v through the corners; both fluxes are used by the rows on either side
        _flux_between_rows(fluxes[0], ub[k - 1, G:], ub[k, G:], ub, k, G, ny, per_12, nu_per_h)
        _flux_between_rows(fluxes[2], ub[k, G - 1 :], ub[k, G:], vb, k, G, ny + 1, per_12, nu_per_h)
        for i in range(start, stop):
            k = i + G
            odd = (i - start) % 2
            west, east = fluxes[odd], fluxes[1 - odd]
            _flux_between_rows(east, ub[k, G:], ub[k + 1, G:], ub, k + 1, G, ny, per_12, nu_per_h)
            if i >= i_first:
                _flux_along_row(
                    across, vb[k - 1, G:], vb[k, G:], ub[k], G, ny + 1, per_12, nu_per_h
                )
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
            _flux_between_rows(
                east, ub[k + 1, G - 1 :], ub[k + 1, G:], vb, k + 1, G, ny + 1, per_12, nu_per_h
            )
            _flux_along_row(across, vb[k, G - 1 :], vb[k, G:], vb[k], G, ny + 1, per_12, nu_per_h)
            if periodic_y:
                _advance_row(
                    new_v[b, k], vb[k], old_v[b, k], west, east, across, pb[i, ny - 1 :], pb[i], G, 1, step, r, dth,
                    per_h,
                )  # fmt: skip
            _advance_row(
                new_v[b, k], vb[k], old_v[b, k], west[1:], east[1:], across[1:], pb[i], pb[i, 1:], G + 1, ny - 1,
                step, r, dth, per_h,
            )  # fmt: skip


@sweep
def predict_open_sides(
    active: Array,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    old_u: Array,
    old_v: Array,
    p: Array,
    sides: Array,
    given: Array,
    clock: Array,
    h: float,
) -> None:
    """Do what :func:`predict` does for the normal velocity on ``open`` sides, from the half cells behind them."""
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    per_12, per_h = real(1.0 / 12.0), real(1.0 / h)
    for task in prange(len(active)):
        b = active[task]
        dt, nu_per_h = clock[b, DT], real(clock[b, VISCOSITY] / h)
        step, r, two_dth = real(dt), real(clock[b, RATIO]), real(2.0 * dt / h)
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
            after = flux(
                beside[G], line[G - 2], line[G - 1], line[G], line[G + 1], per_12, nu_per_h
            )
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
def update_sides(
    active: Array,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    sides: Array,
    given: Array,
    clock: Array,
    h: float,
) -> None:
    """Set the normal velocity on all sides but ``open`` ones, without a net flux where there are none of these."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    old, new = (u.reshape(-1), v.reshape(-1)), (new_u.reshape(-1), new_v.reshape(-1))
    for task in prange(len(active)):
        b = active[task]
        net = set_sides(b, old, new, nx, ny, sides, given, clock[b, DT], h, 0, 1)
        balance_sides(b, new, nx, ny, sides, net, 0, 1)


@sweep
def divergence(active: Array, blocks: int, u: Array, v: Array, d: Array, sides: Array) -> None:
    """Write h div u at the cell centres."""
    nx, ny = d.shape[1], d.shape[2]
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        start, stop = rows_of(task, blocks, 0, nx)
        for i in range(start, stop):
            out, west, across = d[b, i], u[b, i + G], v[b, i + G]
            # on a periodic side the last face is the first one
            east = u[b, G] if sides[LEFT] == PERIODIC and i == nx - 1 else u[b, i + G + 1]
            for j in range(ny):
                out[j] = net_outflow(west[j + G], east[j + G], across[j + G], across[j + G + 1])
            if sides[BOTTOM] == PERIODIC:
                j = ny - 1
                out[j] = net_outflow(west[j + G], east[j + G], across[j + G], across[G])


@sweep
def correct(
    active: Array,
    blocks: int,
    new_u: Array,
    new_v: Array,
    u: Array,
    v: Array,
    phi: Array,
    p: Array,
    sides: Array,
    clock: Array,
    h: float,
    keep_pressure: bool,
    speeds: Array,
) -> None:
    """Write the projected velocity to u, v, add phi to the pressure, and find the largest |u| + |v| of each block.

    ``phi`` is dt/h times the change of p, which is left as it is without ``keep_pressure``. ``speeds`` (B, blocks)
    receives infinity where a velocity is not finite.
    """
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    # phi is zero on an open side, half a cell from the centres
    low_x, high_x = real(2 if sides[LEFT] == OPEN else 0), real(2 if sides[RIGHT] == OPEN else 0)
    low_y, high_y = real(2 if sides[BOTTOM] == OPEN else 0), real(2 if sides[TOP] == OPEN else 0)
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        scale = real(h / clock[b, DT]) if keep_pressure else real(0)
        start, stop = rows_of(task, blocks, 0, nx)
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
            row_max = real(0)
            row_sum = real(0)
            for j in range(ny):
                s = abs(uk[j + G]) + abs(vk[j + G])
                row_max = max(row_max, s)
                row_sum += s
            fastest = max(fastest, row_max)
            total += row_sum
        if stop == nx and sides[LEFT] != PERIODIC:
            for j in range(ny):
                u[b, nx + G, j + G] = new_u[b, nx + G, j + G] + high_x * phi[b, nx - 1, j]
        speeds[b, task % blocks] = fastest if math.isfinite(total) else real(math.inf)


def copy_velocity(active: Array, u: Array, v: Array, new_u: Array, new_v: Array) -> None:
    """Copy u, v to new_u, new_v; not compiled, since numba takes seconds for the assignment of an array."""
    for b in active:
        new_u[b] = u[b]
        new_v[b] = v[b]


@small
def sample(active: Array, u: Array, v: Array, points: Array, h: float, velocity: Array) -> None:
    """Write to ``velocity`` (B, n, 2) the velocity at ``points`` (B, n, 2)."""
    for b in active:
        for m in range(points.shape[1]):
            velocity[b, m, 0], velocity[b, m, 1] = velocity_at(
                u[b], v[b], points[b, m, 0], points[b, m, 1], h
            )

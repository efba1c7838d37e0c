"""Sweeps over the whole grid: ghost points, advection and diffusion, sides, divergence, correction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from flowsim.backend.cpu.compiling import inner, rows_of, sweep
from flowsim.grid import GHOSTS as G
from flowsim.stencils import adams_bashforth, advection, laplacian, mean_of_four, net_outflow

Array = Any


@inner
def _fill_ghosts(f: Array, n: int, kind_low: int, kind_high: int, low: Any, high: Any, normal: bool) -> None:
    """Fill the ghost layers at both ends of the first axis of f, whose n inner entries start at G.

    ``normal``: f is the velocity normal to these sides, and entries G and G + n lie on them. Otherwise the sides are
    half a cell outside the first and the last entry, and f is tangential there.
    """
    two = f.dtype.type(2)
    columns = f.shape[1]
    first, last = G, G + n - 1
    for j in range(columns):
        if kind_low == 0:
            f[first - 1, j] = f[last, j]
            f[first - 2, j] = f[last - 1, j]
            f[last + 1, j] = f[first, j]
            f[last + 2, j] = f[first + 1, j]
        elif normal:
            # beyond an open side as on it; beyond the others odd about the given value
            is_open = kind_low == 2 or kind_low == 3
            f[first - 1, j] = f[first, j] if is_open else two * f[first, j] - f[first + 1, j]
            f[first - 2, j] = f[first, j] if is_open else two * f[first, j] - f[first + 2, j]
            is_open = kind_high == 2 or kind_high == 3
            f[last + 2, j] = f[last + 1, j] if is_open else two * f[last + 1, j] - f[last, j]
        else:
            given = kind_low == 1 or kind_low == 5
            f[first - 1, j] = two * low - f[first, j] if given else f[first, j]
            f[first - 2, j] = two * low - f[first + 1, j] if given else f[first + 1, j]
            given = kind_high == 1 or kind_high == 5
            f[last + 1, j] = two * high - f[last, j] if given else f[last, j]
            f[last + 2, j] = two * high - f[last - 1, j] if given else f[last - 1, j]


@sweep
def fill_ghosts(active: Array, u: Array, v: Array, sides: Array, given: Array) -> None:
    """Fill the ghost points of u and v (B, nx + 2G, ny + 2G) from the sides of the box."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        b = active[task]
        _fill_ghosts(u[b], nx, sides[0], sides[1], given[0, 0], given[1, 0], True)
        _fill_ghosts(u[b].T, ny, sides[2], sides[3], given[2, 0], given[3, 0], False)
        _fill_ghosts(v[b], nx, sides[0], sides[1], given[0, 1], given[1, 1], False)
        _fill_ghosts(v[b].T, ny, sides[2], sides[3], given[2, 1], given[3, 1], True)


@inner
def _rate(
    out: Array, f: Array, cu: Array, cv: Array, i: int, j0: int, n: int, nu: Any, per_12h: Any, per_h2: Any
) -> None:
    """Write -(c . grad) f + nu lap f along one row of one velocity component."""
    f0, west, east, west2, east2 = f[i], f[i - 1], f[i + 1], f[i - 2], f[i + 2]
    for j in range(n):
        k = j + j0
        out[j] = (
            nu * laplacian(f0[k], west[k], east[k], f0[k - 1], f0[k + 1], per_h2)
            - advection(cu[j], west2[k], west[k], f0[k], east[k], east2[k], per_12h)
            - advection(cv[j], f0[k - 2], f0[k - 1], f0[k], f0[k + 1], f0[k + 2], per_12h)
        )


@inner
def _advance_row(
    new: Array,
    f: Array,
    rate: Array,
    old: Array,
    p0: Array,
    p1: Array,
    j0: int,
    n: int,
    dt: Any,
    ratio: Any,
    dth: Any,
) -> None:
    """Advance one row by its rate and the last pressure, and keep the rate for the next step."""
    for j in range(n):
        new[j + j0] = adams_bashforth(f[j + j0], rate[j], old[j + j0], dt, ratio) - dth * (p1[j] - p0[j])
        old[j + j0] = rate[j]


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
    nu: Array,
    dt: Array,
    ratio: Array,
    h: float,
) -> None:
    """Write to new_u, new_v the velocity after advection, diffusion and the last pressure gradient.

    ``old_u``, ``old_v`` hold the rates of the previous step and receive those of this one.
    """
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    per_12h, per_h2 = real(1.0 / (12.0 * h)), real(1.0 / (h * h))
    i_first = 0 if sides[0] == 0 else 1
    j_first = 0 if sides[2] == 0 else 1
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        step, r, nu_b = real(dt[b]), real(ratio[b]), real(nu[b])
        dth = real(dt[b] / h)
        ub, vb, pb = u[b], v[b], p[b]
        rate, across = np.empty(ny, u.dtype), np.empty(ny, u.dtype)
        start, stop = rows_of(task, blocks, 0, nx)
        for i in range(start, stop):
            k = i + G
            if i >= i_first:
                v0, v1 = vb[k - 1], vb[k]
                for j in range(ny):
                    across[j] = mean_of_four(v0[j + G], v1[j + G], v0[j + G + 1], v1[j + G + 1])
                _rate(rate, ub, ub[k, G:], across, k, G, ny, nu_b, per_12h, per_h2)
                west = pb[i - 1] if i > 0 else pb[nx - 1]
                _advance_row(new_u[b, k], ub[k], rate, old_u[b, k], west, pb[i], G, ny, step, r, dth)
            u0, u1 = ub[k], ub[k + 1]
            for j in range(ny):
                across[j] = mean_of_four(u0[j + G - 1], u0[j + G], u1[j + G - 1], u1[j + G])
            _rate(rate, vb, across, vb[k, G:], k, G, ny, nu_b, per_12h, per_h2)
            if j_first == 0:
                _advance_row(new_v[b, k], vb[k], rate, old_v[b, k], pb[i, ny - 1 :], pb[i], G, 1, step, r, dth)
            n = ny - 1
            _advance_row(new_v[b, k], vb[k], rate[1:], old_v[b, k], pb[i], pb[i, 1:], G + 1, n, step, r, dth)


@sweep
def update_sides(active: Array, u: Array, v: Array, new_u: Array, new_v: Array, sides: Array, given: Array, dt: Array,
                 h: float) -> None:  # fmt: skip
    """Set the normal velocity on the four sides, with zero net flux.

    Convective on ``outflow`` sides, of zero gradient on ``open`` ones; what does not balance is spread over both.
    """
    real = u.dtype.type
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        b = active[task]
        net = 0.0
        passable = 0
        for side in range(4):
            if sides[side] == 0:
                continue
            sign = -1.0 if side % 2 == 0 else 1.0
            across = side < 2
            old, new = (u[b], new_u[b]) if across else (v[b].T, new_v[b].T)
            n, cells = (nx, ny) if across else (ny, nx)
            edge = G if side % 2 == 0 else G + n
            inside = edge + 1 if side % 2 == 0 else edge - 1
            courant = real(max(sign * given[side, 0 if across else 1], 0.0) * dt[b] / h)
            total = 0.0
            for j in range(G, G + cells):
                if sides[side] == 2:
                    new[edge, j] = old[edge, j] - courant * (old[edge, j] - old[inside, j])
                elif sides[side] == 3:
                    new[edge, j] = new[inside, j]
                else:
                    new[edge, j] = old[edge, j]
                total += np.float64(new[edge, j])
            net += sign * total
            if sides[side] == 2 or sides[side] == 3:
                passable += cells
        if passable == 0:
            continue
        correction = net / passable
        for side in range(4):
            if sides[side] == 2 or sides[side] == 3:
                sign = -1.0 if side % 2 == 0 else 1.0
                across = side < 2
                new = new_u[b] if across else new_v[b].T
                n, cells = (nx, ny) if across else (ny, nx)
                edge = G if side % 2 == 0 else G + n
                for j in range(G, G + cells):
                    new[edge, j] -= real(sign * correction)


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
            east = u[b, G] if sides[0] == 0 and i == nx - 1 else u[b, i + G + 1]
            for j in range(ny):
                out[j] = net_outflow(west[j + G], east[j + G], across[j + G], across[j + G + 1])
            if sides[2] == 0:
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
    per_dth: Array,
    speed: Array,
) -> None:
    """Write the projected velocity to u, v, add phi to the pressure, and find the largest |u| + |v| of each block.

    ``phi`` is dt/h times the change of p; ``per_dth`` is h/dt, or 0 to leave p as it is. ``speed`` (B, blocks)
    receives NaN where a velocity is not finite.
    """
    real = u.dtype.type
    nx, ny = p.shape[1], p.shape[2]
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        scale = real(per_dth[b])
        start, stop = rows_of(task, blocks, 0, nx)
        fastest, total = real(0), real(0)
        for i in range(start, stop):
            k = i + G
            here, uk, vk, nuk, nvk, pk = phi[b, i], u[b, k], v[b, k], new_u[b, k], new_v[b, k], p[b, i]
            if i > 0 or sides[0] == 0:
                west = phi[b, i - 1] if i > 0 else phi[b, nx - 1]
                for j in range(ny):
                    uk[j + G] = nuk[j + G] - (here[j] - west[j])
            else:
                for j in range(ny):
                    uk[j + G] = nuk[j + G]
            vk[G] = nvk[G] - (here[0] - here[ny - 1]) if sides[2] == 0 else nvk[G]
            for j in range(1, ny):
                vk[j + G] = nvk[j + G] - (here[j] - here[j - 1])
            if sides[2] != 0:
                vk[ny + G] = nvk[ny + G]
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
        if stop == nx and sides[0] != 0:
            u[b, nx + G] = new_u[b, nx + G]
        speed[b, task % blocks] = fastest if math.isfinite(total) else real(math.nan)

"""The CPU backend: numba sweeps of :mod:`flowsim.stencils` over NumPy arrays.

Every sweep takes the numbers of the ``active`` simulations and runs in parallel over simulations or, when they are
fewer than the threads, over blocks of rows of each. With one thread a simulation in a batch equals the same simulation
alone to the bit; blocks of rows change the order of the sums in the matrix products, and so the last digits.
"""

from __future__ import annotations

import functools
import math
from contextlib import AbstractContextManager
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from threadpoolctl import ThreadpoolController

from flowsim.bodies import signed_distance
from flowsim.grid import GHOSTS
from flowsim.poisson import PoissonPlan
from flowsim.stencils import (
    adams_bashforth,
    advection,
    laplacian,
    mask,
    mean_of_four,
    net_outflow,
    penalized_share,
)

Array = Any
G = GHOSTS
# NaN must stay visible, so the two flags that assume it away are left out
FAST = {"contract", "reassoc", "nsz", "arcp"}
sweep = njit(parallel=True, cache=True, fastmath=FAST, nogil=True, error_model="numpy")
inner = njit(cache=True, fastmath=FAST, nogil=True, error_model="numpy")


@inner
def _rows(task: int, blocks: int, first: int, last: int) -> tuple[int, int]:
    """Return the block of rows [start, stop) of [first, last) that belongs to a task."""
    block = task % blocks
    rows = last - first
    return first + rows * block // blocks, first + rows * (block + 1) // blocks


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
        start, stop = _rows(task, blocks, 0, nx)
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


@inner
def _body_window(x: float, y: float, angle: float, a: float, b: float, h: float, nx: int, ny: int) -> tuple[int, ...]:
    """Return the ranges of faces [i0, i1) x [j0, j1) that a body of semi-axes a, b can touch, plus a margin."""
    c, s = math.cos(angle), math.sin(angle)
    reach_x = math.sqrt((a * c) ** 2 + (b * s) ** 2) + 1.5 * h
    reach_y = math.sqrt((a * s) ** 2 + (b * c) ** 2) + 1.5 * h
    i0 = min(max(math.floor((x - reach_x) / h), 0), nx)
    i1 = max(min(math.ceil((x + reach_x) / h) + 1, nx), 0)
    j0 = min(max(math.floor((y - reach_y) / h), 0), ny)
    j1 = max(min(math.ceil((y + reach_y) / h) + 1, ny), 0)
    return i0, i1, j0, j1


@inner
def _shares(
    share: Array,
    window: Any,
    dx: float,
    dy: float,
    x: float,
    y: float,
    angle: float,
    body: Any,
    h: float,
    c: float,
) -> None:
    """Write the penalised share of every face of a window; (dx, dy) is the offset of the faces in their cell."""
    shape, a, b = body
    i0, i1, j0, j1 = window
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        rx = (i + dx) * h - x
        for j in range(j0, j1):
            ry = (j + dy) * h - y
            distance = signed_distance(shape, a, b, cos * rx + sin * ry, cos * ry - sin * rx)
            share[i + G, j + G] = penalized_share(mask(distance, h), c)


@inner
def _moments(f: Array, share: Array, window: Any, offset: float, centre: float, h: float, along_x: bool) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a window, r being the lever arm of f about the centre."""
    i0, i1, j0, j1 = window
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(i0, i1):
        for j in range(j0, j1):
            w = np.float64(share[i + G, j + G])
            g = np.float64(f[i + G, j + G])
            r = ((i if along_x else j) + offset) * h - centre
            s0 += w
            s1 += w * r
            s2 += w * r * r
            p0 += w * g
            p1 += w * r * g
    area = h * h
    return s0 * area, s1 * area, s2 * area, p0 * area, p1 * area


@inner
def _free_motion(
    mass: float, inertia: float, dt: float, su: Any, sv: Any, state: Any, force: Any
) -> tuple[float, float, float]:
    """Solve body velocity and penalty together.

    (M - M_f)(V' - V) = int w (u - V' - omega' x r) + dt F, and likewise for the angular momentum; ``mass`` and
    ``inertia`` are the excess over the displaced fluid, zero for a body of the fluid's density, for which the momentum
    of the fluid under the body alone decides.
    """
    vx, vy, omega = state
    fx, fy, torque = force
    a, b = mass + su[0], mass + sv[0]
    rx = mass * vx + su[3] + dt * fx
    ry = mass * vy + sv[3] + dt * fy
    # u_s = V_x - omega r_y and v_s = V_y + omega r_x couple each component with the rotation alone
    rt = inertia * omega - su[4] + sv[4] + dt * torque
    pivot = inertia + su[2] + sv[2] - su[1] * su[1] / a - sv[1] * sv[1] / b
    omega = (rt + su[1] * rx / a - sv[1] * ry / b) / pivot
    return (rx + su[1] * omega) / a, (ry - sv[1] * omega) / b, omega


@inner
def _impose(
    f: Array,
    share: Array,
    window: Any,
    offset: float,
    centre: float,
    h: float,
    along_x: bool,
    base: float,
    turn: float,
) -> None:
    """Penalise f towards base + turn r inside a window."""
    real = f.dtype.type
    i0, i1, j0, j1 = window
    for i in range(i0, i1):
        for j in range(j0, j1):
            target = real(base + turn * (((i if along_x else j) + offset) * h - centre))
            f[i + G, j + G] += share[i + G, j + G] * (target - f[i + G, j + G])


@sweep
def penalize(
    active: Array,
    u: Array,
    v: Array,
    share_u: Array,
    share_v: Array,
    shapes: Array,
    axes: Array,
    free: Array,
    mass: Array,
    inertia: Array,
    fluid_mass: Array,
    fluid_inertia: Array,
    position: Array,
    angle: Array,
    velocity: Array,
    spin: Array,
    applied_force: Array,
    applied_torque: Array,
    force: Array,
    torque: Array,
    penalty: float,
    dt: Array,
    h: float,
) -> None:
    """Give free bodies their new velocity, drag the fluid under every body along, and add up what that takes.

    ``mass`` and ``inertia`` (K,) are the excess over the displaced fluid, ``fluid_mass`` and ``fluid_inertia``. The
    force on the body is the penalty integral plus the rate of change of momentum of the fluid inside.
    """
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        n = active[task]
        step = dt[n]
        for k in range(len(shapes)):
            x, y, theta = position[n, k, 0], position[n, k, 1], angle[n, k]
            window = _body_window(x, y, theta, axes[k, 0], axes[k, 1], h, nx, ny)
            body = (shapes[k], axes[k, 0], axes[k, 1])
            c = penalty * step
            _shares(share_u[n], window, 0.0, 0.5, x, y, theta, body, h, c)
            _shares(share_v[n], window, 0.5, 0.0, x, y, theta, body, h, c)
            su = _moments(u[n], share_u[n], window, 0.5, y, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, x, h, True)
            vx, vy, omega = velocity[n, k, 0], velocity[n, k, 1], spin[n, k]
            new_vx, new_vy, new_omega = vx, vy, omega
            # a body that has left the box has no fluid to follow
            if free[k] and min(mass[k] + su[0], mass[k] + sv[0]) > 1e-6 * fluid_mass[k]:
                new_vx, new_vy, new_omega = _free_motion(
                    mass[k],
                    inertia[k],
                    step,
                    su,
                    sv,
                    (vx, vy, omega),
                    (applied_force[n, k, 0], applied_force[n, k, 1], applied_torque[n, k]),
                )
                velocity[n, k, 0], velocity[n, k, 1], spin[n, k] = new_vx, new_vy, new_omega
                # the body was moved with its old velocity: the trapezoidal rule is second order
                position[n, k, 0] += 0.5 * step * (new_vx - vx)
                position[n, k, 1] += 0.5 * step * (new_vy - vy)
                angle[n, k] += 0.5 * step * (new_omega - omega)
            _impose(u[n], share_u[n], window, 0.5, y, h, False, new_vx, -new_omega)
            _impose(v[n], share_v[n], window, 0.5, x, h, True, new_vy, new_omega)
            m, j = fluid_mass[k], fluid_inertia[k]
            force[n, k, 0] = (su[3] - su[0] * new_vx + su[1] * new_omega + m * (new_vx - vx)) / step
            force[n, k, 1] = (sv[3] - sv[0] * new_vy - sv[1] * new_omega + m * (new_vy - vy)) / step
            pull = -su[4] + su[1] * new_vx - su[2] * new_omega + sv[4] - sv[1] * new_vy - sv[2] * new_omega
            torque[n, k] = (pull + j * (new_omega - omega)) / step


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
        start, stop = _rows(task, blocks, 0, nx)
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
def multiply(active: Array, blocks: int, d: Array, matrix: Array, out: Array) -> None:
    """Write d @ matrix for every active simulation: the transform along y."""
    nx = d.shape[1]
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        start, stop = _rows(task, blocks, 0, nx)
        np.dot(d[b, start:stop], matrix, out[b, start:stop])


@inner
def _solve_mode_zero(d: Array, periodic: bool) -> None:
    """Solve phi[i-1] - 2 phi[i] + phi[i+1] = d[i] by two summations in float64; d and phi have zero mean."""
    real = d.dtype.type
    nx = d.shape[0]
    mean, slope, first = 0.0, 0.0, 0.0
    for i in range(nx):
        mean += np.float64(d[i, 0])
    mean /= nx
    if periodic:  # the slopes around the ring add up to zero
        for i in range(nx):
            slope += np.float64(d[i, 0]) - mean
            first -= slope / nx
    phi, total, slope = 0.0, 0.0, first
    for i in range(nx):
        value = np.float64(d[i, 0]) - mean
        if periodic and i == 0:
            slope = first + value
            d[i, 0] = real(phi)
        elif i == 0:
            slope = value
            d[i, 0] = real(phi)
        else:
            phi += slope
            slope += value
            d[i, 0] = real(phi)
        total += phi
    for i in range(nx):
        d[i, 0] -= real(total / nx)


@sweep
def solve_tridiagonal(
    active: Array, blocks: int, d: Array, pivots: Array, closure: Array, closure_pivot: Array, periodic: bool
) -> None:
    """Solve the systems along x of :class:`flowsim.poisson.PoissonPlan` in place, mode by mode."""
    nx, ny = d.shape[1], d.shape[2]
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        start, stop = _rows(task, blocks, 1, ny)
        n = nx - 1 if periodic else nx
        x = d[b]
        for m in range(start, stop):
            x[0, m] *= pivots[0, m]
        for i in range(1, n):
            row, above, pivot = x[i], x[i - 1], pivots[i]
            for m in range(start, stop):
                row[m] = (row[m] - above[m]) * pivot[m]
        for i in range(n - 2, -1, -1):
            row, below, pivot = x[i], x[i + 1], pivots[i]
            for m in range(start, stop):
                row[m] -= pivot[m] * below[m]
        if periodic:
            for m in range(start, stop):
                x[n, m] = (x[n, m] - x[0, m] - x[n - 1, m]) * closure_pivot[m]
            for i in range(n):
                for m in range(start, stop):
                    x[i, m] += closure[i, m] * x[n, m]
        if task % blocks == 0:
            _solve_mode_zero(x, periodic)


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
        start, stop = _rows(task, blocks, 0, nx)
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


def solve_poisson(active: Array, blocks: int, d: Array, modes: Array, plan: PoissonPlan) -> None:
    """Solve lap phi = d on unit spacing in place; ``modes`` is room for the transform."""
    if plan.by_matrix:
        multiply(active, blocks, d, plan.forward, modes)
    else:
        modes[active] = plan.transform(d[active])
    solve_tridiagonal(active, blocks, modes, plan.pivots, plan.closure, plan.closure_pivot, plan.periodic[0])
    if plan.by_matrix:
        multiply(active, blocks, modes, plan.backward, d)
    else:
        d[active] = plan.inverse_transform(modes[active])


def most_threads() -> int:
    """Return the number of threads that numba was started with."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def use_threads(threads: int) -> None:
    """Set the number of threads of the sweeps of this process.

    Raises
    ------
    ValueError
        When numba was started with fewer.
    """
    if not 1 <= threads <= most_threads():
        raise ValueError(
            f"threads = {threads!r}: this process can use 1 to {most_threads()} threads (NUMBA_NUM_THREADS)"
        )
    numba.set_num_threads(threads)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """Keep the BLAS inside the sweeps from starting threads of its own."""
    return _blas().limit(limits=1, user_api="blas")

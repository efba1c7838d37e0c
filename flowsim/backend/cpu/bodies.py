"""Sweeps over the windows of the bodies: shares, penalty, free motion."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from flowsim.backend.cpu.compiling import inner, sweep
from flowsim.bodies import signed_distance
from flowsim.grid import GHOSTS as G
from flowsim.stencils import mask, penalized_share

Array = Any


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

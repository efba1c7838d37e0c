"""Sweeps over the windows of the bodies: shares, penalty, free motion, sensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from flowsim.backend.cpu.compiling import inner, small, sweep
from flowsim.grid import GHOSTS as G
from flowsim.rigid import (
    RIGID,
    body_distance,
    claimed_by_others,
    diffusion_at_surface,
    follow_fluid,
    move_free_bodies,
    near_others,
    respond,
    sensor_point,
    share_at_surface,
    touches_box,
    whereabouts,
    within,
    wrapped,
)
from flowsim.stencils import mask, penalized_share, velocity_at

Array = Any


@inner
def _shares(
    share: Array, window: Any, dx: float, dy: float, x: float, y: float, angle: float, bodies: Any, k: int, h: float,
    c: float, diffusion: float,
) -> None:  # fmt: skip
    """Write the penalised share of every face of a window; (dx, dy) is the offset of the faces in their cell."""
    i0, i1, j0, j1 = window
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        row = share[wrapped(i, nx) + G]
        rx = (i + dx) * h - x
        # distances first: a loop without branches over the row is several times faster
        for j in range(j0, j1):
            row[wrapped(j, ny) + G] = body_distance(bodies, k, rx, (j + dy) * h - y, cos, sin)
        for j in range(j0, j1):
            m = wrapped(j, ny) + G
            distance = np.float64(row[m])
            if diffusion > 0.0 and 0.0 < distance < h:
                ry = (j + dy) * h - y
                row[m] = share_at_surface(bodies, k, distance, rx, ry, cos, sin, dx == 0.0, h, c, diffusion)
            else:
                row[m] = penalized_share(mask(distance, h), c)


@inner
def _yield_to(
    share: Array, window: Any, dx: float, dy: float, x: float, y: float, angle: float, bodies: Any, rank: int,
    position: Array, angles: Array, h: float, c: float, sides: Array, contact: Array,
) -> None:  # fmt: skip
    """Take from the shares of a body what the less movable ones before it claim, and note whom it touches."""
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    i0, i1, j0, j1 = window
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        px = (i + dx) * h
        for j in range(j0, j1):
            py = (j + dy) * h
            own = body_distance(bodies, bodies.order[rank], px - x, py - y, cos, sin)
            claimed = claimed_by_others(rank, bodies, px, py, own, position, angles, h, nx, ny, sides, contact)
            if claimed > 0.0:
                free = penalized_share(max(1.0 - claimed, 0.0), c)
                f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
                share[f, g] = min(share[f, g], free)


@inner
def _moments(f: Array, share: Array, window: Any, offset: float, centre: float, h: float, along_x: bool) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a window, r being the lever arm of f about the centre."""
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for j in range(j0, j1):
            k = wrapped(j, ny) + G
            w = np.float64(shares[k])
            g = np.float64(values[k])
            r = ((i if along_x else j) + offset) * h - centre
            s0 += w
            s1 += w * r
            s2 += w * r * r
            p0 += w * g
            p1 += w * r * g
    area = h * h
    return s0 * area, s1 * area, s2 * area, p0 * area, p1 * area


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
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for j in range(j0, j1):
            k = wrapped(j, ny) + G
            target = real(base + turn * (((i if along_x else j) + offset) * h - centre))
            values[k] += shares[k] * (target - values[k])


@sweep
def penalize(
    active: Array,
    u: Array,
    v: Array,
    share_u: Array,
    share_v: Array,
    bodies: Any,
    moves: bool,
    state: Any,
    contact: Array,
    gravity: Array,
    viscosity: Array,
    penalty: float,
    dt: Array,
    h: float,
    sides: Array,
) -> None:
    """Move free bodies, give them their new velocity, drag the fluid under every body along, add up what that takes.

    ``bodies`` is a :class:`flowsim.bodies.BodyTable`; without ``moves`` free bodies stay and keep their velocity.
    ``state`` is that of :func:`flowsim.rigid.respond`. The force on the body is the penalty integral plus the rate of
    change of momentum of the fluid inside.
    """
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    position, angle = state[0], state[1]
    for task in prange(len(active)):
        n = active[task]
        if moves:
            move_free_bodies(n, bodies, position, angle, state[2], state[3], dt[n])
        contact[n] = 0
        c = penalty * dt[n]
        for rank in range(len(bodies.order)):
            k = bodies.order[rank]
            theta = angle[n, k]
            x, y, xc, yc, window = whereabouts(n, k, bodies, position, angle, h, nx, ny, sides)
            if touches_box(x, y, theta, bodies.support[k], h, nx, ny, sides):
                contact[n, k] |= 1
            diffusion = diffusion_at_surface(bodies, k, viscosity[n], dt[n], h)
            _shares(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, k, h, c, diffusion)
            _shares(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, k, h, c, diffusion)
            if rank > 0 and near_others(rank, bodies, x, y, position[n], h, nx, ny, sides):
                _yield_to(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, rank, position[n], angle[n], h, c, sides,
                          contact[n])  # fmt: skip
                _yield_to(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, rank, position[n], angle[n], h, c, sides,
                          contact[n])  # fmt: skip
            su = _moments(u[n], share_u[n], window, 0.5, yc, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, xc, h, True)
            vx, vy, omega = respond(n, k, su, sv, bodies, moves, state, dt[n], gravity)
            _impose(u[n], share_u[n], window, 0.5, yc, h, False, vx, -omega)
            _impose(v[n], share_v[n], window, 0.5, xc, h, True, vy, omega)


@sweep
def follow_light_bodies(
    active: Array,
    u: Array,
    v: Array,
    share_u: Array,
    share_v: Array,
    bodies: Any,
    position: Array,
    angle: Array,
    motion: Array,
    acceleration: Array,
    dt: Array,
    h: float,
    sides: Array,
) -> None:
    """Find the rigid motion (B, K, 3) of the fluid under every body that is lighter than it, and its rate."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for task in prange(len(active)):
        n = active[task]
        for k in range(len(bodies.order)):
            if bodies.mass_lag[k] == 0.0:
                continue
            theta = angle[n, k]
            x, y, xc, yc, window = whereabouts(n, k, bodies, position, angle, h, nx, ny, sides)
            _shares(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, k, h, RIGID, 0.0)
            _shares(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, k, h, RIGID, 0.0)
            su = _moments(u[n], share_u[n], window, 0.5, yc, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, xc, h, True)
            follow_fluid(n, k, su, sv, bodies, motion, acceleration, dt[n])


@sweep
def cover(active: Array, chi: Array, bodies: Any, position: Array, angle: Array, h: float, sides: Array) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    nx, ny = chi.shape[1], chi.shape[2]
    for task in prange(len(active)):
        n = active[task]
        chi[n] = 0.0
        for k in range(len(bodies.order)):
            cos, sin = math.cos(angle[n, k]), math.sin(angle[n, k])
            x, y, _, _, (i0, i1, j0, j1) = whereabouts(n, k, bodies, position, angle, h, nx, ny, sides)
            for i in range(i0, i1):
                for j in range(j0, j1):
                    distance = body_distance(bodies, k, (i + 0.5) * h - x, (j + 0.5) * h - y, cos, sin)
                    f, g = wrapped(i, nx), wrapped(j, ny)
                    chi[n, f, g] = max(chi[n, f, g], mask(distance, h))


@small
def sense(
    active: Array, u: Array, v: Array, position: Array, angle: Array, sensors: Array, carriers: Array, h: float,
    sides: Array, sensed: Array,
) -> None:  # fmt: skip
    """Write to ``sensed`` (B, n, 2) the velocity of the flow at sensors (n, 2) in the frames of their carriers (n,)."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for n in active:
        for m in range(len(carriers)):
            k = carriers[m]
            x, y = sensor_point(position[n, k], angle[n, k], sensors[m])
            x, y = within(x, nx * h, sides[0]), within(y, ny * h, sides[2])
            sensed[n, m, 0], sensed[n, m, 1] = velocity_at(u[n], v[n], x, y, h)

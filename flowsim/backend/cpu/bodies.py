"""Sweeps over the windows of the bodies: shares, penalty, free motion, sensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from flowsim.backend.cpu.compiling import inner, row_loop, small, sweep
from flowsim.body_arrays import TOUCHES_BOX
from flowsim.boundary import BOTTOM, LEFT
from flowsim.distances import MIDLINE, TABLE, signed_distance
from flowsim.grid import GHOSTS as G
from flowsim.midlines import bend as bend_midline
from flowsim.midlines import (
    bends,
    deformation_velocity,
    midline_distance,
    note_box,
    note_deformation,
)
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
def _distances_when_bent(
    out: Array, count: int, midlines: Any, bodies: Any, n: int, k: int, rx: float, ry: float, h: float, cos: float,
    sin: float,
) -> None:  # fmt: skip
    """Do what :func:`_distances` does for a body with a midline."""
    if midlines is not None:
        nodes, waves, line = bodies.nodes[k], bodies.waves[k], midlines[n, k]
        half, table, start, side = (
            bodies.axes[k, 1],
            bodies.distances,
            bodies.starts[k],
            bodies.sides[k],
        )
        for j in range(count):
            y = ry + j * h
            x, y = cos * rx + sin * y, cos * y - sin * rx
            out[j] = midline_distance(nodes, waves, line, half, table, start, side, x, y)


@row_loop
def _distances(
    out: Array, count: int, bodies: Any, n: int, k: int, rx: float, ry: float, h: float, cos: float, sin: float
) -> None:  # fmt: skip
    """Write the distances of the points of a row from body k of simulation n; (rx, ry) is the first, seen from it."""
    shape, a, b = bodies.shapes[k], bodies.axes[k, 0], bodies.axes[k, 1]
    if bends(bodies.midlines, bodies, k):
        _distances_when_bent(out, count, bodies.midlines, bodies, n, k, rx, ry, h, cos, sin)
        return
    if shape == TABLE:
        for j in range(count):
            out[j] = body_distance(bodies, n, k, rx, ry + j * h, cos, sin)
        return
    for j in range(count):
        y = ry + j * h
        out[j] = signed_distance(shape, a, b, cos * rx + sin * y, cos * y - sin * rx)


@row_loop
def _solid_shares(share: Array, distances: Array, n: int, h: float, c: float) -> None:
    """Write the penalised share of the solid part of the cells of a row."""
    for j in range(n):
        share[j] = penalized_share(mask(np.float64(distances[j]), h), c)


@inner
def _shares(
    share: Array, window: Any, dx: float, dy: float, x: float, y: float, angle: float, bodies: Any, n: int, k: int,
    h: float, c: float, diffusion: float, rows: Array,
) -> None:  # fmt: skip
    """Write the penalised share of every face of a window; (dx, dy) is the offset of the faces in their cell.

    ``rows`` is room for the distances of three rows, each a point longer than the window at both ends.
    """
    i0, i1, j0, j1 = window
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    cos, sin, count = math.cos(angle), math.sin(angle), j1 - j0 + 2
    ry = (j0 - 1 + dy) * h - y
    for i in range(i0 - 1, i1 + 1):
        _distances(rows[(i + 1 - i0) % 3], count, bodies, n, k, (i + dx) * h - x, ry, h, cos, sin)
        if i <= i0:
            continue
        line = share[wrapped(i - 1, nx) + G]
        west, here, east = rows[(i - 1 - i0) % 3], rows[(i - i0) % 3], rows[(i + 1 - i0) % 3]
        for piece in range(-1, 2):  # of a window that reaches over a periodic side
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                _solid_shares(
                    line[first - piece * ny + G :], here[first - j0 + 1 :], last - first, h, c
                )
        for j in range(1, count - 1) if diffusion > 0.0 else range(0):
            distance = np.float64(here[j])
            if 0.0 < distance < h:
                line[wrapped(j + j0 - 1, ny) + G] = share_at_surface(
                    distance, np.float64(west[j]), np.float64(east[j]), np.float64(here[j - 1]),
                    np.float64(here[j + 1]), dx == 0.0, h, c, diffusion,
                )  # fmt: skip


@inner
def _yield_to(
    share: Array, window: Any, dx: float, dy: float, x: float, y: float, angle: float, bodies: Any, n: int, rank: int,
    position: Array, angles: Array, h: float, c: float, sides: Array, contact: Array,
) -> None:  # fmt: skip
    """Take from the shares of a body what the less movable ones before it claim, and note whom it touches."""
    nx, ny = share.shape[0] - 2 * G, share.shape[1] - 2 * G
    i0, i1, j0, j1 = window
    cos, sin = math.cos(angle), math.sin(angle)
    bent = bends(bodies.midlines, bodies, bodies.order[rank])
    for i in range(i0, i1):
        px = (i + dx) * h
        for j in range(j0, j1):
            if bent and share[wrapped(i, nx) + G, wrapped(j, ny) + G] == 0.0:
                continue  # its box is large, and what it covers little
            py = (j + dy) * h
            own = body_distance(bodies, n, bodies.order[rank], px - x, py - y, cos, sin)
            claimed = claimed_by_others(
                n, rank, bodies, px, py, own, position, angles, h, nx, ny, sides, contact
            )
            if claimed > 0.0:
                free = penalized_share(max(1.0 - claimed, 0.0), c)
                f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
                share[f, g] = min(share[f, g], free)


@row_loop
def _add_moments(values: Array, shares: Array, n: int, along_x: bool, r: float, h: float) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a row; r is the lever arm, of the first entry if it grows."""
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    step = 0.0 if along_x else h
    for j in range(n):
        w, g, arm = np.float64(shares[j]), np.float64(values[j]), r + j * step
        s0 += w
        s1 += w * arm
        s2 += w * arm * arm
        p0 += w * g
        p1 += w * arm * g
    return s0, s1, s2, p0, p1


@inner
def _moments(
    f: Array, share: Array, window: Any, offset: float, centre: float, h: float, along_x: bool
) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a window, r being the lever arm of f about the centre."""
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for piece in range(-1, 2):
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                k, r = first - piece * ny + G, ((i if along_x else first) + offset) * h - centre
                a0, a1, a2, b0, b1 = _add_moments(
                    values[k:], shares[k:], last - first, along_x, r, h
                )
                s0, s1, s2, p0, p1 = s0 + a0, s1 + a1, s2 + a2, p0 + b0, p1 + b1
    area = h * h
    return s0 * area, s1 * area, s2 * area, p0 * area, p1 * area


@row_loop
def _impose_on_row(values: Array, shares: Array, n: int, target: float, growth: float) -> None:
    """Penalise a row towards a target that grows along it."""
    real = values.dtype.type
    for j in range(n):
        values[j] += shares[j] * (real(target + growth * j) - values[j])


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
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for piece in range(-1, 2):
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                k, r = first - piece * ny + G, ((i if along_x else first) + offset) * h - centre
                growth = 0.0 if along_x else turn * h
                _impose_on_row(values[k:], shares[k:], last - first, base + turn * r, growth)


@inner
def _deform(
    f: Array, share: Array, drift: Array, window: Any, along_x: bool, x: float, y: float, angle: float, midlines: Any,
    bodies: Any, n: int, k: int, h: float,
) -> None:  # fmt: skip
    """Take the velocity of deformation off f under a body, so that what is left there is to move as a rigid body."""
    if midlines is None:
        return
    nodes, line = bodies.nodes[k], midlines[n, k]
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    dx, dy = (0.0, 0.5) if along_x else (0.5, 0.0)
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        a = wrapped(i, nx) + G
        for j in range(j0, j1):
            b = wrapped(j, ny) + G
            if share[a, b] > 0.0:
                u, v = deformation_velocity(
                    nodes, line, (i + dx) * h - x, (j + dy) * h - y, cos, sin
                )
                drift[a, b] = u if along_x else v
                f[a, b] -= drift[a, b]


@inner
def _restore(
    f: Array, share: Array, drift: Array, window: Any, offset: float, centre: float, h: float, along_x: bool,
    base: float, turn: float, midlines: Any,
) -> float:  # fmt: skip
    """Penalise f towards base + turn r, undo :func:`_deform`, and return the work that the deformation did."""
    if midlines is None:
        return 0.0
    i0, i1, j0, j1 = window
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    real, work = f.dtype.type, 0.0
    for i in range(i0, i1):
        a = wrapped(i, nx) + G
        for j in range(j0, j1):
            b = wrapped(j, ny) + G
            if share[a, b] > 0.0:
                gap = real(base + turn * (((j if along_x else i) + offset) * h - centre)) - f[a, b]
                work += np.float64(share[a, b]) * drift[a, b] * gap
                f[a, b] += share[a, b] * gap + drift[a, b]
    return work * h * h


@sweep
def bend(
    active: Array, bodies: Any, gait: Array, form: Array, time: Array, dt: Array, moves: bool
) -> None:
    """Bend the midlines, as they are at the end of the step, or without ``moves`` now."""
    for task in prange(len(active)):
        n = active[task]
        for k in range(len(bodies.nodes)):
            if bodies.shapes[k] == MIDLINE:
                bend_midline(
                    bodies.nodes[k], bodies.waves[k], gait[n, k], form[n, k], bodies.midlines[n, k], time[n],
                    dt[n] if moves else 0.0,
                )  # fmt: skip
                note_box(bodies.nodes[k], bodies.midlines[n, k], bodies.boxes[n, k])


@sweep
def penalize(
    active: Array,
    rows: Array,
    u: Array,
    v: Array,
    share_u: Array,
    share_v: Array,
    drift_u: Array,
    drift_v: Array,
    form: Array,
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

    ``bodies`` is a :class:`flowsim.body_arrays.BodyTable`; without ``moves`` free bodies stay and keep their velocity.
    ``state`` is that of :func:`flowsim.rigid.respond`. The force on the body is the penalty integral plus the rate of
    change of momentum of the fluid inside. ``drift_u`` and ``drift_v`` are room for velocities of deformation, in the
    frame of which a body that bends is penalised as a rigid one. ``rows`` is that room of
    :func:`flowsim.backend.cpu.flow.predict`.
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
            if touches_box(bodies, n, k, x, y, theta, h, nx, ny, sides):
                contact[n, k] |= TOUCHES_BOX
            diffusion = diffusion_at_surface(bodies, k, viscosity[n], dt[n], h)
            _shares(
                share_u[n], window, 0.0, 0.5, x, y, theta, bodies, n, k, h, c, diffusion, rows[task]
            )
            _shares(
                share_v[n], window, 0.5, 0.0, x, y, theta, bodies, n, k, h, c, diffusion, rows[task]
            )
            if rank > 0 and near_others(rank, bodies, x, y, position[n], h, nx, ny, sides):
                _yield_to(share_u[n], window, 0.0, 0.5, x, y, theta, bodies, n, rank, position[n], angle[n], h, c,
                          sides, contact[n])  # fmt: skip
                _yield_to(share_v[n], window, 0.5, 0.0, x, y, theta, bodies, n, rank, position[n], angle[n], h, c,
                          sides, contact[n])  # fmt: skip
            spin, bent = state[3][n, k], bends(bodies.midlines, bodies, k)
            if bent:
                _deform(
                    u[n],
                    share_u[n],
                    drift_u[n],
                    window,
                    True,
                    x,
                    y,
                    theta,
                    bodies.midlines,
                    bodies,
                    n,
                    k,
                    h,
                )
                _deform(
                    v[n],
                    share_v[n],
                    drift_v[n],
                    window,
                    False,
                    x,
                    y,
                    theta,
                    bodies.midlines,
                    bodies,
                    n,
                    k,
                    h,
                )
            su = _moments(u[n], share_u[n], window, 0.5, yc, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, xc, h, True)
            vx, vy, omega = respond(n, k, su, sv, bodies, moves, state, dt[n], gravity)
            if bent:
                work = _restore(
                    u[n],
                    share_u[n],
                    drift_u[n],
                    window,
                    0.5,
                    yc,
                    h,
                    True,
                    vx,
                    -omega,
                    bodies.midlines,
                )
                work += _restore(
                    v[n],
                    share_v[n],
                    drift_v[n],
                    window,
                    0.5,
                    xc,
                    h,
                    False,
                    vy,
                    omega,
                    bodies.midlines,
                )
                state[8][n, k] = note_deformation(
                    form[n, k], state[8][n, k], work, (spin, omega), bodies.fluid_inertia[k], dt[n]
                )
                continue
            _impose(u[n], share_u[n], window, 0.5, yc, h, False, vx, -omega)
            _impose(v[n], share_v[n], window, 0.5, xc, h, True, vy, omega)


@sweep
def follow_light_bodies(
    active: Array,
    rows: Array,
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
            _shares(
                share_u[n], window, 0.0, 0.5, x, y, theta, bodies, n, k, h, RIGID, 0.0, rows[task]
            )
            _shares(
                share_v[n], window, 0.5, 0.0, x, y, theta, bodies, n, k, h, RIGID, 0.0, rows[task]
            )
            su = _moments(u[n], share_u[n], window, 0.5, yc, h, False)
            sv = _moments(v[n], share_v[n], window, 0.5, xc, h, True)
            follow_fluid(n, k, su, sv, bodies, motion, acceleration, dt[n])


@sweep
def cover(
    active: Array, chi: Array, bodies: Any, position: Array, angle: Array, h: float, sides: Array
) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    nx, ny = chi.shape[1], chi.shape[2]
    for task in prange(len(active)):
        n = active[task]
        chi[n] = 0.0
        for k in range(len(bodies.order)):
            cos, sin = math.cos(angle[n, k]), math.sin(angle[n, k])
            x, y, _, _, (i0, i1, j0, j1) = whereabouts(
                n, k, bodies, position, angle, h, nx, ny, sides
            )
            for i in range(i0, i1):
                for j in range(j0, j1):
                    distance = body_distance(
                        bodies, n, k, (i + 0.5) * h - x, (j + 0.5) * h - y, cos, sin
                    )
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
            x, y = within(x, nx * h, sides[LEFT]), within(y, ny * h, sides[BOTTOM])
            sensed[n, m, 0], sensed[n, m, 1] = velocity_at(u[n], v[n], x, y, h)

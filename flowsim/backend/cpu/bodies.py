"""Sweeps over the windows of the bodies: penalty, free motion, sensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowsim.backend.cpu.compiling import Task, inner, row_loop, sweep
from flowsim.backend.cpu.jets import add_jets, weigh_jets
from flowsim.backend.cpu.shares import resolve_overlap, write_shares
from flowsim.bodies.table import TOUCHES_BOX
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import (
    body_distance,
    diffusion_at_surface,
    locate_body,
    near_others,
    sensor_point,
    touches_box,
    within,
    wrapped,
)
from flowsim.kernels.cell import mask, velocity_at
from flowsim.kernels.distances import MIDLINE
from flowsim.kernels.jets import add_gain, ramp_jets
from flowsim.kernels.layout import (
    ANGLE,
    DT,
    FLUID_INERTIA,
    FREE,
    MASS_LAG,
    SHAPE,
    SPIN,
    TIME,
    TORQUE,
    VISCOSITY,
)
from flowsim.kernels.midline import bend as bend_midline
from flowsim.kernels.midline import bends, deformation_velocity, note_box, note_deformation
from flowsim.kernels.rigid import RIGID, follow_fluid, move_bodies, respond
from flowsim.kernels.time import grip_of_step

Array = Any


@row_loop
def _add_moments(values: Array, shares: Array, n: int, r: float, step: float) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a row; r is the lever arm of the first entry."""
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        w, g, arm = np.float64(shares[j]), np.float64(values[j]), r + j * step
        s0 += w
        s1 += w * arm
        s2 += w * arm * arm
        p0 += w * g
        p1 += w * arm * g
    return s0, s1, s2, p0, p1


@inner
def _moments(f: Array, share: Array, along_x: bool, where: Any, h: float) -> Any:
    """Return the sums of w, w r, w r^2, w f, w r f over a window, r being the lever arm of f about the centre.

    f is u (``along_x``) or v, and ``where`` what :func:`flowsim.kernels.body_geometry.locate_body` says of the body.
    """
    _, _, xc, yc, (i0, i1, j0, j1) = where
    centre = yc if along_x else xc
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    s0, s1, s2, p0, p1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for piece in range(-1, 2):
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                k, r = first - piece * ny + G, ((first if along_x else i) + 0.5) * h - centre
                step = h if along_x else 0.0
                a0, a1, a2, b0, b1 = _add_moments(values[k:], shares[k:], last - first, r, step)
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
    f: Array, share: Array, along_x: bool, where: Any, h: float, base: float, turn: float
) -> None:
    """Penalise f towards base + turn r inside a window; r is the lever arm of f about the centre of mass."""
    _, _, xc, yc, (i0, i1, j0, j1) = where
    centre = yc if along_x else xc
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    growth = turn * h if along_x else 0.0
    for i in range(i0, i1):
        shares, values = share[wrapped(i, nx) + G], f[wrapped(i, nx) + G]
        for piece in range(-1, 2):
            first, last = max(j0, piece * ny), min(j1, (piece + 1) * ny)
            if first < last:
                k, r = first - piece * ny + G, ((first if along_x else i) + 0.5) * h - centre
                _impose_on_row(values[k:], shares[k:], last - first, base + turn * r, growth)


@inner
def _deform(
    f: Array,
    share: Array,
    drift: Array,
    along_x: bool,
    where: Any,
    angle: float,
    midlines: Any,
    bodies: Any,
    n: int,
    k: int,
    h: float,
) -> None:
    """Take the velocity of deformation off f under a body, so that what is left there is to move as a rigid body."""
    if midlines is None:
        return
    x, y, _, _, (i0, i1, j0, j1) = where
    nodes, line = bodies.nodes[k], midlines[n, k]
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    dx, dy = (0.0, 0.5) if along_x else (0.5, 0.0)
    cos, sin = math.cos(angle), math.sin(angle)
    for i in range(i0, i1):
        a = wrapped(i, nx) + G
        for j in range(j0, j1):
            b = wrapped(j, ny) + G
            if share[a, b] > 0.0:
                rx, ry = (i + dx) * h - x, (j + dy) * h - y
                u, v = deformation_velocity(nodes, line, rx, ry, cos, sin)
                drift[a, b] = u if along_x else v
                f[a, b] -= drift[a, b]


@inner
def _restore(
    f: Array,
    share: Array,
    drift: Array,
    along_x: bool,
    where: Any,
    h: float,
    base: float,
    turn: float,
    midlines: Any,
) -> float:
    """Penalise f towards base + turn r, undo :func:`_deform`, and return the work that the deformation did."""
    if midlines is None:
        return 0.0
    _, _, xc, yc, (i0, i1, j0, j1) = where
    centre = yc if along_x else xc
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    real, work = f.dtype.type, 0.0
    for i in range(i0, i1):
        a = wrapped(i, nx) + G
        for j in range(j0, j1):
            b = wrapped(j, ny) + G
            if share[a, b] > 0.0:
                gap = real(base + turn * (((j if along_x else i) + 0.5) * h - centre)) - f[a, b]
                work += np.float64(share[a, b]) * drift[a, b] * gap
                f[a, b] += share[a, b] * gap + drift[a, b]
    return work * h * h


@sweep
def bend(task: Task, bodies: Any, gait: Array, form: Array, clock: Array, moves: bool) -> None:
    """Bend the midlines, as they are at the end of the step, or without ``moves`` now."""
    n = task.b
    time, dt = clock[n, TIME], clock[n, DT] if moves else 0.0
    for k in range(len(bodies.nodes)):
        if bodies.kinds[k, SHAPE] == MIDLINE:
            nodes, line = bodies.nodes[k], bodies.midlines[n, k]
            bend_midline(nodes, bodies.waves[k], gait[n, k], form[n, k], line, time, dt)
            note_box(nodes, line, bodies.boxes[n, k])


@sweep
def penalize(
    task: Task,
    rows: Array,
    u: Array,
    v: Array,
    shares: Array,
    drifts: Array,
    form: Array,
    bodies: Any,
    moves: bool,
    state: Array,
    contact: Array,
    gravity: Array,
    clock: Array,
    penalty: float,
    h: float,
    sides: Array,
    jets: Any,
) -> None:
    """Move bodies, give free ones their new velocity, drag the fluid under every body along, add up what that takes.

    ``bodies`` is a :class:`flowsim.bodies.table.BodyTable`; without ``moves`` free bodies stay and keep their velocity.
    The force on the body is the penalty integral plus the rate of change of momentum of the fluid inside. ``shares``
    and ``drifts`` (2, B, ...), of u and v, are room for what share of the faces a body has and for its velocity of
    deformation, in the frame of which one that bends is penalised as a rigid one. ``rows`` is that room of
    :func:`flowsim.backend.cpu.flow.predict`, and ``jets`` the table of jets or None.
    """
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    n = task.b
    dt, un, vn, share_u, share_v = clock[n, DT], u[n], v[n], shares[0, n], shares[1, n]
    if moves:
        move_bodies(bodies, state[n], dt)
        ramp_jets(jets, n, dt)
    contact[n] = 0
    grip = grip_of_step(clock[n], penalty, h, moves)
    for rank in range(len(bodies.order)):
        k = bodies.order[rank]
        body = state[n, k]
        theta, spin = body[ANGLE], body[SPIN]
        where = locate_body(n, k, bodies, body, h, nx, ny, sides)
        x, y = where[0], where[1]
        if touches_box(bodies, n, k, x, y, theta, h, nx, ny, sides):
            contact[n, k] |= TOUCHES_BOX
        diffusion = diffusion_at_surface(bodies, k, clock[n, VISCOSITY], dt, h)
        room = rows[task.worker]
        write_shares(share_u, True, where, theta, bodies, n, k, h, grip, diffusion, room)
        write_shares(share_v, False, where, theta, bodies, n, k, h, grip, diffusion, room)
        if rank > 0 and near_others(rank, bodies, x, y, state[n], h, nx, ny, sides):
            states, touched = state[n], contact[n]
            resolve_overlap(share_u, True, where, bodies, n, rank, states, h, grip, sides, touched)
            resolve_overlap(share_v, False, where, bodies, n, rank, states, h, grip, sides, touched)
        lines, bent = bodies.midlines, bends(bodies.midlines, bodies, k)
        if bent:
            drift_u, drift_v = drifts[0, n], drifts[1, n]
            _deform(un, share_u, drift_u, True, where, theta, lines, bodies, n, k, h)
            _deform(vn, share_v, drift_v, False, where, theta, lines, bodies, n, k, h)
        su = _moments(un, share_u, True, where, h)
        sv = _moments(vn, share_v, False, where, h)
        px, py, turn = weigh_jets(jets, n, k, where, theta, shares, grip, h, sides)
        su = su[0], su[1], su[2], su[3] - px, su[4]
        sv = sv[0], sv[1], sv[2], sv[3] - py, sv[4] - turn
        free = moves and bodies.kinds[k, FREE] != 0
        vx, vy, omega = respond(bodies.traits[k], free, body, su, sv, dt, gravity)
        if bent:
            drift_u, drift_v = drifts[0, n], drifts[1, n]
            work = _restore(un, share_u, drift_u, True, where, h, vx, -omega, lines)
            work += _restore(vn, share_v, drift_v, False, where, h, vy, omega, lines)
            inertia = bodies.traits[k, FLUID_INERTIA]
            body[TORQUE] = note_deformation(
                form[n, k], body[TORQUE], work, (spin, omega), inertia, dt
            )
            continue
        _impose(un, share_u, True, where, h, vx, -omega)
        _impose(vn, share_v, False, where, h, vy, omega)
        add_jets(jets, n, k, where, theta, un, vn, shares, h, sides)
        add_gain(jets, n, k, body, where[2] - x, where[3] - y, dt)


@sweep
def follow_light_bodies(
    task: Task,
    rows: Array,
    u: Array,
    v: Array,
    shares: Array,
    bodies: Any,
    state: Array,
    clock: Array,
    h: float,
    sides: Array,
) -> None:
    """Find the rigid motion of the fluid under every body that is lighter than it, and its rate."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    n = task.b
    share_u, share_v, room = shares[0, n], shares[1, n], rows[task.worker]
    for k in range(len(bodies.order)):
        if bodies.traits[k, MASS_LAG] == 0.0:
            continue
        body = state[n, k]
        theta = body[ANGLE]
        where = locate_body(n, k, bodies, body, h, nx, ny, sides)
        write_shares(share_u, True, where, theta, bodies, n, k, h, RIGID, 0.0, room)
        write_shares(share_v, False, where, theta, bodies, n, k, h, RIGID, 0.0, room)
        su = _moments(u[n], share_u, True, where, h)
        sv = _moments(v[n], share_v, False, where, h)
        follow_fluid(bodies.traits[k], body, su, sv, clock[n, DT])


@sweep
def cover(task: Task, chi: Array, bodies: Any, state: Array, h: float, sides: Array) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    nx, ny = chi.shape[1], chi.shape[2]
    n = task.b
    chi[n] = 0.0
    for k in range(len(bodies.order)):
        body = state[n, k]
        cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
        x, y, _, _, window = locate_body(n, k, bodies, body, h, nx, ny, sides)
        i0, i1, j0, j1 = window
        for i in range(i0, i1):
            for j in range(j0, j1):
                rx, ry = (i + 0.5) * h - x, (j + 0.5) * h - y
                distance = body_distance(bodies, n, k, rx, ry, cos, sin)
                f, g = wrapped(i, nx), wrapped(j, ny)
                chi[n, f, g] = max(chi[n, f, g], mask(distance, h))


@sweep
def sense(
    task: Task,
    u: Array,
    v: Array,
    state: Array,
    sensors: Array,
    carriers: Array,
    h: float,
    sides: Array,
    sensed: Array,
) -> None:
    """Write to ``sensed`` (B, n, 2) the velocity of the flow at sensors (n, 2) in the frames of their carriers (n,)."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    n = task.b
    for m in range(len(carriers)):
        x, y = sensor_point(state[n, carriers[m]], sensors[m])
        x, y = within(x, nx * h, sides[LEFT]), within(y, ny * h, sides[BOTTOM])
        sensed[n, m, 0], sensed[n, m, 1] = velocity_at(u[n], v[n], x, y, h)

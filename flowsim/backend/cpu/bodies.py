"""Sweeps over the windows of the bodies: penalty, free motion, sensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowsim.backend.cpu.compiling import Task, inner, row_loop, sweep
from flowsim.backend.cpu.jets import add_jets, weigh_jets
from flowsim.backend.cpu.shares import Place, resolve_overlap, write_shares
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
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Sensors
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
    place: Place,
    midlines: Any,
    bodies: Any,
    h: float,
) -> None:
    """Take the velocity of deformation off f under a body, so that what is left there is to move as a rigid body."""
    if midlines is None:
        return
    x, y, _, _, (i0, i1, j0, j1) = place.where
    nodes, line = bodies.nodes[place.k], midlines[place.n, place.k]
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    dx, dy = (0.0, 0.5) if along_x else (0.5, 0.0)
    cos, sin = math.cos(place.angle), math.sin(place.angle)
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
    motion: tuple[float, float],
    midlines: Any,
) -> float:
    """Penalise f towards base + turn r, which is ``motion``, undo :func:`_deform`, and return the work of that."""
    if midlines is None:
        return 0.0
    base, turn = motion
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
def bend(task: Task, bodies: Bodies, clock: Clock, moves: bool) -> None:
    """Bend the midlines, as they are at the end of the step, or without ``moves`` now."""
    n, table = task.b, bodies.table
    time, dt = clock.columns[n, TIME], clock.columns[n, DT] if moves else 0.0
    for k in range(len(table.nodes)):
        if table.kinds[k, SHAPE] == MIDLINE:
            nodes, line = table.nodes[k], table.midlines[n, k]
            gait, form = bodies.gait[n, k], bodies.form[n, k]
            bend_midline(nodes, table.waves[k], gait, form, line, time, dt)
            note_box(nodes, line, table.boxes[n, k])


# all that happens under a body, in its order: what is found first is needed until the end
@sweep
def penalize(
    task: Task,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    rows: Array,
    penalty: float,
    moves: bool,
) -> None:
    """Move bodies, give free ones their new velocity, drag the fluid under every body along, add up what that takes.

    Without ``moves`` free bodies stay and keep their velocity. The force on the body is the penalty integral plus the
    rate of change of momentum of the fluid inside. One that bends is penalised as a rigid one, in the frame of its
    velocity of deformation. ``rows`` is that room of :func:`flowsim.backend.cpu.flow.predict`.
    """
    shares, drifts, h, sides = fields.shares, fields.drifts, box.h, box.sides
    table, jets, state, contact = bodies.table, bodies.jets, bodies.state, bodies.contact
    nx, ny = shares.shape[2] - 2 * G, shares.shape[3] - 2 * G
    n = task.b
    now, un, vn, share_u, share_v = (
        clock.columns[n], fields.new_u[n], fields.new_v[n], shares[0, n], shares[1, n],
    )  # fmt: skip
    dt = now[DT]
    if moves:
        move_bodies(table, state[n], dt)
        ramp_jets(jets, n, dt)
    contact[n] = 0
    grip = grip_of_step(now, penalty, h, moves)
    for rank in range(len(table.order)):
        k = table.order[rank]
        body = state[n, k]
        theta, spin = body[ANGLE], body[SPIN]
        where = locate_body(n, k, table, body, h, nx, ny, sides)
        x, y = where[0], where[1]
        if touches_box(table, n, k, x, y, theta, h, nx, ny, sides):
            contact[n, k] |= TOUCHES_BOX
        diffusion = diffusion_at_surface(table, k, now[VISCOSITY], dt, h)
        room = rows[task.worker]
        place = Place(n, k, theta, where)
        write_shares(share_u, True, place, table, h, grip, diffusion, room)
        write_shares(share_v, False, place, table, h, grip, diffusion, room)
        if rank > 0 and near_others(rank, table, x, y, state[n], h, nx, ny, sides):
            resolve_overlap(share_u, True, place, rank, bodies, box, grip)
            resolve_overlap(share_v, False, place, rank, bodies, box, grip)
        lines, bent = table.midlines, bends(table.midlines, table, k)
        if bent:
            drift_u, drift_v = drifts[0, n], drifts[1, n]
            _deform(un, share_u, drift_u, True, place, lines, table, h)
            _deform(vn, share_v, drift_v, False, place, lines, table, h)
        su = _moments(un, share_u, True, where, h)
        sv = _moments(vn, share_v, False, where, h)
        px, py, turn = weigh_jets(jets, place, shares, grip, h, sides)
        su = su[0], su[1], su[2], su[3] - px, su[4]
        sv = sv[0], sv[1], sv[2], sv[3] - py, sv[4] - turn
        freedom = table.kinds[k, FREE] if moves else 0
        vx, vy, omega = respond(table.traits[k], freedom, body, su, sv, dt, box.gravity)
        if bent:
            drift_u, drift_v = drifts[0, n], drifts[1, n]
            work = _restore(un, share_u, drift_u, True, where, h, (vx, -omega), lines)
            work += _restore(vn, share_v, drift_v, False, where, h, (vy, omega), lines)
            inertia = table.traits[k, FLUID_INERTIA]
            body[TORQUE] = note_deformation(
                bodies.form[n, k], body[TORQUE], work, (spin, omega), inertia, dt
            )
            continue
        _impose(un, share_u, True, where, h, vx, -omega)
        _impose(vn, share_v, False, where, h, vy, omega)
        add_jets(jets, place, un, vn, shares, h, sides)
        add_gain(jets, n, k, body, where[2] - x, where[3] - y, dt)


@sweep
def follow_light_bodies(
    task: Task, fields: Fields, bodies: Bodies, clock: Clock, box: Box, rows: Array
) -> None:
    """Find the rigid motion of the fluid under every body that is lighter than it, and its rate."""
    u, v, shares, h, sides = fields.u, fields.v, fields.shares, box.h, box.sides
    table, state = bodies.table, bodies.state
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    n = task.b
    share_u, share_v, room = shares[0, n], shares[1, n], rows[task.worker]
    for k in range(len(table.order)):
        if table.traits[k, MASS_LAG] == 0.0:
            continue
        body = state[n, k]
        where = locate_body(n, k, table, body, h, nx, ny, sides)
        place = Place(n, k, body[ANGLE], where)
        write_shares(share_u, True, place, table, h, RIGID, 0.0, room)
        write_shares(share_v, False, place, table, h, RIGID, 0.0, room)
        su = _moments(u[n], share_u, True, where, h)
        sv = _moments(v[n], share_v, False, where, h)
        follow_fluid(table.traits[k], body, su, sv, clock.columns[n, DT])


@sweep
def cover(task: Task, chi: Array, bodies: Bodies, box: Box) -> None:
    """Write to chi (B, nx, ny) the share of each cell that lies inside any body."""
    table, state, h, sides = bodies.table, bodies.state, box.h, box.sides
    nx, ny = chi.shape[1], chi.shape[2]
    n = task.b
    chi[n] = 0.0
    for k in range(len(table.order)):
        body = state[n, k]
        cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
        x, y, _, _, window = locate_body(n, k, table, body, h, nx, ny, sides)
        i0, i1, j0, j1 = window
        for i in range(i0, i1):
            for j in range(j0, j1):
                rx, ry = (i + 0.5) * h - x, (j + 0.5) * h - y
                distance = body_distance(table, n, k, rx, ry, cos, sin)
                f, g = wrapped(i, nx), wrapped(j, ny)
                chi[n, f, g] = max(chi[n, f, g], mask(distance, h))


@sweep
def sense(task: Task, fields: Fields, bodies: Bodies, sensors: Sensors, box: Box) -> None:
    """Note the velocity of the flow at the sensors."""
    u, v, h, sides = fields.u, fields.v, box.h, box.sides
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    n = task.b
    for m in range(len(sensors.carriers)):
        x, y = sensor_point(bodies.state[n, sensors.carriers[m]], sensors.points[m])
        x, y = within(x, nx * h, sides[LEFT]), within(y, ny * h, sides[BOTTOM])
        sensors.velocity[n, m, 0], sensors.velocity[n, m, 1] = velocity_at(u[n], v[n], x, y, h)

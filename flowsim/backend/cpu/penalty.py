"""The penalty: bodies are processed one after the other, each in blocks of the rows of its window."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowsim.backend.cpu.body_rows import deform, impose, note_moments, restore, total_moments
from flowsim.backend.cpu.compiling import Task, divided, inner, rows_of, sweep
from flowsim.backend.cpu.jets import add_jets, weigh_jets
from flowsim.backend.cpu.room import (
    ANGLE,
    CENTER_X,
    CENTER_Y,
    I_HIGH,
    I_LOW,
    J_HIGH,
    J_LOW,
    MEETS,
    MOMENTS,
    OMEGA,
    SPIN,
    VX,
    VY,
    WORK,
    Room,
    X,
    Y,
)
from flowsim.backend.cpu.shares import Place, resolve_overlap, write_shares
from flowsim.bodies.table import TOUCHES_BOX
from flowsim.grid import GHOSTS as G
from flowsim.kernels import layout
from flowsim.kernels.body_geometry import (
    diffusion_at_surface,
    locate_body,
    near_others,
    touches_box,
)
from flowsim.kernels.jets import add_gain, ramp_jets
from flowsim.kernels.layout import DT, FLUID_INERTIA, FREE, MASS_LAG, TORQUE, VISCOSITY
from flowsim.kernels.midline import bends, note_deformation
from flowsim.kernels.records import Bodies, Box, Clock, Fields
from flowsim.kernels.rigid import RIGID, follow_fluid, move_bodies, respond
from flowsim.kernels.time import grip_of_step

Array = Any


def place_bodies(
    active: Array,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: Room,
    penalty: float,
    moves: bool,
) -> None:
    """Move bodies, and the flow rates of their jets towards the targets; without ``moves`` nothing moves.

    The arguments are those of :func:`penalize`, which computes what a body covers when it is its turn.
    """
    move(active, bodies, clock, moves)


def penalize(
    active: Array,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: Room,
    penalty: float,
    moves: bool,
) -> None:
    """Compute the new velocity of free bodies, drag the fluid under every body along, and compute the forces.

    Without ``moves`` free bodies keep their velocity. The force on the body is the penalty integral plus the rate of
    change of momentum of the fluid inside. A bending body is penalised like a rigid one, in the frame of its
    deformation velocity.
    """
    for rank, k in enumerate(bodies.table.order.tolist()):
        locate(active, fields, bodies, box, room, rank)
        claim(active, fields, bodies, clock, box, room, rank, penalty, moves)
        answer(active, fields, bodies, clock, box, room, k, penalty, moves)
        drag(active, fields, bodies, box, room, k)
        if bodies.jets is not None or bodies.table.midlines is not None:
            conclude(active, fields, bodies, clock, box, room, k)


def follow_light_bodies(
    active: Array, fields: Fields, bodies: Bodies, clock: Clock, box: Box, room: Room
) -> None:
    """Compute the acceleration of the fluid under bodies lighter than it, from the projected velocity."""
    ranks = {k: rank for rank, k in enumerate(bodies.table.order.tolist())}
    for k in np.flatnonzero(bodies.table.traits[:, MASS_LAG]).tolist():
        locate(active, fields, bodies, box, room, ranks[k])
        weigh(active, fields, bodies, box, room, k)
        follow(active, bodies, clock, box, room, k)


@sweep
def move(task: Task, bodies: Bodies, clock: Clock, moves: bool) -> None:
    """Move the bodies, and the flow rates of jets towards their targets; clear the contacts."""
    n = task.b
    if moves:
        move_bodies(bodies.table, bodies.state[n], clock.columns[n, DT])
        ramp_jets(bodies.jets, n, clock.columns[n, DT])
    bodies.contact[n] = 0


@sweep
def locate(task: Task, fields: Fields, bodies: Bodies, box: Box, room: Room, rank: int) -> None:
    """Locate the body of a rank, and note whether it may touch one that comes before it."""
    table, states, n, h, sides = bodies.table, bodies.state[task.b], task.b, box.h, box.sides
    nx, ny = fields.u.shape[1] - 2 * G, fields.u.shape[2] - 2 * G
    k = table.order[rank]
    place = room.places[n]
    x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, table, states[k], h, nx, ny, sides)
    place[ANGLE], place[SPIN] = states[k, layout.ANGLE], states[k, layout.SPIN]
    place[X], place[Y], place[CENTER_X], place[CENTER_Y] = x, y, xc, yc
    place[I_LOW], place[I_HIGH], place[J_LOW], place[J_HIGH] = i0, i1, j0, j1
    meets = rank > 0 and near_others(rank, table, x, y, states, h, nx, ny, sides)
    place[MEETS] = 1.0 if meets else 0.0


@inner
def _rows_of_place(task: Task, place: Array, k: int) -> Any:
    """Return the place of body k, reduced to the rows of a task, and which rows of the window these are."""
    i0, i1, j0, j1 = (
        int(place[I_LOW]), int(place[I_HIGH]), int(place[J_LOW]), int(place[J_HIGH]),
    )  # fmt: skip
    start, stop = rows_of(task, i0, i1)
    where = place[X], place[Y], place[CENTER_X], place[CENTER_Y], (start, stop, j0, j1)
    return Place(task.b, k, place[ANGLE], where), start - i0, stop - i0


@inner
def _whole_place(task: Task, place: Array, k: int) -> Place:
    return _rows_of_place(Task(task.b, 0, 1, task.worker), place, k)[0]


# many arguments: the records that the sweeps of a step share, and those of this sweep
@divided
def claim(
    task: Task,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: Room,
    rank: int,
    penalty: float,
    moves: bool,
) -> None:
    """Compute the shares of the faces that belong to the body of a rank, and the moments of the velocity there."""
    shares, drifts, h, n = fields.shares, fields.drifts, box.h, task.b
    table, found, now = bodies.table, room.places[n], clock.columns[n]
    k = table.order[rank]
    place, first, last = _rows_of_place(task, found, k)
    if first == last:
        return
    grip = grip_of_step(now, penalty, h, moves)
    diffusion = diffusion_at_surface(table, k, now[VISCOSITY], now[DT], h)
    sums, rows = room.sums[n, first:last], room.rows[task.worker]
    for component in range(2):
        along_x = component == 0
        share = shares[component, n]
        f = fields.new_u[n] if along_x else fields.new_v[n]
        write_shares(share, along_x, place, table, h, grip, diffusion, rows)
        if found[MEETS] != 0.0:
            resolve_overlap(share, along_x, place, rank, bodies, box, grip)
        if bends(table.midlines, table, k):
            deform(f, share, drifts[component, n], along_x, place, table.midlines, table, h)
        note_moments(f, share, along_x, place, h, sums)


# many arguments: the records that the sweeps of a step share, and those of this sweep
@sweep
def answer(
    task: Task,
    fields: Fields,
    bodies: Bodies,
    clock: Clock,
    box: Box,
    room: Room,
    k: int,
    penalty: float,
    moves: bool,
) -> None:
    """Compute the motion towards which the fluid under body k is penalised, and the force and torque on the body."""
    table, h, sides, n = bodies.table, box.h, box.sides, task.b
    found, sums, now = room.places[n], room.sums[n], clock.columns[n]
    nx, ny = fields.u.shape[1] - 2 * G, fields.u.shape[2] - 2 * G
    if touches_box(table, n, k, found[X], found[Y], found[ANGLE], h, nx, ny, sides):
        bodies.contact[n, k] |= TOUCHES_BOX
    count = int(found[I_HIGH]) - int(found[I_LOW])
    su, sv = total_moments(sums, 0, count, h), total_moments(sums, MOMENTS, count, h)
    grip, place = grip_of_step(now, penalty, h, moves), _whole_place(task, found, k)
    px, py, turn = weigh_jets(bodies.jets, place, fields.shares, grip, h, sides)
    su = su[0], su[1], su[2], su[3] - px, su[4]
    sv = sv[0], sv[1], sv[2], sv[3] - py, sv[4] - turn
    freedom, body = table.kinds[k, FREE] if moves else 0, bodies.state[n, k]
    vx, vy, omega = respond(table.traits[k], freedom, body, su, sv, now[DT], box.gravity)
    found[VX], found[VY], found[OMEGA] = vx, vy, omega


@divided
def drag(task: Task, fields: Fields, bodies: Bodies, box: Box, room: Room, k: int) -> None:
    """Penalise the velocity under body k towards its motion."""
    n, h, table, found = task.b, box.h, bodies.table, room.places[task.b]
    share_u, share_v = fields.shares[0, n], fields.shares[1, n]
    un, vn, vx, vy, omega = fields.new_u[n], fields.new_v[n], found[VX], found[VY], found[OMEGA]
    place, first, last = _rows_of_place(task, found, k)
    if bends(table.midlines, table, k):
        work = room.sums[n, first:last, WORK:]
        drifts = fields.drifts
        restore(un, share_u, drifts[0, n], True, place, h, (vx, -omega), work[:, 0])
        restore(vn, share_v, drifts[1, n], False, place, h, (vy, omega), work[:, 1])
    else:
        impose(un, share_u, True, place, h, vx, -omega)
        impose(vn, share_v, False, place, h, vy, omega)


@sweep
def conclude(
    task: Task, fields: Fields, bodies: Bodies, clock: Clock, box: Box, room: Room, k: int
) -> None:
    """Add the velocity of the jets, and store the work of a deformation."""
    n, h, table, jets, found = task.b, box.h, bodies.table, bodies.jets, room.places[task.b]
    body, dt = bodies.state[n, k], clock.columns[n, DT]
    if bends(table.midlines, table, k):
        work = 0.0
        for i in range(int(found[I_HIGH]) - int(found[I_LOW])):
            work += room.sums[n, i, WORK] + room.sums[n, i, WORK + 1]
        spins, inertia = (found[SPIN], found[OMEGA]), table.traits[k, FLUID_INERTIA]
        body[TORQUE] = note_deformation(
            bodies.form[n, k], body[TORQUE], work * h * h, spins, inertia, dt
        )
        return
    place = _whole_place(task, found, k)
    add_jets(jets, place, fields.new_u[n], fields.new_v[n], fields.shares, h, box.sides)
    add_gain(jets, n, k, body, found[CENTER_X] - found[X], found[CENTER_Y] - found[Y], dt)


@divided
def weigh(task: Task, fields: Fields, bodies: Bodies, box: Box, room: Room, k: int) -> None:
    """Compute the moments of the projected velocity under body k."""
    n, h, table = task.b, box.h, bodies.table
    place, first, last = _rows_of_place(task, room.places[n], k)
    if first == last:
        return
    sums, rows = room.sums[n, first:last], room.rows[task.worker]
    for component in range(2):
        along_x = component == 0
        share = fields.shares[component, n]
        write_shares(share, along_x, place, table, h, RIGID, 0.0, rows)
        f = fields.u[n] if along_x else fields.v[n]
        note_moments(f, share, along_x, place, h, sums)


@sweep
def follow(task: Task, bodies: Bodies, clock: Clock, box: Box, room: Room, k: int) -> None:
    """Compute the rigid motion of the fluid under body k, and its rate."""
    n, found, sums = task.b, room.places[task.b], room.sums[task.b]
    count = int(found[I_HIGH]) - int(found[I_LOW])
    su, sv = total_moments(sums, 0, count, box.h), total_moments(sums, MOMENTS, count, box.h)
    follow_fluid(bodies.table.traits[k], bodies.state[n, k], su, sv, clock.columns[n, DT])

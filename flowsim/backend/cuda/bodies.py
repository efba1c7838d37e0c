"""Sweeps over the bodies other than the penalty: bending midlines, light bodies, solid fractions of cells, sensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import SIMULATED, WARP, Kernel, block_sums
from flowsim.backend.cuda.windows import (
    SUMS,
    THREADS,
    BodyRoom,
    moments,
    my_part,
    my_place,
    sum_parts,
    with_face,
)
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import (
    body_distance,
    locate_body,
    sensor_point,
    within,
    wrapped,
)
from flowsim.kernels.cell import mask, penalized_share, velocity_at
from flowsim.kernels.distances import MIDLINE
from flowsim.kernels.layout import (
    ANGLE,
    DT,
    MASS_LAG,
    SHAPE,
    TIME,
)
from flowsim.kernels.midline import bend as bend_midline
from flowsim.kernels.midline import note_box
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Sensors
from flowsim.kernels.rigid import RIGID, follow_fluid

Array = Any


@Kernel
def _bend(active: Array, bodies: Any, gait: Array, form: Array, clock: Array, moves: bool) -> None:
    n = cuda.blockIdx.x
    if not active[n]:
        return
    time, dt = clock[n, TIME], clock[n, DT] if moves else 0.0
    for k in range(cuda.threadIdx.x, len(bodies.nodes), cuda.blockDim.x):
        if bodies.kinds[k, SHAPE] == MIDLINE:
            nodes, line = bodies.nodes[k], bodies.midlines[n, k]
            bend_midline(nodes, bodies.waves[k], gait[n, k], form[n, k], line, time, dt)
            note_box(nodes, line, bodies.boxes[n, k])


def bend(active: Array, bodies: Bodies, clock: Clock, moves: bool) -> None:
    """Bend the midlines to the end of the step, or to the current time without ``moves``."""
    arrays = bodies.table, bodies.gait, bodies.form, clock.columns
    _bend.launch((len(active),), (32 if not SIMULATED else 2,), active, *arrays, moves)


@Kernel
def _weigh_light_bodies(
    active: Array, u: Array, v: Array, bodies: Any, state: Array, h: float, sides: Array, room: Any
) -> None:
    """Compute the sums over parts of the windows of bodies lighter than the fluid, weighted by the solid fraction."""
    chunk, k, n = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
    if not active[n] or bodies.traits[k, MASS_LAG] == 0.0:
        return
    scratch = cuda.shared.array((SUMS, THREADS), np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    body = state[n, k]
    cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
    x, y, xc, yc, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
    of_u = of_v = (0.0, 0.0, 0.0, 0.0, 0.0)
    i_first, i_step, j_first, j_step = my_part(room.along, room.across, chunk)
    row, lane = my_place()
    for i in range(i0 + i_first + row, i1, i_step):
        f = wrapped(i, nx) + G
        for j in range(j0 + j_first + lane, j1, j_step):
            g = wrapped(j, ny) + G
            distance = body_distance(bodies, n, k, i * h - x, (j + 0.5) * h - y, cos, sin)
            w = penalized_share(mask(distance, h), RIGID)
            of_u = with_face(of_u, w, (j + 0.5) * h - yc, u[n, f, g])
            distance = body_distance(bodies, n, k, (i + 0.5) * h - x, j * h - y, cos, sin)
            w = penalized_share(mask(distance, h), RIGID)
            of_v = with_face(of_v, w, (i + 0.5) * h - xc, v[n, f, g])
    block_sums(of_u + of_v, scratch)
    for m in range(cuda.threadIdx.x, SUMS, cuda.blockDim.x):
        room.sums[n, k, m, chunk] = scratch[m, 0]


@Kernel
def _follow_light_bodies(
    active: Array, bodies: Any, state: Array, clock: Array, h: float, room: Any
) -> None:
    """Store the rigid motion of the fluid under those bodies."""
    k, n, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    if not active[n] or bodies.traits[k, MASS_LAG] == 0.0:
        return
    scratch = cuda.shared.array((SUMS, 1), np.float64)
    sum_parts(room, n, k, scratch)
    if t == 0:
        su, sv = moments(scratch, 0, h), moments(scratch, 5, h)
        follow_fluid(bodies.traits[k], state[n, k], su, sv, clock[n, DT])


def follow_light_bodies(
    active: Array, fields: Fields, bodies: Bodies, clock: Clock, box: Box, room: BodyRoom
) -> None:
    """Compute the rigid motion of the fluid under every body that is lighter than it, and its rate."""
    batch, count, _, parts = room.sums.shape
    table, state, h = bodies.table, bodies.state, box.h
    _weigh_light_bodies.launch(
        (parts, count, batch), (THREADS,), active, fields.u, fields.v, table, state, h, box.sides,
        room,
    )  # fmt: skip
    _follow_light_bodies.launch(
        (count, batch), (SUMS * WARP,), active, table, state, clock.columns, h, room
    )


@Kernel
def _cover(active: Array, chi: Array, bodies: Any, state: Array, h: float, sides: Array) -> None:
    n, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    if not active[n]:
        return
    nx, ny = chi.shape[1], chi.shape[2]
    for k in range(len(bodies.order)):
        body = state[n, k]
        cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
        x, y, _, _, (i0, i1, j0, j1) = locate_body(n, k, bodies, body, h, nx, ny, sides)
        width = j1 - j0
        for cell in range(t, (i1 - i0) * width, threads):
            i, j = i0 + cell // width, j0 + cell % width
            distance = body_distance(bodies, n, k, (i + 0.5) * h - x, (j + 0.5) * h - y, cos, sin)
            f, g = wrapped(i, nx), wrapped(j, ny)
            chi[n, f, g] = max(chi[n, f, g], mask(distance, h))
        cuda.syncthreads()


def cover(active: Array, chi: Array, bodies: Bodies, box: Box) -> None:
    """Write the fraction of each cell that lies inside any body to chi (B, nx, ny)."""
    chi[:] = 0.0
    arguments = bodies.table, bodies.state, box.h, box.sides
    _cover.launch((len(active),), (THREADS,), active, chi, *arguments)


@Kernel
def _sense(
    active: Array, u: Array, v: Array, state: Array, sensors: Sensors, h: float, sides: Array
) -> None:
    n = cuda.blockIdx.x
    if not active[n]:
        return
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    for m in range(cuda.threadIdx.x, len(sensors.carriers), cuda.blockDim.x):
        x, y = sensor_point(state[n, sensors.carriers[m]], sensors.points[m])
        x, y = within(x, nx * h, sides[LEFT]), within(y, ny * h, sides[BOTTOM])
        sensors.velocity[n, m, 0], sensors.velocity[n, m, 1] = velocity_at(u[n], v[n], x, y, h)


def sense(active: Array, fields: Fields, bodies: Bodies, sensors: Sensors, box: Box) -> None:
    """Store the velocity of the flow at the sensors."""
    arguments = fields.u, fields.v, bodies.state, sensors, box.h, box.sides
    _sense.launch((len(active),), (32 if not SIMULATED else 4,), active, *arguments)

"""Sweeps over bodies other than the penalty: bending midlines, solid fractions of cells, sensors."""

from __future__ import annotations

import math
from typing import Any

from flowsim.backend.cpu.compiling import Task, sweep
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import body_distance, locate_body, sensor_point, within, wrapped
from flowsim.kernels.cell import mask, velocity_at
from flowsim.kernels.distances import MIDLINE
from flowsim.kernels.layout import ANGLE, DT, SHAPE, TIME
from flowsim.kernels.midline import bend as bend_midline
from flowsim.kernels.midline import note_box
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Sensors

Array = Any


@sweep
def bend(task: Task, bodies: Bodies, clock: Clock, moves: bool) -> None:
    """Bend the midlines to the end of the step, or to the current time without ``moves``."""
    n, table = task.b, bodies.table
    time, dt = clock.columns[n, TIME], clock.columns[n, DT] if moves else 0.0
    for k in range(len(table.nodes)):
        if table.kinds[k, SHAPE] == MIDLINE:
            nodes, line = table.nodes[k], table.midlines[n, k]
            gait, form = bodies.gait[n, k], bodies.form[n, k]
            bend_midline(nodes, table.waves[k], gait, form, line, time, dt)
            note_box(nodes, line, table.boxes[n, k])


@sweep
def cover(task: Task, chi: Array, bodies: Bodies, box: Box) -> None:
    """Write the fraction of each cell that lies inside any body to chi (B, nx, ny)."""
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
    """Store the velocity of the flow at the sensors."""
    u, v, h, sides = fields.u, fields.v, box.h, box.sides
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    n = task.b
    for m in range(len(sensors.carriers)):
        x, y = sensor_point(bodies.state[n, sensors.carriers[m]], sensors.points[m])
        x, y = within(x, nx * h, sides[LEFT]), within(y, ny * h, sides[BOTTOM])
        sensors.velocity[n, m, 0], sensors.velocity[n, m, 1] = velocity_at(u[n], v[n], x, y, h)

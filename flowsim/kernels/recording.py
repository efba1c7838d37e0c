"""Schedule of the measurements of an advancing flow, and layout of the rows of a recording, shared by all backends.

Each instrument has a schedule with a row for each flow, which is checked when a step has ended. It never changes a
step: a flow is measured after the first step that ends at or after the due time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flowsim.boundary import BOTTOM, LEFT, SIDES, TOP
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import PERIODIC, velocity_at
from flowsim.kernels.device_function import device_function
from flowsim.kernels.layout import (
    ANGLE,
    DIFFUSIVITY,
    DT,
    FORCE_X,
    FORCE_Y,
    SPIN,
    TIME,
    TORQUE,
    VX,
    VY,
    X,
    Y,
)
from flowsim.kernels.records import Clock

Array = Any

# schedules (B, 13)
START, INTERVAL, STRIDE, NEXT = range(4)
"""Start, interval in time and in steps, and time of the next measurement."""
SEEN, COUNT, ELAPSED = range(4, 7)
"""Number of steps of the flow at the last check, and steps and time since the last measurement."""
STEP, FIRST, DUE = range(7, 10)
"""Of the step that has just ended: its size, whether it is the first after a measurement, and the time since that
measurement if the next one is due now; zero otherwise."""
READY, REFERENCE = 10, 11
"""The last DUE that the host has not seen yet, and the static pressure of the stream at that time."""
GIVEN = 12
"""Whether the start was given: then a reset does not move it."""
SCHEDULE_COLUMNS = 13

# columns of a recording: flow, then each body and each probe; with a temperature, then each side and each probe
ROW_TIME, ROW_DT, ROW_STEP, ROW_INTERVAL = range(4)
FLOW_COLUMNS, BODY_COLUMNS, PROBE_COLUMNS = 4, 14, 3
LOADS = 4
"""Force along x and y, torque and power: a row has their values in the last step and their means over the interval."""

TOLERANCE = 1e-9
"""Tolerance of times, as at the end of a step (:func:`flowsim.kernels.time.end`)."""


class Reference(NamedTuple):
    """Reference of the pressure: the mean of p + ``head`` |u|^2 over ``cells`` (n, 2), minus ``level``."""

    cells: Array
    head: float
    level: float


class Log(NamedTuple):
    """Arrays that a recorder writes.

    Attributes
    ----------
    probes : (n, 2) float64
    sums : (B, K, 4) float64
        Integrals of the loads since the last row.
    rows : (B, room, columns) float64
    count : (B,) int64
        Number of rows.
    """

    probes: Array
    sums: Array
    rows: Array
    count: Array


@device_function
def next_time(row: Array, time: float) -> float:
    """Return the first time after ``time`` that is a multiple of the interval from the start."""
    if row[INTERVAL] <= 0.0:
        return -math.inf
    number = math.floor((time - row[START]) / row[INTERVAL] + TOLERANCE)
    return row[START] + row[INTERVAL] * max(number + 1.0, 1.0)


@device_function
def look(b: int, clock: Clock, schedule: Array) -> bool:
    """Update the schedule after a step of flow b, if it has taken one, and return whether a measurement is due."""
    row, taken = schedule[b], float(clock.steps[b])
    time, dt = clock.columns[b, TIME], clock.columns[b, DT]
    row[STEP], row[FIRST], row[DUE] = 0.0, 0.0, 0.0
    if taken == row[SEEN]:
        return False
    if taken < row[SEEN]:  # the flow was reset, or set to an older state
        if row[GIVEN] == 0.0:
            row[START] = min(row[START], time - dt)
        row[COUNT], row[ELAPSED], row[NEXT] = 0.0, 0.0, next_time(row, time - dt)
    row[SEEN] = taken
    if time - dt < row[START] - TOLERANCE:
        return False
    row[STEP], row[FIRST] = dt, 1.0 if row[COUNT] == 0.0 else 0.0
    row[COUNT] += 1.0
    row[ELAPSED] += dt
    if row[COUNT] < row[STRIDE] or time < row[NEXT] - TOLERANCE:
        return False
    row[DUE], row[READY] = row[ELAPSED], row[ELAPSED]
    row[COUNT], row[ELAPSED], row[NEXT] = 0.0, 0.0, next_time(row, time)
    return True


@device_function
def pressure_in(u: Array, v: Array, p: Array, cell: Array, head: float) -> float:
    """Return p + ``head`` |u|^2 of a cell (i, j) of one flow."""
    i, j = cell[0], cell[1]
    west, east = float(u[i + G, j + G]), float(u[i + G + 1, j + G])
    south, north = float(v[i + G, j + G]), float(v[i + G, j + G + 1])
    squares = (0.5 * (west + east)) ** 2 + (0.5 * (south + north)) ** 2
    return float(p[i, j]) + head * squares


@device_function
def at_centres(p: Array, x: float, y: float, h: float) -> float:
    """Interpolate a field bilinearly between cell centres; points beyond the outermost centres are moved there."""
    x = min(max(x / h - 0.5, 0.0), p.shape[0] - 1.0)
    y = min(max(y / h - 0.5, 0.0), p.shape[1] - 1.0)
    i, j = min(int(x), p.shape[0] - 2), min(int(y), p.shape[1] - 2)
    s, t = x - i, y - j
    low = (1.0 - s) * p[i, j] + s * p[i + 1, j]
    high = (1.0 - s) * p[i, j + 1] + s * p[i + 1, j + 1]
    return (1.0 - t) * low + t * high


@device_function
def add_loads(row: Array, bodies: Array, sums: Array) -> None:
    """Add the loads on the bodies of one flow in the step that ended to their integrals over time (K, 4)."""
    for k in range(bodies.shape[0]):
        body, total = bodies[k], sums[k]
        if row[FIRST] != 0.0:
            for n in range(LOADS):
                total[n] = 0.0
        total[0] += body[FORCE_X] * row[STEP]
        total[1] += body[FORCE_Y] * row[STEP]
        total[2] += body[TORQUE] * row[STEP]
        total[3] += power_of(body) * row[STEP]


@device_function
def power_of(body: Array) -> float:
    """Return the power that the fluid transfers to a body."""
    return body[FORCE_X] * body[VX] + body[FORCE_Y] * body[VY] + body[TORQUE] * body[SPIN]


@device_function
def probe_column(m: int, bodies: int) -> int:
    """Return the first column of probe m in a row of a flow with ``bodies`` bodies."""
    return FLOW_COLUMNS + BODY_COLUMNS * bodies + PROBE_COLUMNS * m


@device_function
def write_flow_and_bodies(
    b: int, schedule: Array, clock: Clock, bodies: Array, sums: Array, out: Array
) -> None:
    """Write the columns of flow b and of its bodies to a row of a recording."""
    interval = schedule[b, DUE]
    out[ROW_TIME], out[ROW_DT] = clock.columns[b, TIME], clock.columns[b, DT]
    out[ROW_STEP] = float(clock.steps[b])
    out[ROW_INTERVAL] = interval
    for k in range(bodies.shape[0]):
        body, at = bodies[k], FLOW_COLUMNS + BODY_COLUMNS * k
        out[at], out[at + 1], out[at + 2] = body[X], body[Y], body[ANGLE]
        out[at + 3], out[at + 4], out[at + 5] = body[VX], body[VY], body[SPIN]
        out[at + 6], out[at + 7], out[at + 8] = body[FORCE_X], body[FORCE_Y], body[TORQUE]
        out[at + 9] = power_of(body)
        for n in range(LOADS):
            out[at + 10 + n] = sums[k, n] / interval


@device_function
def write_probe(
    at: int, reference: float, u: Array, v: Array, p: Array, point: Array, h: float, out: Array
) -> None:
    """Write velocity and pressure at a probe of one flow to a row of a recording, from column ``at`` on."""
    out[at], out[at + 1] = velocity_at(u, v, point[0], point[1], h)
    out[at + 2] = at_centres(p, point[0], point[1], h) - reference


@device_function
def mean_heat_flux(temperature: Array, side: int, kappa: float, h: float) -> float:
    """Return the mean diffusive temperature flux into the box through a side of one flow, whose ghosts are filled."""
    t = temperature.T if side in (BOTTOM, TOP) else temperature
    inside, beyond = (G, G - 1) if side in (LEFT, BOTTOM) else (t.shape[0] - G - 1, t.shape[0] - G)
    total, n = 0.0, t.shape[1] - 2 * G
    for m in range(G, G + n):
        total += float(t[beyond, m]) - float(t[inside, m])
    return kappa * total / (h * n)


@device_function
def write_side_and_probe(
    number: int, probes: Array, temperature: Array, clock: Array, sides: Array, h: float, out: Array
) -> None:
    """Write the heat flux through a side or, from number 4 on, the temperature at a probe, to its column."""
    if number >= SIDES:
        point = probes[number - SIDES]
        out[number] = at_centres(temperature[G:-G, G:-G], point[0], point[1], h)
    elif sides[number] == PERIODIC:
        out[number] = math.nan
    else:
        out[number] = mean_heat_flux(temperature, number, clock[DIFFUSIVITY], h)

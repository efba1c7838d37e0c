"""Sweeps over the temperature: ghost points, advection and diffusion, buoyancy, bodies with a given temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowsim.backend.cpu.compiling import Task, divided, row_loop, rows_of, sweep
from flowsim.backend.cpu.flow import flux_along_row, flux_between_rows
from flowsim.backend.cpu.room import Room
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import body_distance, locate_body, wrapped
from flowsim.kernels.cell import HALF, ONE, adams_bashforth, mask, penalized_share
from flowsim.kernels.heat import (
    BUOYANCY_X,
    BUOYANCY_Y,
    REFERENCE,
    buoyancy,
    fill_line,
    lifted_faces,
)
from flowsim.kernels.layout import ANGLE, DIFFUSIVITY, DT, RATIO
from flowsim.kernels.records import Bodies, Box, Clock, Fields, Heat
from flowsim.kernels.time import grip_of_step

Array = Any


@sweep
def fill_temperature(task: Task, fields: Fields, heat: Heat, clock: Clock, box: Box) -> None:
    """Fill the ghost points of the temperature from the sides of the box."""
    nx, ny = fields.pressure.shape[1], fields.pressure.shape[2]
    flat, around = heat.temperature.reshape(-1), (box.h, box.sides, nx, ny)
    u, v = fields.u.reshape(-1), fields.v.reshape(-1)
    for m in range(ny):
        fill_line(heat, flat, u, clock.columns, around, task.b, LEFT, m)
    for m in range(nx):
        fill_line(heat, flat, v, clock.columns, around, task.b, BOTTOM, m)


# many arguments: LLVM does not see that the rows of one array do not overlap, and would not vectorize the loop
@row_loop
def _advance_row(
    new: Array,
    f: Array,
    old: Array,
    west: Array,
    east: Array,
    across: Array,
    n: int,
    dt: Any,
    ratio: Any,
    per_h: Any,
) -> None:
    """Advance one row by its rate, and keep the rate for the next step."""
    for j in range(n):
        rate = per_h * ((west[j] - east[j]) + (across[j] - across[j + 1]))
        new[j + G] = adams_bashforth(f[j + G], rate, old[j + G], dt, ratio)
        old[j + G] = rate


@row_loop
def _lift_row(
    new: Array, rate: Array, one: Array, other: Array, n: int, half: Any, level: Any, step: Any
) -> None:
    """Add the buoyancy of the cells on either side of faces to the velocity and to the rates of these."""
    for j in range(n):
        b = buoyancy(one[j], other[j], half, level)
        new[j] += step * b
        rate[j] += b


@divided
def advance_temperature(
    task: Task, fields: Fields, heat: Heat, clock: Clock, box: Box, room: Room
) -> None:
    """Write the temperature after advection and diffusion to new_temperature."""
    temperature, b, h = heat.temperature, task.b, box.h
    real = temperature.dtype.type
    nx, ny = fields.pressure.shape[1], fields.pressure.shape[2]
    now, per_12, per_h = clock.columns[b], real(1.0 / 12.0), real(1.0 / h)
    step, ratio, way = real(now[DT]), real(now[RATIO]), real(now[DIFFUSIVITY] / h)
    u, v, t = fields.u[b], fields.v[b], temperature[b]
    fluxes = room.rows[task.worker]
    across = fluxes[4]
    start, stop = rows_of(task, 0, nx)
    k = start + G
    flux_between_rows(fluxes[0], u[k, G:], u[k, G:], t, k, G, ny, per_12, way)
    for i in range(start, stop):
        k = i + G
        odd = (i - start) % 2
        west, east = fluxes[odd], fluxes[1 - odd]
        flux_between_rows(east, u[k + 1, G:], u[k + 1, G:], t, k + 1, G, ny, per_12, way)
        flux_along_row(across, v[k, G:], v[k, G:], t[k], G, ny + 1, per_12, way)
        _advance_row(
            heat.new_temperature[b, k], t[k], heat.rate[b, k], west, east, across, ny, step, ratio, per_h
        )  # fmt: skip


@divided
def lift(task: Task, fields: Fields, heat: Heat, clock: Clock, box: Box) -> None:
    """Add buoyancy to new_u and new_v, and to the rates that a multi-step method uses."""
    b, t, sides = task.b, heat.temperature[task.b], box.sides
    real = heat.temperature.dtype.type
    nx, ny = fields.pressure.shape[1], fields.pressure.shape[2]
    now, columns = clock.columns[b], heat.columns[b]
    step = real(now[DT]) * (ONE + HALF * real(now[RATIO]))
    along_x, along_y, level = columns[BUOYANCY_X], columns[BUOYANCY_Y], columns[REFERENCE]
    start, stop = rows_of(task, 0, nx)
    if along_x != 0.0:
        first, end = lifted_faces(sides, True, nx)
        half, of_level = real(0.5 * along_x), real(along_x * level)
        # the face behind the last row belongs to the last block
        for i in range(max(start, first), min(end, nx + 1) if stop == nx else stop):
            k = i + G
            _lift_row(
                fields.new_u[b, k, G:], fields.rate_u[b, k, G:], t[k - 1, G:], t[k, G:], ny, half, of_level, step
            )  # fmt: skip
    if along_y != 0.0:
        first, end = lifted_faces(sides, False, ny)
        half, of_level = real(0.5 * along_y), real(along_y * level)
        j = first + G
        for k in range(start + G, stop + G):
            _lift_row(
                fields.new_v[b, k, j:], fields.rate_v[b, k, j:], t[k, j - 1 :], t[k, j:], end - first,
                half, of_level, step,
            )  # fmt: skip


@row_loop
def _copy(source: Array, target: Array, n: int) -> None:
    for j in range(n):
        target[j] = source[j]


@divided
def keep_temperature(task: Task, heat: Heat) -> None:
    """Copy new_temperature to the temperature of the flow."""
    nx, ny = heat.temperature.shape[1] - 2 * G, heat.temperature.shape[2] - 2 * G
    start, stop = rows_of(task, 0, nx)
    for k in range(start + G, stop + G):
        _copy(heat.new_temperature[task.b, k, G:], heat.temperature[task.b, k, G:], ny)


@sweep
def heat_bodies(
    task: Task, heat: Heat, bodies: Bodies, clock: Clock, box: Box, penalty: float
) -> None:
    """Penalise new_temperature under every body with a given temperature towards that, implicitly."""
    n, table, h = task.b, bodies.table, box.h
    new, real = heat.new_temperature[n], heat.temperature.dtype.type
    nx, ny = new.shape[0] - 2 * G, new.shape[1] - 2 * G
    grip, of_bodies = grip_of_step(clock.columns[n], penalty, h, True), heat.of_bodies
    for k in range(len(table.order)):
        held = of_bodies[k]  # type: ignore[index]
        if math.isnan(held):
            continue
        body = bodies.state[n, k]
        cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
        x, y, _, _, (i0, i1, j0, j1) = locate_body(n, k, table, body, h, nx, ny, box.sides)
        for i in range(i0, i1):
            for j in range(j0, j1):
                rx, ry = (i + 0.5) * h - x, (j + 0.5) * h - y
                share = penalized_share(mask(body_distance(table, n, k, rx, ry, cos, sin), h), grip)
                f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
                here = np.float64(new[f, g])
                new[f, g] = real(here + share * (held - here))

"""Kernels over the temperature: ghost points, advection and diffusion, buoyancy, bodies with a given temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.flow import flattened
from flowsim.backend.cuda.launching import THREADS, TILE, Kernel, cell_blocks
from flowsim.backend.cuda.sides import LINES
from flowsim.boundary import BOTTOM, LEFT
from flowsim.grid import GHOSTS as G
from flowsim.kernels.body_geometry import body_distance, locate_body, wrapped
from flowsim.kernels.cell import HALF, ONE, adams_bashforth, flux, mask, penalized_share
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


@Kernel
def _fill(
    active: Array, fields: Fields, heat: Heat, clock: Clock, box: Box, nx: int, ny: int
) -> None:
    """Fill both ends of lines, with one thread per line: first those along x, then those along y."""
    b, m = cuda.blockIdx.x, cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    if m >= nx + ny or not active[b]:
        return
    low, line = (LEFT, m) if m < ny else (BOTTOM, m - ny)
    normal = fields.u if m < ny else fields.v
    known = box.h, box.sides, nx, ny
    fill_line(heat, heat.temperature, normal, clock.columns, known, b, low, line)


def fill_temperature(active: Array, fields: Fields, heat: Heat, clock: Clock, box: Box) -> None:
    """Fill the ghost points of the temperature from the sides of the box."""
    batch, nx, ny = fields.pressure.shape
    flat = flattened(fields), heat._replace(temperature=heat.temperature.reshape(-1))
    blocks = batch, -(-(nx + ny) // LINES)
    _fill.launch(blocks, (LINES,), active, *flat, clock, box, nx, ny)


@Kernel
def _advance(
    active: Array, fields: Fields, heat: Heat, time: Clock, nx: int, ny: int, over_h: float
) -> None:
    j, i, b = cuda.grid(3)
    if i >= nx or j >= ny or not active[b]:
        return
    u, v, new, old, clock = fields.u, fields.v, heat.new_temperature, heat.rate, time.columns
    real, t = heat.temperature.dtype.type, heat.temperature[b]
    per_12, per_h, way = real(1.0 / 12.0), real(over_h), real(clock[b, DIFFUSIVITY] * over_h)
    k, j = i + G, j + G
    here = t[k, j]
    west = flux(u[b, k, j], t[k - 2, j], t[k - 1, j], here, t[k + 1, j], per_12, way)
    east = flux(u[b, k + 1, j], t[k - 1, j], here, t[k + 1, j], t[k + 2, j], per_12, way)
    south = flux(v[b, k, j], t[k, j - 2], t[k, j - 1], here, t[k, j + 1], per_12, way)
    north = flux(v[b, k, j + 1], t[k, j - 1], here, t[k, j + 1], t[k, j + 2], per_12, way)
    rate = per_h * ((west - east) + (south - north))
    new[b, k, j] = adams_bashforth(
        here, rate, old[b, k, j], real(clock[b, DT]), real(clock[b, RATIO])
    )
    old[b, k, j] = rate


def advance_temperature(
    active: Array, fields: Fields, heat: Heat, clock: Clock, box: Box, room: Any
) -> None:
    """Write the temperature after advection and diffusion to new_temperature."""
    batch, nx, ny = fields.pressure.shape
    tiles = cell_blocks(nx, ny, batch), (*TILE, 1)
    _advance.launch(*tiles, active, fields, heat, clock, nx, ny, 1.0 / box.h)


@Kernel
def _lift(
    active: Array, fields: Fields, heat: Heat, clock: Clock, box: Box, nx: int, ny: int
) -> None:
    j, i, b = cuda.grid(3)
    if i > nx or j > ny or not active[b]:
        return
    real, t, now = heat.temperature.dtype.type, heat.temperature[b], clock.columns[b]
    new_u, new_v, rate_u, rate_v = fields.new_u, fields.new_v, fields.rate_u, fields.rate_v
    sides, columns = box.sides, heat.columns
    step = real(now[DT]) * (ONE + HALF * real(now[RATIO]))
    along_x, along_y = columns[b, BUOYANCY_X], columns[b, BUOYANCY_Y]
    level, (k, m) = columns[b, REFERENCE], (i + G, j + G)
    first, end = lifted_faces(sides, True, nx)
    if along_x != 0.0 and first <= i < end and j < ny:
        push = buoyancy(t[k - 1, m], t[k, m], real(0.5 * along_x), real(along_x * level))
        new_u[b, k, m] += step * push
        rate_u[b, k, m] += push
    first, end = lifted_faces(sides, False, ny)
    if along_y != 0.0 and first <= j < end and i < nx:
        push = buoyancy(t[k, m - 1], t[k, m], real(0.5 * along_y), real(along_y * level))
        new_v[b, k, m] += step * push
        rate_v[b, k, m] += push


def lift(active: Array, fields: Fields, heat: Heat, clock: Clock, box: Box) -> None:
    """Add buoyancy to new_u and new_v, and to the rates that a multi-step method uses."""
    batch, nx, ny = fields.pressure.shape
    tiles = cell_blocks(nx + 1, ny + 1, batch), (*TILE, 1)
    _lift.launch(*tiles, active, fields, heat, clock, box, nx, ny)


@Kernel
def _keep(active: Array, temperature: Array, new: Array, nx: int, ny: int) -> None:
    j, i, b = cuda.grid(3)
    if i < nx and j < ny and active[b]:
        temperature[b, i + G, j + G] = new[b, i + G, j + G]


def keep_temperature(active: Array, heat: Heat) -> None:
    """Copy new_temperature to the temperature of the flow."""
    batch, wide, high = heat.temperature.shape
    nx, ny = wide - 2 * G, high - 2 * G
    tiles = cell_blocks(nx, ny, batch), (*TILE, 1)
    _keep.launch(*tiles, active, heat.temperature, heat.new_temperature, nx, ny)


@Kernel
def _heat_bodies(
    active: Array, heat: Heat, bodies: Bodies, clock: Clock, box: Box, penalty: float
) -> None:
    n, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    if not active[n]:
        return
    of_bodies: Any = heat.of_bodies
    table, new, h, sides = bodies.table, heat.new_temperature, box.h, box.sides
    real, nx, ny = new.dtype.type, new.shape[1] - 2 * G, new.shape[2] - 2 * G
    grip = grip_of_step(clock.columns[n], penalty, h, True)
    for k in range(len(table.order)):
        held, body = of_bodies[k], bodies.state[n, k]
        if not math.isnan(held):
            cos, sin = math.cos(body[ANGLE]), math.sin(body[ANGLE])
            x, y, _, _, (i0, i1, j0, j1) = locate_body(n, k, table, body, h, nx, ny, sides)
            width = j1 - j0
            for cell in range(t, (i1 - i0) * width, threads):
                i, j = i0 + cell // width, j0 + cell % width
                rx, ry = (i + 0.5) * h - x, (j + 0.5) * h - y
                chi = mask(body_distance(table, n, k, rx, ry, cos, sin), h)
                share = penalized_share(chi, grip)
                f, g = wrapped(i, nx) + G, wrapped(j, ny) + G
                here = np.float64(new[n, f, g])
                new[n, f, g] = real(here + share * (held - here))
        cuda.syncthreads()


def heat_bodies(
    active: Array, heat: Heat, bodies: Bodies, clock: Clock, box: Box, penalty: float
) -> None:
    """Penalise new_temperature under every body with a given temperature towards that, implicitly."""
    _heat_bodies.launch((len(active),), (THREADS,), active, heat, bodies, clock, box, penalty)

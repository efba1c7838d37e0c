"""The force per unit mass that drives a flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import THREADS, TILE, Kernel, block_sums, cell_blocks
from flowsim.grid import GHOSTS as G
from flowsim.kernels.forcing import FORCE_X, FORCE_Y, TARGET_X, TARGET_Y, hold_mean, is_held
from flowsim.kernels.layout import DT
from flowsim.kernels.records import Clock, Fields, Forcing

Array = Any


@Kernel
def _hold(active: Array, u: Array, v: Array, columns: Array, clock: Array) -> None:
    """Compute the force that holds the mean velocity; with one block per simulation the sum is reproducible."""
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[b]:
        return
    scratch = cuda.shared.array((2, THREADS), np.float64)
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    along_x, along_y = is_held(columns[b, TARGET_X]), is_held(columns[b, TARGET_Y])
    sum_x, sum_y = 0.0, 0.0
    for cell in range(t, nx * ny if along_x or along_y else 0, cuda.blockDim.x):
        i, j = cell // ny + G, cell % ny + G
        sum_x += float(u[b, i, j])
        sum_y += float(v[b, i, j])
    block_sums((sum_x, sum_y), scratch)
    if t == 0:
        cells = nx * ny
        hold_mean(columns[b], scratch[0, 0] / cells, scratch[1, 0] / cells, clock[b, DT])


@Kernel
def _push(active: Array, new_u: Array, new_v: Array, columns: Array, clock: Array) -> None:
    j, i, b = cuda.grid(3)
    if i + 2 * G <= new_u.shape[1] and j + 2 * G <= new_u.shape[2] and active[b]:
        real = new_u.dtype.type
        new_u[b, i + G, j + G] += real(columns[b, FORCE_X] * clock[b, DT])
        new_v[b, i + G, j + G] += real(columns[b, FORCE_Y] * clock[b, DT])


@Kernel
def _push_by_field(
    active: Array, new_u: Array, new_v: Array, along_x: Array, along_y: Array, clock: Array
) -> None:
    j, i, b = cuda.grid(3)
    if i + 2 * G <= new_u.shape[1] and j + 2 * G <= new_u.shape[2] and active[b]:
        step = new_u.dtype.type(clock[b, DT])
        new_u[b, i + G, j + G] += step * along_x[b, i + G, j + G]
        new_v[b, i + G, j + G] += step * along_y[b, i + G, j + G]


def push(active: Array, fields: Fields, clock: Clock, forcing: Forcing) -> None:
    """Add the effect of the force to new_u and new_v, as on the CPU."""
    u, v, new = fields.u, fields.v, (fields.new_u, fields.new_v)
    batch, nx, ny = u.shape[0], u.shape[1] - 2 * G, u.shape[2] - 2 * G
    _hold.launch((batch,), (THREADS,), active, u, v, forcing.columns, clock.columns)
    tiles = cell_blocks(nx + 1, ny + 1, batch), (*TILE, 1)
    _push.launch(*tiles, active, *new, forcing.columns, clock.columns)
    if forcing.along_x is not None:
        field = forcing.along_x, forcing.along_y
        _push_by_field.launch(*tiles, active, *new, *field, clock.columns)

"""Sweeps over the sides of the box: ghost points, and the velocity normal to the sides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.flow import cell_index
from flowsim.backend.cuda.launching import THREADS, Kernel, block_sums
from flowsim.boundary import BOTTOM, LEFT, RIGHT, SIDES, TOP, is_low, normal_to_x
from flowsim.grid import GHOSTS as G
from flowsim.kernels.cell import HALF, OPEN, PERIODIC, adams_bashforth, flux, open_side_rate
from flowsim.kernels.ghosts import fill_normal, fill_tangential
from flowsim.kernels.layout import DT, RATIO, VISCOSITY
from flowsim.kernels.mass_balance import balance_sides, faces_of, set_sides

Array = Any


@Kernel
def _fill_ghosts(
    active: Array, u: Array, v: Array, nx: int, ny: int, sides: Array, given: Array
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[b]:
        return
    wide, high = nx + 2 * G, ny + 2 * G
    start = b * wide * high
    for j in range(t, high, cuda.blockDim.x):
        fill_normal(u, start + j, high, nx, sides[LEFT], sides[RIGHT])
    for i in range(t, wide, cuda.blockDim.x):
        fill_normal(v, start + i * high, 1, ny, sides[BOTTOM], sides[TOP])
    for turn in range(2):
        cuda.syncthreads()
        # what looks whether flow enters through a ring comes after the ring is closed
        if (turn == 0) == (sides[LEFT] == PERIODIC):
            for j in range(t, high, cuda.blockDim.x):
                fill_tangential(v, u, start + j, high, nx, sides, LEFT, given, b, 1, j, 1, high)
        else:
            for i in range(t, wide, cuda.blockDim.x):
                fill_tangential(
                    u, v, start + i * high, 1, ny, sides, BOTTOM, given, b, 0, i, high, wide
                )


def fill_ghosts(active: Array, u: Array, v: Array, sides: Array, given: Array) -> None:
    """Fill the ghost points of u and v (B, nx + 2G, ny + 2G) from the sides of the box.

    ``given`` (B, 4, 2, n) is the velocity (u, v) on each side, at the padded indices of the faces there.
    """
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    _fill_ghosts.launch(
        (len(active),), (THREADS,), active, u.reshape(-1), v.reshape(-1), nx, ny, sides, given
    )


@Kernel
def _predict_open_sides(
    active: Array,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    old_u: Array,
    old_v: Array,
    p: Array,
    nx: int,
    ny: int,
    sides: Array,
    given: Array,
    clock: Array,
    over_h: float,
) -> None:
    b, side = cuda.blockIdx.x, cuda.blockIdx.y
    if sides[side] != OPEN or not active[b]:
        return
    real = u.dtype.type
    per_12, per_h, nu_per_h = real(1.0 / 12.0), real(over_h), real(clock[b, VISCOSITY] * over_h)
    dt, r, two_dth = real(clock[b, DT]), real(clock[b, RATIO]), real(2.0 * clock[b, DT] * over_h)
    low, component = is_low(side), 0 if normal_to_x(side) else 1
    f, new, old, along = (u, new_u, old_u, v) if normal_to_x(side) else (v, new_v, old_v, u)
    start, step, inwards, cells = faces_of(side, nx, ny, b)
    outwards = real(-1 if low else 1)
    # the cells behind the side have the index of their lower faces
    behind = start if low else start + inwards
    up = inwards if low else -inwards
    first_cell = 0 if low else (nx - 1 if normal_to_x(side) else ny - 1)
    for m in range(cuda.threadIdx.x, cells, cuda.blockDim.x):
        o, c = start + m * step, behind + m * step
        before = flux(along[c], f[o - 2 * step], f[o - step], f[o], f[o + step], per_12, nu_per_h)
        after = flux(
            along[c + step], f[o - step], f[o], f[o + step], f[o + 2 * step], per_12, nu_per_h
        )
        centre = flux(
            HALF * (f[c] + f[c + up]), f[c - up], f[c], f[c + up], f[c + 2 * up], per_12, nu_per_h
        )
        outside = given[b, side, component, m + G]
        rate = open_side_rate(outwards, f[o], centre, before, after, outside, per_h)
        i, j = (first_cell, m) if normal_to_x(side) else (m, first_cell)
        pressure = p[cell_index(b, i, j, nx, ny)]
        new[o] = adams_bashforth(f[o], rate, old[o], dt, r) + outwards * two_dth * pressure
        old[o] = rate


def predict_open_sides(
    active: Array,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    old_u: Array,
    old_v: Array,
    p: Array,
    sides: Array,
    given: Array,
    clock: Array,
    h: float,
) -> None:
    """Do what :func:`predict` does for the normal velocity on ``open`` sides, from the half cells behind them."""
    _, nx, ny = p.shape
    flat = [field.reshape(-1) for field in (u, v, new_u, new_v, old_u, old_v, p)]
    blocks = (len(active), SIDES)
    _predict_open_sides.launch(
        blocks, (THREADS,), active, *flat, nx, ny, sides, given, clock, 1.0 / h
    )


@Kernel
def _update_sides(
    active: Array,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    nx: int,
    ny: int,
    sides: Array,
    given: Array,
    clock: Array,
    h: float,
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[b]:
        return
    scratch = cuda.shared.array((1, THREADS), np.float64)
    old, new, threads = (u, v), (new_u, new_v), cuda.blockDim.x
    net = set_sides(b, old, new, nx, ny, sides, given, clock[b, DT], h, t, threads)
    block_sums((net,), scratch)
    balance_sides(b, new, nx, ny, sides, scratch[0, 0], t, threads)


def update_sides(
    active: Array,
    u: Array,
    v: Array,
    new_u: Array,
    new_v: Array,
    sides: Array,
    given: Array,
    clock: Array,
    h: float,
) -> None:
    """Set the normal velocity on all sides but ``open`` ones, without a net flux where there are none of these."""
    nx, ny = u.shape[1] - 2 * G, u.shape[2] - 2 * G
    flat = [field.reshape(-1) for field in (u, v, new_u, new_v)]
    _update_sides.launch((len(active),), (THREADS,), active, *flat, nx, ny, sides, given, clock, h)

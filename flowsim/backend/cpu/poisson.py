"""The sweeps of the pressure solver: transform along y, tridiagonal systems along x."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numba import prange
from threadpoolctl import ThreadpoolController

from flowsim.backend.cpu.compiling import inner, rows_of, sweep
from flowsim.poisson import PoissonPlan

Array = Any


@sweep
def multiply(active: Array, blocks: int, d: Array, matrix: Array, out: Array) -> None:
    """Write d @ matrix for every active simulation: the transform along y."""
    nx = d.shape[1]
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        start, stop = rows_of(task, blocks, 0, nx)
        np.dot(d[b, start:stop], matrix, out[b, start:stop])


@inner
def _solve_mode_zero(d: Array, periodic: bool) -> None:
    """Solve phi[i-1] - 2 phi[i] + phi[i+1] = d[i] by two summations in float64; d and phi have zero mean."""
    real = d.dtype.type
    nx = d.shape[0]
    mean, slope, first = 0.0, 0.0, 0.0
    for i in range(nx):
        mean += np.float64(d[i, 0])
    mean /= nx
    if periodic:  # the slopes around the ring add up to zero
        for i in range(nx):
            slope += np.float64(d[i, 0]) - mean
            first -= slope / nx
    phi, total, slope = 0.0, 0.0, first
    for i in range(nx):
        value = np.float64(d[i, 0]) - mean
        if periodic and i == 0:
            slope = first + value
            d[i, 0] = real(phi)
        elif i == 0:
            slope = value
            d[i, 0] = real(phi)
        else:
            phi += slope
            slope += value
            d[i, 0] = real(phi)
        total += phi
    for i in range(nx):
        d[i, 0] -= real(total / nx)


@sweep
def solve_tridiagonal(
    active: Array, blocks: int, d: Array, pivots: Array, closure: Array, closure_pivot: Array, periodic: bool
) -> None:
    """Solve the systems along x of :class:`flowsim.poisson.PoissonPlan` in place, mode by mode."""
    nx, ny = d.shape[1], d.shape[2]
    for task in prange(len(active) * blocks):
        b = active[task // blocks]
        start, stop = rows_of(task, blocks, 1, ny)
        n = nx - 1 if periodic else nx
        x = d[b]
        for m in range(start, stop):
            x[0, m] *= pivots[0, m]
        for i in range(1, n):
            row, above, pivot = x[i], x[i - 1], pivots[i]
            for m in range(start, stop):
                row[m] = (row[m] - above[m]) * pivot[m]
        for i in range(n - 2, -1, -1):
            row, below, pivot = x[i], x[i + 1], pivots[i]
            for m in range(start, stop):
                row[m] -= pivot[m] * below[m]
        if periodic:
            for m in range(start, stop):
                x[n, m] = (x[n, m] - x[0, m] - x[n - 1, m]) * closure_pivot[m]
            for i in range(n):
                for m in range(start, stop):
                    x[i, m] += closure[i, m] * x[n, m]
        if task % blocks == 0:
            _solve_mode_zero(x, periodic)


def solve_poisson(active: Array, blocks: int, d: Array, modes: Array, plan: PoissonPlan) -> None:
    """Solve lap phi = d on unit spacing in place; ``modes`` is room for the transform."""
    if plan.by_matrix:
        multiply(active, blocks, d, plan.forward, modes)
    else:
        modes[active] = plan.transform(d[active])
    solve_tridiagonal(active, blocks, modes, plan.pivots, plan.closure, plan.closure_pivot, plan.periodic[0])
    if plan.by_matrix:
        multiply(active, blocks, modes, plan.backward, d)
    else:
        d[active] = plan.inverse_transform(modes[active])


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """Keep the BLAS inside the sweeps from starting threads of its own."""
    return _blas().limit(limits=1, user_api="blas")

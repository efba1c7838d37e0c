"""The force per unit mass that drives a flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowsim.backend.cpu.compiling import Task, inner, row_loop, sweep
from flowsim.grid import GHOSTS as G
from flowsim.kernels.forcing import FORCE_X, FORCE_Y, TARGET_X, TARGET_Y, hold_mean, is_held
from flowsim.kernels.layout import DT
from flowsim.kernels.records import Clock, Fields, Forcing

Array = Any


@row_loop
def _sum(values: Array) -> float:
    total = 0.0
    for j in range(len(values)):
        total += np.float64(values[j])
    return total


@row_loop
def _push_row(new: Array, push: Any) -> None:
    for j in range(len(new)):
        new[j] += push


@row_loop
def _push_row_by_field(new: Array, field: Array, step: Any) -> None:
    for j in range(len(new)):
        new[j] += step * field[j]


@inner
def _mean(f: Array) -> float:
    """Return the mean of u or v over the box, which is periodic in the direction of that component."""
    nx, ny = f.shape[0] - 2 * G, f.shape[1] - 2 * G
    total = 0.0
    for i in range(nx):
        total += _sum(f[i + G, G : G + ny])
    return total / (nx * ny)


@inner
def _push(new: Array, force: float, fields: Array | None, b: int, dt: float) -> None:
    """Add the effect of a uniform force and of a force field, if there is one, in a step of simulation b."""
    real = new.dtype.type
    nx, ny = new.shape[0] - 2 * G, new.shape[1] - 2 * G
    for i in range(G, G + nx + 1):
        _push_row(new[i, G : G + ny + 1], real(force * dt))
        if fields is not None:
            _push_row_by_field(new[i, G : G + ny + 1], fields[b, i, G : G + ny + 1], real(dt))


@sweep
def push(task: Task, fields: Fields, clock: Clock, forcing: Forcing) -> None:
    """Add the effect of the force to new_u and new_v, after computing it where it holds the mean velocity."""
    b = task.b
    columns, dt = forcing.columns[b], clock.columns[b, DT]
    mean_x = _mean(fields.u[b]) if is_held(columns[TARGET_X]) else 0.0
    mean_y = _mean(fields.v[b]) if is_held(columns[TARGET_Y]) else 0.0
    hold_mean(columns, mean_x, mean_y, dt)
    _push(fields.new_u[b], columns[FORCE_X], forcing.along_x, b, dt)
    _push(fields.new_v[b], columns[FORCE_Y], forcing.along_y, b, dt)

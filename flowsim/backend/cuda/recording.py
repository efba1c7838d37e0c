"""Kernels that measure a flow at the end of a step while it advances, with a block of threads for each flow.

Whether a flow has taken a step is read from the schedule and not from ``active``, so that a flow that has just stopped
is measured, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import THREADS, Kernel, block_sums
from flowsim.boundary import SIDES
from flowsim.kernels.layout import RUNNING
from flowsim.kernels.recording import (
    DUE,
    REFERENCE,
    Log,
    Reference,
    add_loads,
    pressure_in,
    probe_column,
    write_flow_and_bodies,
    write_probe,
    write_side_and_probe,
)
from flowsim.kernels.recording import look as look_at
from flowsim.kernels.records import Bodies, Box, Clock, Fields

Array = Any


@Kernel
def _look(
    clock: Clock, u: Array, v: Array, p: Array, schedule: Array, reference: Reference, pauses: bool
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    scratch = cuda.shared.array((1, THREADS), np.float64)
    if t == 0:
        look_at(b, clock, schedule)
    cuda.syncthreads()
    if schedule[b, DUE] == 0.0:
        return
    total, cells = 0.0, reference.cells
    for n in range(t, len(cells), cuda.blockDim.x):
        total += pressure_in(u[b], v[b], p[b], cells[n], reference.head)
    block_sums((total,), scratch)
    if t == 0:
        schedule[b, REFERENCE] = scratch[0, 0] / len(cells) - reference.level
        if pauses:
            clock.flags[RUNNING, b] = False


@Kernel
def _record(
    clock: Clock, u: Array, v: Array, p: Array, state: Array, h: float, schedule: Array, log: Log
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    rows, count = log.rows, log.count
    number = min(count[b], rows.shape[1] - 1)
    cuda.syncthreads()
    if t == 0:
        add_loads(schedule[b], state[b], log.sums[b])
    if schedule[b, DUE] == 0.0:
        return
    row, reference = rows[b, number], schedule[b, REFERENCE]
    for m in range(t, len(log.probes), cuda.blockDim.x):
        at = probe_column(m, state.shape[1])
        write_probe(at, reference, u[b], v[b], p[b], log.probes[m], h, row)
    if t == 0:
        write_flow_and_bodies(b, schedule, clock, state[b], log.sums[b], row)
        count[b] = number + 1
        if count[b] == rows.shape[1]:
            clock.flags[RUNNING, b] = False


@Kernel
def _record_temperature(
    clock: Array, temperature: Array, sides: Array, h: float, schedule: Array, log: Log, bodies: int
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if schedule[b, DUE] == 0.0:
        return
    probes, number = log.probes, min(log.count[b], log.rows.shape[1] - 1)
    out = log.rows[b, number, probe_column(len(probes), bodies) :]
    for m in range(t, SIDES + len(probes), cuda.blockDim.x):
        write_side_and_probe(m, probes, temperature[b], clock[b], sides, h, out)


def look(
    active: Array,
    clock: Clock,
    fields: Fields,
    schedule: Array,
    reference: Reference,
    pauses: bool,
) -> None:
    """See :func:`flowsim.backend.cpu.recording.look`."""
    flow = clock, fields.u, fields.v, fields.pressure
    _look.launch((len(active),), (THREADS,), *flow, schedule, reference, pauses)


def record(
    active: Array,
    clock: Clock,
    fields: Fields,
    bodies: Bodies,
    h: float,
    schedule: Array,
    log: Log,
) -> None:
    """See :func:`flowsim.backend.cpu.recording.record`."""
    flow = clock, fields.u, fields.v, fields.pressure, bodies.state
    _record.launch((len(active),), (THREADS,), *flow, h, schedule, log)


def record_temperature(
    active: Array,
    clock: Clock,
    temperature: Array,
    box: Box,
    schedule: Array,
    log: Log,
    bodies: int,
) -> None:
    """See :func:`flowsim.backend.cpu.recording.record_temperature`."""
    flow = clock.columns, temperature, box.sides, box.h
    _record_temperature.launch((len(active),), (THREADS,), *flow, schedule, log, bodies)

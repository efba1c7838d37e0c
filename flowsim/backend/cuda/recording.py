"""Kernels at the end of a step by which a flow is measured while it advances: a block of threads for each flow.

They ask the schedule and not ``active`` whether a flow has taken a step: one that has come to its end is measured, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import THREADS, Kernel, block_sums
from flowsim.kernels.layout import RUNNING
from flowsim.kernels.recording import (
    DUE,
    REFERENCE,
    add_loads,
    pressure_in,
    write_flow_and_bodies,
    write_probe,
)
from flowsim.kernels.recording import look as look_at

Array = Any


@Kernel
def _look(
    clock: Array,
    steps: Array,
    flags: Array,
    schedule: Array,
    u: Array,
    v: Array,
    p: Array,
    cells: Array,
    head: float,
    level: float,
    pauses: bool,
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    scratch = cuda.shared.array((1, THREADS), np.float64)
    if t == 0:
        look_at(b, clock, steps, schedule)
    cuda.syncthreads()
    if schedule[b, DUE] == 0.0:
        return
    total = 0.0
    for n in range(t, len(cells), cuda.blockDim.x):
        total += pressure_in(u[b], v[b], p[b], cells[n], head)
    block_sums((total,), scratch)
    if t == 0:
        schedule[b, REFERENCE] = scratch[0, 0] / len(cells) - level
        if pauses:
            flags[RUNNING, b] = False


@Kernel
def _record(
    clock: Array,
    steps: Array,
    flags: Array,
    schedule: Array,
    u: Array,
    v: Array,
    p: Array,
    state: Array,
    probes: Array,
    h: float,
    sums: Array,
    rows: Array,
    count: Array,
) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    number = min(count[b], rows.shape[1] - 1)
    cuda.syncthreads()
    if t == 0:
        add_loads(schedule[b], state[b], sums[b])
    if schedule[b, DUE] == 0.0:
        return
    row = rows[b, number]
    for m in range(t, len(probes), cuda.blockDim.x):
        write_probe(m, state.shape[1], schedule[b, REFERENCE], u[b], v[b], p[b], probes[m], h, row)
    if t == 0:
        write_flow_and_bodies(b, schedule, clock, steps, state[b], sums[b], row)
        count[b] = number + 1
        if count[b] == rows.shape[1]:
            flags[RUNNING, b] = False


def look(active: Array, *arguments: Any) -> None:
    """See :func:`flowsim.backend.cpu.recording.look`."""
    _look.launch((len(active),), (THREADS,), *arguments)


def record(active: Array, *arguments: Any) -> None:
    """See :func:`flowsim.backend.cpu.recording.record`."""
    _record.launch((len(active),), (THREADS,), *arguments)

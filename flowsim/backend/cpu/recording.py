"""Sweeps at the end of a step by which a flow is measured while it advances."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import Task, sweep
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


@sweep
def look(
    task: Task,
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
    """See :func:`flowsim.kernels.recording.look`; with ``pauses``, a flow that is to be measured waits for the host.

    The pressure of reference is the mean of p + ``head`` |u|^2 over ``cells`` (n, 2), less ``level``.
    """
    b = task.b
    if look_at(b, clock, steps, schedule):
        total = 0.0
        for n in range(len(cells)):
            total += pressure_in(u[b], v[b], p[b], cells[n], head)
        schedule[b, REFERENCE] = total / len(cells) - level
        if pauses:
            flags[RUNNING, b] = False


@sweep
def record(
    task: Task,
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
    """Write a row (B, n, columns) for a flow that is to be measured; a flow whose rows are full waits for the host.

    ``count`` (B,) is how many there are, ``sums`` (B, K, 4) the integrals of the loads since the last row.
    """
    b = task.b
    add_loads(schedule[b], state[b], sums[b])
    if schedule[b, DUE] == 0.0:
        return
    number = min(count[b], rows.shape[1] - 1)
    row = rows[b, number]
    write_flow_and_bodies(b, schedule, clock, steps, state[b], sums[b], row)
    reference = schedule[b, REFERENCE]
    for m in range(len(probes)):
        write_probe(m, state.shape[1], reference, u[b], v[b], p[b], probes[m], h, row)
    count[b] = number + 1
    if count[b] == rows.shape[1]:
        flags[RUNNING, b] = False

"""Sweeps that measure a flow at the end of a step while it advances."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import Task, sweep
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


@sweep
def look(
    task: Task, clock: Clock, fields: Fields, schedule: Array, reference: Reference, pauses: bool
) -> None:
    """See :func:`flowsim.kernels.recording.look`; with ``pauses``, a flow with a due measurement waits for the host."""
    b, cells = task.b, reference.cells
    if look_at(b, clock, schedule):
        u, v, p = fields.u[b], fields.v[b], fields.pressure[b]
        total = 0.0
        for n in range(len(cells)):
            total += pressure_in(u, v, p, cells[n], reference.head)
        schedule[b, REFERENCE] = total / len(cells) - reference.level
        if pauses:
            clock.flags[RUNNING, b] = False


@sweep
def record(
    task: Task, clock: Clock, fields: Fields, bodies: Bodies, h: float, schedule: Array, log: Log
) -> None:
    """Write a row if a measurement of the flow is due; a flow whose rows are full waits for the host."""
    b, state = task.b, bodies.state
    add_loads(schedule[b], state[b], log.sums[b])
    if schedule[b, DUE] == 0.0:
        return
    u, v, p = fields.u[b], fields.v[b], fields.pressure[b]
    number = min(log.count[b], log.rows.shape[1] - 1)
    row = log.rows[b, number]
    write_flow_and_bodies(b, schedule, clock, state[b], log.sums[b], row)
    reference = schedule[b, REFERENCE]
    for m in range(len(log.probes)):
        at = probe_column(m, state.shape[1])
        write_probe(at, reference, u, v, p, log.probes[m], h, row)
    log.count[b] = number + 1
    if log.count[b] == log.rows.shape[1]:
        clock.flags[RUNNING, b] = False


@sweep
def record_temperature(
    task: Task, clock: Clock, temperature: Array, box: Box, schedule: Array, log: Log, bodies: int
) -> None:
    """Write the temperature columns of the next row if a measurement is due; call this before :func:`record`."""
    b = task.b
    if schedule[b, DUE] == 0.0:
        return
    probes, number = log.probes, min(log.count[b], log.rows.shape[1] - 1)
    out = log.rows[b, number, probe_column(len(probes), bodies) :]
    for m in range(SIDES + len(probes)):
        write_side_and_probe(m, probes, temperature[b], clock.columns[b], box.sides, box.h, out)

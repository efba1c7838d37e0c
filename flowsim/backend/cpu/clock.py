"""Begin and end of a step, swept over simulations."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import Task, sweep
from flowsim.kernels.records import Bodies, Box, Clock
from flowsim.kernels.time import begin, end

Array = Any


@sweep
def begin_step(
    task: Task,
    clock: Clock,
    bodies: Bodies,
    box: Box,
    cfl: float,
    stable_decay: float,
    multistep: bool,
) -> None:
    """See :func:`flowsim.kernels.time.begin`."""
    b = task.b
    begin(clock.columns[b], bodies.state[b], box.h, cfl, stable_decay, multistep)


@sweep
def end_step(task: Task, clock: Clock, bodies: Bodies) -> None:
    """See :func:`flowsim.kernels.time.end`."""
    b = task.b
    end(b, clock, bodies.state, bodies.contact)

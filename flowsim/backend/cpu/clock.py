"""Begin and end of a step, swept over simulations."""

from __future__ import annotations

from typing import Any

from flowsim.backend.cpu.compiling import Task, sweep
from flowsim.kernels.time import begin, end

Array = Any


@sweep
def begin_step(
    task: Task,
    clock: Array,
    state: Array,
    h: float,
    cfl: float,
    stable_decay: float,
    multistep: bool,
) -> None:
    """See :func:`flowsim.kernels.time.begin`."""
    b = task.b
    begin(clock[b], state[b], h, cfl, stable_decay, multistep)


@sweep
def end_step(task: Task, clock: Array, steps: Array, flags: Array, state: Array) -> None:
    """See :func:`flowsim.kernels.time.end`."""
    b = task.b
    end(b, clock, steps, flags, state)

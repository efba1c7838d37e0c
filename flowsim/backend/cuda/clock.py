"""Begin and end of a step: one thread for each simulation."""

from __future__ import annotations

import math
from typing import Any

from numba import cuda

from flowsim.backend.cuda.launching import THREADS, Kernel
from flowsim.kernels.time import begin, end

Array = Any


@Kernel
def _begin(
    active: Array,
    clock: Array,
    state: Array,
    h: float,
    cfl: float,
    stable_decay: float,
    multistep: bool,
) -> None:
    b = cuda.grid(1)
    if b < active.size and active[b]:
        begin(clock[b], state[b], h, cfl, stable_decay, multistep)


@Kernel
def _end(active: Array, clock: Array, steps: Array, flags: Array, state: Array) -> None:
    b = cuda.grid(1)
    if b < active.size and active[b]:
        end(b, clock, steps, flags, state)


def begin_step(active: Array, *arguments: Any) -> None:
    """See :func:`flowsim.kernels.time.begin`."""
    _begin.launch((math.ceil(len(active) / THREADS),), (THREADS,), active, *arguments)


def end_step(active: Array, *arguments: Any) -> None:
    """See :func:`flowsim.kernels.time.end`."""
    _end.launch((math.ceil(len(active) / THREADS),), (THREADS,), active, *arguments)

"""Begin and end of a step, with one thread per simulation."""

from __future__ import annotations

import math
from typing import Any

from numba import cuda

from flowsim.backend.cuda.launching import THREADS, Kernel
from flowsim.kernels.records import Bodies, Box, Clock
from flowsim.kernels.time import begin, end

Array = Any


@Kernel
def _begin(
    active: Array,
    clock: Clock,
    state: Array,
    h: float,
    cfl: float,
    stable_decay: float,
    multistep: bool,
) -> None:
    b = cuda.grid(1)
    if b < active.size and active[b]:
        begin(clock.columns[b], state[b], h, cfl, stable_decay, multistep)


@Kernel
def _end(active: Array, clock: Clock, state: Array, contact: Array) -> None:
    b = cuda.grid(1)
    if b < active.size and active[b]:
        end(b, clock, state, contact)


def begin_step(
    active: Array,
    clock: Clock,
    bodies: Bodies,
    box: Box,
    cfl: float,
    stable_decay: float,
    multistep: bool,
) -> None:
    """See :func:`flowsim.kernels.time.begin`."""
    blocks = (math.ceil(len(active) / THREADS),)
    method = cfl, stable_decay, multistep
    _begin.launch(blocks, (THREADS,), active, clock, bodies.state, box.h, *method)


def end_step(active: Array, clock: Clock, bodies: Bodies) -> None:
    """See :func:`flowsim.kernels.time.end`."""
    blocks = (math.ceil(len(active) / THREADS),)
    _end.launch(blocks, (THREADS,), active, clock, bodies.state, bodies.contact)

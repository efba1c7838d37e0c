"""Begin and end of a step: one thread for each simulation, one block where speeds are compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda.launching import THREADS, Kernel
from flowsim.kernels.time import begin, end, note_speed

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
def _find_speed(active: Array, speeds: Array, clock: Array, flags: Array) -> None:
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[b]:
        return
    largest = cuda.shared.array(THREADS, np.float64)
    fastest = 0.0
    for tile in range(t, speeds.shape[1], cuda.blockDim.x):
        fastest = max(fastest, float(speeds[b, tile]))
    largest[t] = fastest
    width = cuda.blockDim.x // 2
    while width > 0:
        cuda.syncthreads()
        if t < width:
            largest[t] = max(largest[t], largest[t + width])
        width //= 2
    if t == 0:
        note_speed(b, largest[0], clock, flags)


@Kernel
def _end(active: Array, clock: Array, steps: Array, flags: Array, state: Array) -> None:
    b = cuda.grid(1)
    if b < active.size and active[b]:
        end(b, clock, steps, flags, state)


def begin_step(active: Array, *arguments: Any) -> None:
    """See :func:`flowsim.kernels.time.begin`."""
    _begin.launch((math.ceil(len(active) / THREADS),), (THREADS,), active, *arguments)


def find_speed(active: Array, blocks: int, speeds: Array, clock: Array, flags: Array) -> None:
    """Find the largest |u| + |v| from that of each block, and who has blown up."""
    _find_speed.launch((len(active),), (THREADS,), active, speeds, clock, flags)


def end_step(active: Array, *arguments: Any) -> None:
    """See :func:`flowsim.kernels.time.end`."""
    _end.launch((math.ceil(len(active) / THREADS),), (THREADS,), active, *arguments)
